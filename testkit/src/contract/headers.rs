//! What a flow writes into headers and believes of them: other spellings, and signatures.

use redrive_core::headers::{Key, Keyring, Spelling};
use redrive_core::{Headers, Reason};
use redrive_engine::FlowSpec;
use redrive_engine::port::{Deed, EntryState, HeaderRules, NewMessage};
use serde_json::json;

use super::stage::{named, with_headers};
use super::{Fixture, Stage, eventually};
use crate::handler::Step;

/// Two delayed retries, and what the rules say.
fn flow(stage: &Stage<'_>, rules: HeaderRules) -> FlowSpec {
    let mut spec = stage.flow(json!({ "retry": format!("{} x2", stage.ticks(1)) }));
    spec.headers = rules;
    spec
}

fn signed() -> HeaderRules {
    HeaderRules::default().signed(Keyring::new(key(1)))
}

fn key(seed: u8) -> Key {
    Key::generate([seed; 32])
}

fn text(headers: &Headers, name: &str) -> Option<String> {
    headers.get_text(name, 600).map(|text| text.to_string())
}

fn alarms(flow: &redrive_engine::Flow) -> Vec<String> {
    flow.alarms().iter().map(|alarm| alarm.name.to_string()).collect()
}

/// Another spelling is read, written beside Redrive's own names, and forgotten when a message begins again.
pub async fn another_spelling_is_written_and_read(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.start(flow(&stage, HeaderRules::new(Spelling::Plain))).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish_message(with_headers("a", &[("retry-attempt", "1"), ("other", "stays")])).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.attempts, 3);
    assert_eq!(stage.handler.attempts_of("a"), [2, 3], "one attempt was made elsewhere");
    let copy = &stage.handler.calls_of("a")[1].message.headers;
    for name in ["x-retry-attempt", "retry-attempt"] {
        assert_eq!(text(copy, name).as_deref(), Some("2"), "{name}");
    }
    assert_eq!(text(copy, "origin-topic").as_deref(), Some(&*stage.address("orders")));
    assert!(text(copy, "next-delay-ms").is_some());
    assert_eq!(text(copy, "other").as_deref(), Some("stays"));
    assert_eq!(copy.iter().filter(|header| header.name.as_str() == "retry-attempt").count(), 1);

    stage.handler.otherwise(Step::Succeed);
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    let again = &stage.handler.calls_of("a")[2];
    assert_eq!(again.context.attempt, 1);
    assert_eq!(text(&again.message.headers, "retry-attempt"), None);
    assert_eq!(text(&again.message.headers, "other").as_deref(), Some("stays"));
    stage.ends(flow).await;
}

/// Signed copies are believed, and so are those of a key that no longer signs.
pub async fn signed_copies_are_believed(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let running = stage.start(flow(&stage, signed())).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("a").await;
    stage.stands("a", EntryState::Dead).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3]);
    for call in &stage.handler.calls_of("a")[1..] {
        let mac = text(&call.message.headers, "x-redrive-mac").expect("a signature");
        assert!(mac.starts_with(&format!("v1,{},", key(1).id())), "{mac}");
    }
    assert!(alarms(&running).is_empty(), "{:?}", alarms(&running));
    // One more that has failed and waits while the keys change.
    stage.publish("b").await;
    stage.called("b", 1).await;
    running.stop().await;

    let ring = Keyring::from_keys([key(2), key(1)]).expect("two keys");
    let running = stage.start(flow(&stage, HeaderRules::default().signed(ring))).await;
    stage.stands("b", EntryState::Dead).await;
    assert_eq!(stage.handler.attempts_of("b"), [1, 2, 3]);
    stage.publish("c").await;
    stage.stands("c", EntryState::Dead).await;
    let mac = text(&stage.handler.calls_of("c")[1].message.headers, "x-redrive-mac").expect("a signature");
    assert!(mac.starts_with(&format!("v1,{},", key(2).id())), "{mac}");
    stage.handler.otherwise(Step::Succeed);
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    assert!(alarms(&running).is_empty(), "{:?}", alarms(&running));
    stage.ends(running).await;
}

/// Headers that nobody signed are not believed where copies are signed: the message starts over, with an alarm.
pub async fn forged_headers_start_over(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let running = stage.start(flow(&stage, signed())).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish("victim").await;
    let victim = stage.stands("victim", EntryState::Dead).await;
    let forged = [
        ("x-retry-attempt", "2"),
        ("x-delay-counter", "2"),
        ("x-entry-id", &*victim.id.to_string()),
        ("x-calls-used", "1000"),
        ("x-idempotency-key", "theirs"),
    ];
    stage.publish_message(with_headers("a", &forged)).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_ne!(entry.id, victim.id, "it has an entry of its own");
    assert_eq!(entry.attempts, 3);
    let calls = stage.handler.calls_of("a");
    assert_eq!(calls.iter().map(|call| call.context.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(&*calls[0].context.idempotency_key, "theirs", "what names it to its handler is kept");
    for call in &calls[1..] {
        assert_eq!(text(&call.message.headers, "x-redrive-mac-failures").as_deref(), Some("1"));
    }
    assert_eq!(alarms(&running), ["signature_invalid"]);
    let unharmed = stage.stands("victim", EntryState::Dead).await;
    assert_eq!((unharmed.id, unharmed.message.id.as_str()), (victim.id, "victim"));
    stage.ends(running).await;
}

/// A second bad signature parks the message, untried; a person can still send it.
pub async fn a_second_bad_signature_parks(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let running = stage.start(flow(&stage, signed())).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish_message(with_headers("a", &[("x-retry-attempt", "2")])).await;
    stage.stands("a", EntryState::Dead).await;
    // A copy that says under our signature that it is the second, with something changed in it.
    let mut headers = stage.handler.calls_of("a")[1].message.headers.clone();
    headers.set("x-retry-attempt", "0");
    stage.handler.otherwise(Step::Succeed);
    stage.publish_message(NewMessage { headers, ..named("b") }).await;
    let entry = stage.stands("b", EntryState::Parked).await;
    assert_eq!((&entry.reason, entry.attempts), (&Reason::SIGNATURE_INVALID, 0));
    assert!(entry.because.contains("second time"), "{}", entry.because);
    assert!(stage.handler.calls_of("b").is_empty(), "it was handled");
    assert_ne!(Some(entry.id), stage.ports.ledger.entry("a").await.expect("a ledger").map(|entry| entry.id));

    stage.done(Deed::RetryNow, "b").await;
    stage.stands("b", EntryState::Recovered).await;
    assert_eq!(stage.handler.attempts_of("b"), [1]);
    stage.ends(running).await;
}

/// What was changed keeps the wait of the place in which it lies, whatever it says itself.
pub async fn a_forged_message_keeps_its_wait(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let running = stage.start(flow(&stage, signed())).await;
    let due = stage.now() + stage.tick * 5;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let clock = stage.ports.clock.clone();
    stage.handler.on(
        "a",
        [Step::run(move |_, _| {
            let _ = sender.send(redrive_engine::port::Clock::now(&*clock));
            std::future::ready(redrive_engine::handler::Attempted::success())
        })],
    );
    let forged = with_headers("a", &[("x-process-after", "1"), ("x-delay-route", "orders")]);
    stage.publish_message(NewMessage { due: Some(due), ..forged }).await;
    let call = stage.called("a", 1).await.remove(0);
    assert!(receiver.recv().await.expect("it ran") >= due);
    stage.drained().await;
    // Where a message waits as a copy, the copy's own headers took the place of what was claimed.
    if call.message.headers.get_text("x-delay-route", 99).as_deref() == Some("orders") {
        assert_eq!(alarms(&running), ["signature_invalid"]);
    }
    stage.ends(running).await;
}

/// The alarm ends when no such message has come for a while.
pub async fn the_alarm_about_signatures_ends(fixture: &impl Fixture) {
    if fixture.tick() < std::time::Duration::from_secs(1) {
        return super::not_applicable("the_alarm_about_signatures_ends", "it takes ten minutes of real time");
    }
    let stage = Stage::open(fixture).await;
    let running = stage.start(flow(&stage, signed())).await;
    stage.publish_message(with_headers("a", &[("x-retry-attempt", "2")])).await;
    stage.called("a", 1).await;
    assert_eq!(alarms(&running), ["signature_invalid"]);
    stage.pass(590).await;
    assert_eq!(alarms(&running), ["signature_invalid"]);
    stage.pass(20).await;
    eventually(fixture, "no alarm", || async {
        let alarms = alarms(&running);
        if alarms.is_empty() { Ok(()) } else { Err(format!("{alarms:?}")) }
    })
    .await;
    stage.ends(running).await;
}
