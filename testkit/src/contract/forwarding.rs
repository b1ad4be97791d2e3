//! A flow that sends messages on when they are due: the scheduler as a service.

use std::sync::Arc;

use redrive_core::Reason;
use redrive_engine::handler::Forward;
use redrive_engine::port::{Deed, EntryState};
use redrive_engine::{Flow, FlowSpec};
use serde_json::json;

use super::exits::reads;
use super::stage::with_headers;
use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::{Call, Scripted};

/// Where messages of these scenarios go.
const TARGET: &str = "mail";

/// The flow with a forwarding handler.
fn forwards(stage: &Stage<'_>, allow: &[&str]) -> FlowSpec {
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.handler = Arc::new(Forward::new(allow));
    spec
}

/// A time so many ticks from now, as a header says it.
fn due(stage: &Stage<'_>, ticks: u32) -> String {
    (stage.now() + stage.tick * ticks).as_millis().to_string()
}

/// What arrived at the target under this id.
async fn arrived(fixture: &impl Fixture, reader: &Scripted, id: &str) -> Call {
    eventually(fixture, &format!("{id} at its target"), || async {
        reader.calls_of(id).pop().ok_or_else(|| "nothing".to_owned())
    })
    .await
}

async fn ends(stage: &Stage<'_>, reading: Flow, flow: Flow) {
    reading.stop().await;
    stage.ends(flow).await;
}

/// A message waits, uncharged, until it is due and then goes on with its own headers alone; one without a time goes at
/// once and leaves no trace.
pub async fn a_message_goes_to_its_target_when_it_is_due(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let target = stage.address(TARGET);
    let flow = stage.start(forwards(&stage, &[&stage.address("ma*")])).await;
    let (reading, reader) = reads(&stage, TARGET).await;
    let at = due(&stage, 40);
    let later = [("type", "Reminder"), ("x-forward-to", target.as_str()), ("x-process-after", at.as_str())];
    stage.publish_message(with_headers("later", &later)).await;
    let entry = stage.stands("later", EntryState::Waiting).await;
    assert_eq!((entry.attempts, entry.reason.as_str()), (0, "SCHEDULED"));
    assert_eq!(entry.due_at.map(|due| due.as_millis().to_string()), Some(at.clone()));

    stage.publish_message(with_headers("now", &[("x-forward-to", target.as_str())])).await;
    arrived(fixture, &reader, "now").await;
    assert!(stage.ports.ledger.entry("now").await.expect("an answer").is_none(), "it left a trace");

    let call = arrived(fixture, &reader, "later").await;
    assert!(stage.now().as_millis() >= at.parse().expect("a time"), "it came before its time");
    let message = &call.message;
    assert_eq!(message.body, with_headers("later", &[]).body);
    assert_eq!(message.headers.get_text("type", 64).as_deref(), Some("Reminder"));
    let own = |name: &str| name.starts_with("x-") && redrive_core::headers::Field::of(name).is_some();
    let left: Vec<_> = message.headers.iter().filter(|header| own(header.name.as_str())).collect();
    assert!(left.is_empty(), "it carries {left:?}");
    let entry = stage.stands("later", EntryState::Recovered).await;
    assert_eq!(entry.attempts, 0);
    stage.drained().await;
    ends(&stage, reading, flow).await;
}

/// A target that is not allowed, none at all, a time that nobody can read, one that is too far away: a person looks.
pub async fn what_may_not_be_sent_on_is_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.start(forwards(&stage, &[TARGET])).await;
    let far = (stage.now() + redrive_engine::handler::LONGEST_FORWARD + stage.tick * 1_000).as_millis();
    let far = far.to_string();
    let wrong: [(&str, &[(&str, &str)]); 4] = [
        ("elsewhere", &[("x-forward-to", "mails")]),
        ("nowhere", &[]),
        ("sometime", &[("x-forward-to", TARGET), ("x-process-after", "tomorrow")]),
        ("far", &[("x-forward-to", TARGET), ("x-process-after", &far)]),
    ];
    for (id, headers) in wrong {
        stage.publish_message(with_headers(id, headers)).await;
    }
    for (id, _) in wrong {
        let entry = stage.stands(id, EntryState::Parked).await;
        assert_eq!(entry.reason, Reason::FORWARD_REFUSED, "{id}");
        assert_eq!(entry.attempts, 1, "{id}");
    }
    stage.drained().await;
    stage.ends(flow).await;
}

/// A target that is allowed and does not take the message: it is parked, and does not lie in hand.
pub async fn a_target_that_does_not_take_a_message_gets_it_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.start(forwards(&stage, &["*"])).await;
    stage.publish_message(with_headers("a", &[("x-forward-to", "no name of a queue")])).await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert_eq!(entry.reason, Reason::FORWARD_REFUSED);
    assert!(entry.because.contains("does not take it"), "{}", entry.because);
    stage.drained().await;
    stage.ends(flow).await;
}

/// A scheduled message stands in the ledger like one that waits for its retry.
pub async fn a_person_sends_a_scheduled_message_at_once_or_cancels_it(fixture: &impl Fixture) {
    if !fixture.capabilities().waiting_is_reachable {
        return not_applicable("retry-now and cancel", "waiting messages cannot be reached");
    }
    let stage = Stage::open(fixture).await;
    let target = stage.address(TARGET);
    let flow = stage.start(forwards(&stage, &[&target])).await;
    let (reading, reader) = reads(&stage, TARGET).await;
    let at = due(&stage, 100_000);
    for id in ["sent", "cancelled"] {
        let headers = [("x-forward-to", target.as_str()), ("x-process-after", at.as_str())];
        stage.publish_message(with_headers(id, &headers)).await;
        stage.stands(id, EntryState::Waiting).await;
    }
    stage.done(Deed::RetryNow, "sent").await;
    arrived(fixture, &reader, "sent").await;
    stage.stands("sent", EntryState::Recovered).await;
    stage.done(Deed::Cancel, "cancelled").await;
    stage.stands("cancelled", EntryState::Parked).await;
    assert!(reader.calls_of("cancelled").is_empty());
    // Whoever changes their mind sends it at once: its time was taken back with the wait.
    stage.done(Deed::RetryNow, "cancelled").await;
    arrived(fixture, &reader, "cancelled").await;
    stage.stands("cancelled", EntryState::Recovered).await;
    // At a broker apart the spent copies lie where they waited until their time comes.
    if stage.fixture.apart(&stage.ports).is_none() {
        stage.drained().await;
    }
    ends(&stage, reading, flow).await;
}
