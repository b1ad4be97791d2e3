//! What people do to messages.

use redrive_engine::port::{Deed, EntryState, NewMessage, Selection};
use serde_json::json;

use super::stage::{in_state, named, operator, with_headers};
use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::Step;

/// A flow in which `a` waits for a thousand ticks after its first failure.
macro_rules! a_waits {
    ($stage:ident, $flow:ident) => {
        let $flow = $stage.run(json!({ "retry": format!("{} x2", $stage.ticks(1_000)) })).await;
        $stage.handler.on("a", [Step::status(503)]);
        $stage.publish("a").await;
        $stage.stands("a", EntryState::Waiting).await;
    };
}

macro_rules! needs_reach {
    ($fixture:ident, $name:literal) => {
        if !$fixture.capabilities().waiting_is_reachable {
            return not_applicable($name, "a waiting message cannot be reached");
        }
    };
}

/// A waiting message can be tried at once; the attempt counts on.
pub async fn retry_now_does_not_wait(fixture: &impl Fixture) {
    needs_reach!(fixture, "retry_now_does_not_wait");
    let stage = Stage::open(fixture).await;
    a_waits!(stage, flow);
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2]);
    // The copy at a broker apart stays there until its time comes.
    if fixture.apart(&stage.ports).is_none() {
        stage.drained().await;
    }
    stage.ends(flow).await;
}

/// "Retry now" at the very moment at which the message comes due makes one more attempt, never two.
pub async fn retry_now_racing_expiry_makes_one_attempt(fixture: &impl Fixture) {
    needs_reach!(fixture, "retry_now_racing_expiry_makes_one_attempt");
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x2", stage.ticks(3)) })).await;
    let ids: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    for id in &ids {
        stage.handler.on(id, [Step::status(503)]);
        stage.publish(id).await;
    }
    for id in &ids {
        // On a slow machine the first ones have come due again by now.
        eventually(fixture, &format!("{id} to have failed"), || async {
            let entry = stage.ports.ledger.entry(id).await.expect("the ledger");
            entry.map(drop).ok_or_else(|| "no entry".to_owned())
        })
        .await;
    }
    stage.pass(2).await;
    for id in &ids {
        // It may be due, in hand, or done by now: whichever it is, nothing is lost and nothing done twice.
        stage.act(Deed::RetryNow, id).await;
        stage.fixture.pass(stage.tick / 10).await;
    }
    for id in &ids {
        stage.stands(id, EntryState::Recovered).await;
    }
    stage.pass(5).await;
    for id in &ids {
        assert_eq!(stage.handler.attempts_of(id), [1, 2], "{id}");
    }
    stage.drained().await;
    stage.ends(flow).await;
}

/// A dead or parked message can be tried again, by its policy from the start.
pub async fn retry_now_begins_a_dead_message_again(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503), Step::status(503)]);
    stage.handler.on("b", [Step::status(422)]);
    stage.publish("a").await;
    stage.publish("b").await;
    stage.stands("a", EntryState::Dead).await;
    stage.stands("b", EntryState::Parked).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.done(Deed::RetryNow, "b").await;
    stage.stands("a", EntryState::Recovered).await;
    stage.stands("b", EntryState::Recovered).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 1, 2]);
    assert_eq!(stage.handler.attempts_of("b"), [1, 1]);
    stage.ends(flow).await;
}

/// A cancelled retry is parked and not made.
pub async fn cancel_takes_a_retry_back(fixture: &impl Fixture) {
    needs_reach!(fixture, "cancel_takes_a_retry_back");
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(30) })).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    stage.done(Deed::Cancel, "a").await;
    stage.stands("a", EntryState::Parked).await;
    stage.pass(40).await;
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    let report = stage.act(Deed::Cancel, "a").await;
    assert_eq!((report.done, report.refused.len()), (0, 1), "a parked message has no retry to cancel");
    stage.ends(flow).await;
}

/// What was discarded can be brought back to where it was; a retry that waited still comes.
pub async fn discard_can_be_undone(fixture: &impl Fixture) {
    needs_reach!(fixture, "discard_can_be_undone");
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(20) })).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.handler.on("b", [Step::status(422)]);
    stage.publish("a").await;
    stage.publish("b").await;
    stage.stands("a", EntryState::Waiting).await;
    stage.stands("b", EntryState::Parked).await;
    for id in ["a", "b"] {
        stage.done(Deed::Discard, id).await;
        stage.stands(id, EntryState::Discarded).await;
    }
    stage.pass(30).await;
    assert_eq!(stage.handler.calls().len(), 2, "a discarded message is not tried");
    stage.done(Deed::Restore, "a").await;
    stage.done(Deed::Restore, "b").await;
    stage.stands("b", EntryState::Parked).await;
    stage.stands("a", EntryState::Recovered).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2]);
    stage.ends(flow).await;
}

/// A person can park a dead letter, put it away, and fetch it back.
pub async fn park_and_archive_put_messages_aside(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1), "exits": { "default": "dead_letter" } })).await;
    stage.handler.on("a", [Step::status(422)]);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    stage.done(Deed::Park, "a").await;
    stage.stands("a", EntryState::Parked).await;
    stage.done(Deed::Archive, &entry.id.to_string()).await;
    stage.stands("a", EntryState::Archived).await;
    stage.is_sound().await;
    stage.done(Deed::Restore, "a").await;
    stage.stands("a", EntryState::Parked).await;
    stage.done(Deed::RetryNow, "a").await;
    stage.stands("a", EntryState::Recovered).await;
    let report = stage.act(Deed::Discard, "a").await;
    assert_eq!((report.done, report.refused.len()), (0, 1), "what has recovered is finished");
    stage.ends(flow).await;
}

/// A message can be sent to another queue; it leaves this flow with its bytes, key and headers.
pub async fn reroute_sends_elsewhere(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(422)]);
    let sent = NewMessage { key: Some("k".into()), ..super::stage::with_headers("a", &[("type", "order")]) };
    stage.publish_message(sent.clone()).await;
    stage.stands("a", EntryState::Parked).await;
    stage.done(Deed::Reroute(stage.address("elsewhere")), "a").await;

    let reader = crate::handler::Scripted::new();
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    (spec.name, spec.source, spec.handler) =
        ("elsewhere".into(), stage.address("elsewhere").into(), reader.clone());
    let reading = stage.start(spec).await;
    let call = eventually(fixture, "the message elsewhere", || async {
        reader.calls().pop().ok_or_else(|| "nothing".to_owned())
    })
    .await;
    assert_eq!(call.context.attempt, 1, "elsewhere it begins anew");
    assert_eq!((&call.message.body, &call.message.key), (&sent.body, &sent.key));
    assert_eq!(stage.brought(&call.message.headers), sent.headers);
    stage.pass(3).await;
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    assert!(stage.found(&in_state(EntryState::Parked)).await.is_empty());
    reading.stop().await;
    stage.ends(flow).await;
}

/// An edited copy is a new message that knows its parent; the original stays as it is.
pub async fn a_copy_is_a_new_message(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(422)]);
    stage.publish("a").await;
    let parent = stage.stands("a", EntryState::Parked).await;
    stage.handler.on("a2", [Step::status(422)]);
    let edited = NewMessage { body: Some("mended".into()), ..named("a2") };
    let copy = stage.ports.ledger.copy("a", edited, &operator(), stage.now()).await.expect("a copy");
    assert_eq!(copy, "a2");
    let child = stage.stands("a2", EntryState::Parked).await;
    assert_eq!(child.parent_id, Some(parent.id));
    assert_eq!(stage.handler.calls_of("a2")[0].message.body.as_deref(), Some(&b"mended"[..]));
    assert_eq!(stage.stands("a", EntryState::Parked).await.attempts, 1);
    stage.ends(flow).await;
}

/// A copy has the key, the headers and the content type of its parent, unless it brings its own; Redrive's own headers
/// stay behind, and so does the parent's idempotency key.
pub async fn a_copy_inherits_what_it_does_not_bring(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(503), Step::status(422)]);
    let pairs = [("Type", "Placed"), ("tenant", "north"), ("x-correlation-id", "c-1")];
    let original = NewMessage {
        key: Some("customer-7".into()),
        content_type: Some("application/json".to_owned()),
        ..with_headers("a", &pairs)
    };
    stage.publish_message(original).await;
    stage.stands("a", EntryState::Parked).await;
    let copied = async |edited: NewMessage| {
        let id = stage.ports.ledger.copy("a", edited, &operator(), stage.now()).await.expect("a copy");
        let message = stage.called(&id, 1).await.remove(0).message;
        let headers: Vec<(String, Option<bytes::Bytes>)> = stage
            .brought(&message.headers)
            .iter()
            .map(|one| (one.name.as_str().to_owned(), one.value.clone()))
            .collect();
        (message.key, message.content_type.map(|text| text.to_string()), headers)
    };
    let header = |name: &str, value: &'static str| (name.to_owned(), Some(bytes::Bytes::from(value)));
    let plain = copied(NewMessage { body: Some("1".into()), ..NewMessage::default() }).await;
    let all = vec![header("Type", "Placed"), header("tenant", "north"), header("x-correlation-id", "c-1")];
    assert_eq!(plain, (Some("customer-7".into()), Some("application/json".to_owned()), all));

    let own = NewMessage {
        key: Some("customer-8".into()),
        content_type: Some("text/plain".to_owned()),
        ..with_headers("b", &[("type", "Mended"), ("by", "ada")])
    };
    let (key, content_type, mut headers) = copied(own).await;
    headers.sort();
    assert_eq!((key, content_type), (Some("customer-8".into()), Some("text/plain".to_owned())));
    let all = vec![
        header("Type", "Mended"),
        header("by", "ada"),
        header("tenant", "north"),
        header("x-correlation-id", "c-1"),
    ];
    assert_eq!(headers, all, "a name that is given again replaces the parent's value, and keeps its case");
    stage.drained().await;
    stage.ends(flow).await;
}

/// A deed by filter does what fits and nothing else; ids that are not there are named.
pub async fn deeds_by_filter_touch_what_fits(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.otherwise(Step::status(422));
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
        stage.stands(id, EntryState::Parked).await;
    }
    stage.done(Deed::Archive, "c").await;
    let parked = Selection::Filter(in_state(EntryState::Parked));
    let report =
        stage.ports.ledger.act(&Deed::Discard, &parked, &operator(), stage.now()).await.expect("a deed");
    assert_eq!((report.done, report.refused.len(), report.missing.len()), (2, 0, 0));
    stage.stands("a", EntryState::Discarded).await;
    stage.stands("c", EntryState::Archived).await;
    let report = stage.act(Deed::Discard, "nobody").await;
    assert_eq!((report.done, report.missing), (0, vec!["nobody".to_owned()]));
    stage.ends(flow).await;
}

/// Every deed stands in the audit: who, what, why, how many.
pub async fn deeds_stand_in_the_audit(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::status(422)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Parked).await;
    stage.done(Deed::Discard, "a").await;
    stage.done(Deed::Restore, "a").await;
    stage.act(Deed::Cancel, "a").await;
    let lines = stage.ports.ledger.audit(None, 10).await.expect("the audit");
    let told: Vec<_> = lines.iter().map(|line| (line.what.as_str(), line.count)).collect();
    assert_eq!(told, [("restore", 1), ("discard", 1)], "newest first, and nothing for what was refused");
    for line in &lines {
        assert_eq!((line.who.as_str(), line.why.as_str()), ("ada", "the warehouse is back"));
        assert!(line.subject.contains('a'));
    }
    assert_eq!(lines[0].number, lines[1].number + 1);
    let earlier = stage.ports.ledger.audit(Some(lines[0].number), 10).await.expect("the audit");
    assert_eq!(earlier, lines[1..]);
    let history =
        stage.ports.ledger.history(stage.stands("a", EntryState::Parked).await.id).await.expect("history");
    let deeds: Vec<_> =
        history.iter().filter_map(|line| line.by.clone().map(|by| (line.what.clone(), by))).collect();
    assert_eq!(deeds, [("discard".to_owned(), "ada".to_owned()), ("restore".to_owned(), "ada".to_owned())]);
    stage.ends(flow).await;
}
