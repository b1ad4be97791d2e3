//! Where a message goes when nothing is left to try.

use redrive_core::{Class, Reason};
use redrive_engine::Flow;
use redrive_engine::port::EntryState;
use serde_json::{Value, json};

use super::stage::{FLOW, named, with_headers};
use super::{Fixture, Stage, eventually};
use crate::handler::{Scripted, Step};

/// Dead letters keep the message, out of the flow's way.
pub async fn dead_letters_are_kept(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1), "exits": { "default": "dead_letter" } })).await;
    stage.handler.on("a", [Step::status(400)]);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.flow, FLOW);
    assert_eq!(entry.source.name, stage.address(FLOW));
    let payload = stage.ports.ledger.payload(entry.id).await.expect("a payload").expect("it is kept");
    assert_eq!(payload.body, named("a").body);
    stage.drained().await;
    stage.ends(flow).await;
}

/// A parked message waits for a person.
pub async fn parked_messages_are_kept(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1), "exits": { "TRANSIENT": "park" } })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert_eq!(entry.attempts, 2);
    let payload = stage.ports.ledger.payload(entry.id).await.expect("a payload").expect("it is kept");
    assert_eq!(payload.body, named("a").body);
    stage.drained().await;
    stage.ends(flow).await;
}

/// A discarded message stays on the record.
pub async fn discarded_messages_stay_on_the_record(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1), "exits": { "INVALID_MESSAGE": "discard" } })).await;
    stage.handler.on("a", [Step::status(422)]);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Discarded).await;
    assert_eq!((entry.class, entry.reason), (Class::PermanentTechnical, Reason::INVALID_MESSAGE));
    stage.drained().await;
    stage.ends(flow).await;
}

/// Reads what lies in another queue with a flow of its own.
pub(super) async fn reads(stage: &Stage<'_>, queue: &str) -> (Flow, std::sync::Arc<Scripted>) {
    let reader = Scripted::new();
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.name = format!("reader-of-{queue}").into();
    spec.source = stage.address(queue).into();
    spec.handler = reader.clone();
    (stage.start(spec).await, reader)
}

/// A rejection acknowledges the message and publishes an event that says what and why.
pub async fn a_rejection_publishes_its_event(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let written = json!({ "retry": stage.ticks(1), "rules": [{ "when": { "status": 409 },
        "class": "PERMANENT_BUSINESS", "reason": "ORDER_ALREADY_SHIPPED", "then": "reject" }] });
    let mut spec = stage.flow(written.clone());
    let policy = (*stage.policy(written)).clone().with_reject_target();
    spec.policy = policy.into();
    spec.rejected = Some(stage.address("rejected").into());
    spec.facts.entity = Some("json:/order".parse().expect("a source"));
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::status(409)]);
    stage.publish_message(with_headers("a", &[("type", "OrderPlaced"), ("x-correlation-id", "c-1")])).await;
    let entry = stage.stands("a", EntryState::Rejected).await;
    assert_eq!(entry.reason.as_str(), "ORDER_ALREADY_SHIPPED");
    stage.drained().await;

    let (reading, reader) = reads(&stage, "rejected").await;
    let calls = eventually(fixture, "the rejection event", || async {
        let calls = reader.calls();
        if calls.is_empty() { Err("none".to_owned()) } else { Ok(calls) }
    })
    .await;
    assert_eq!(calls.len(), 1);
    let event: Value = calls[0].message.json().expect("JSON");
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "redrive.rejected");
    assert_eq!(event["source"], format!("queue:{}", stage.address(FLOW)));
    assert_eq!(event["subject"], "a");
    let data = &event["data"];
    assert_eq!(data["messageId"], "a");
    assert_eq!(data["messageType"], "OrderPlaced");
    assert_eq!(data["correlationId"], "c-1");
    assert_eq!(data["consumer"], FLOW);
    assert_eq!(data["failureClass"], "PERMANENT_BUSINESS");
    assert_eq!(data["failureReason"], "ORDER_ALREADY_SHIPPED");
    assert_eq!(data["attemptCount"], 1);
    reading.stop().await;
    stage.ends(flow).await;
}

/// What should be rejected and has nowhere to go is parked, whatever the policy believes.
pub async fn a_rejection_without_a_target_is_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let written = json!({ "retry": stage.ticks(1), "exits": { "default": "reject" } });
    let flow = stage.run(written.clone()).await;
    stage.handler.otherwise(Step::status(422));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert!(entry.because.contains("nowhere to go"), "{}", entry.because);
    flow.stop().await;

    let mut spec = stage.flow(written.clone());
    spec.policy = (*stage.policy(written)).clone().with_reject_target().into();
    let flow = stage.start(spec).await;
    stage.publish("b").await;
    stage.stands("b", EntryState::Parked).await;
    stage.drained().await;
    stage.ends(flow).await;
}

/// What should be rejected to a place that does not take it is parked, and does not lie in hand until the next start.
pub async fn a_rejection_that_its_target_refuses_is_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let written = json!({ "retry": stage.ticks(1), "exits": { "default": "reject" } });
    let mut spec = stage.flow(written.clone());
    spec.policy = (*stage.policy(written)).clone().with_reject_target().into();
    spec.rejected = Some("no name of a queue".into());
    let flow = stage.start(spec).await;
    stage.handler.otherwise(Step::status(422));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert!(entry.because.contains("does not take it"), "{}", entry.because);
    assert_eq!(stage.handler.attempts_of("a"), [1]);
    stage.drained().await;
    stage.ends(flow).await;
}
