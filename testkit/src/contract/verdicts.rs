//! The handler's own decision.

use redrive_core::{Class, Failure, Reason, Verdict};
use redrive_engine::port::{EntryState, Filter};
use serde_json::json;

use super::{Fixture, Stage};
use crate::handler::Step;

/// `ack` is a success, whatever the status: nothing is written down about a message that never failed before.
pub async fn the_verdict_ack_is_a_success(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.once_per_message = true;
    let flow = stage.start(spec).await;
    let ack = || Step::Fail(Failure::from_message("no").with_status(500).with_verdict(Verdict::Ack));
    stage.handler.on("a", [ack()]);
    stage.handler.on("b", [Step::status(503), ack()]);
    stage.publish("a").await;
    stage.publish("b").await;
    let entry = stage.stands("b", EntryState::Recovered).await;
    assert_eq!(entry.attempts, 2);
    stage.drained().await;
    assert_eq!(stage.found(&Filter::default()).await, ["b"]);
    let marks = stage.ports.ledger.processed("orders", &["a", "b", "c"]).await.expect("marks");
    assert_eq!(marks, [true, true, false]);
    stage.ends(flow).await;
}

/// `retry` and `retry-after` retry what the status would not, and no longer than the budgets allow.
pub async fn the_verdict_retry_stays_within_the_budget(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage
        .run(json!({ "retry": format!("{} x2", stage.ticks(1)), "retry_after": { "min": stage.ticks(1) } }))
        .await;
    let retry = |verdict| Step::Fail(Failure::from_message("later").with_status(400).with_verdict(verdict));
    stage.handler.otherwise(retry(Verdict::Retry));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!((entry.attempts, entry.class, entry.reason), (3, Class::Transient, Reason::HANDLER_VERDICT));
    stage.handler.otherwise(retry(Verdict::RetryAfter(stage.tick)));
    stage.publish("b").await;
    assert_eq!(stage.stands("b", EntryState::Dead).await.attempts, 3);
    stage.ends(flow).await;
}

/// `park`, `dead`, `discard` and `reject` take the place of the policy's exits, at once.
pub async fn verdicts_choose_the_exit(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let written = json!({ "retry": format!("{} x9", stage.ticks(1)) });
    let mut spec = stage.flow(written.clone());
    spec.policy = (*stage.policy(written)).clone().with_reject_target().into();
    spec.rejected = Some(stage.address("rejected").into());
    let flow = stage.start(spec).await;
    for (id, verdict, state) in [
        ("p", Verdict::Park, EntryState::Parked),
        ("d", Verdict::Dead, EntryState::Dead),
        ("x", Verdict::Discard, EntryState::Discarded),
        ("r", Verdict::Reject, EntryState::Rejected),
    ] {
        stage.handler.on(id, [Step::verdict(verdict)]);
        stage.publish(id).await;
        let entry = stage.stands(id, state).await;
        assert_eq!((entry.attempts, entry.reason), (1, Reason::HANDLER_VERDICT));
    }
    assert_eq!(stage.depth("rejected").await.ready, 1);
    stage.ends(flow).await;
}

/// `reject` with nowhere to go is parked.
pub async fn the_verdict_reject_without_a_target_is_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.handler.on("a", [Step::verdict(Verdict::Reject)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Parked).await;
    stage.ends(flow).await;
}

/// `follow` on a message that is unknown or finished is charged as contention.
pub async fn the_verdict_follow_is_charged_as_contention(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x2", stage.ticks(1)) })).await;
    stage.handler.otherwise(Step::verdict(Verdict::Follow("nobody".into())));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!((entry.attempts, entry.class), (3, Class::Contention));
    stage.ends(flow).await;
}

/// Retry-After is honoured, within its clamp, and never early.
pub async fn retry_after_is_honoured_within_its_clamp(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage
        .run(json!({ "retry": format!("{} x2", stage.ticks(1)),
            "retry_after": { "min": stage.ticks(10), "max": stage.ticks(20) } }))
        .await;
    let asks = |wait| Step::Fail(Failure::from_message("busy").with_status(429).with_retry_after(wait));
    for (id, asked, waits) in [("short", 0, 10), ("right", 15, 15), ("long", 1_000, 20)] {
        stage.handler.on(id, [asks(stage.tick * asked)]);
        stage.publish(id).await;
        let entry = stage.stands(id, EntryState::Waiting).await;
        let wait = entry.due_at.expect("a due time").since(entry.last_failed_at);
        assert_eq!(wait, stage.tick * waits, "{id}");
        assert_eq!(entry.reason, Reason::RATE_LIMITED);
        stage.stands(id, EntryState::Recovered).await;
    }
    stage.ends(flow).await;
}

/// A reason that the handler gives stands in the ledger.
pub async fn the_handlers_reason_stands(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let reason = Reason::new("CREDIT_LIMIT").expect("a reason");
    stage.handler.on(
        "a",
        [Step::Fail(Failure::from_message("no").with_verdict(Verdict::Park).with_reason(reason.clone()))],
    );
    stage.publish("a").await;
    assert_eq!(stage.stands("a", EntryState::Parked).await.reason, reason);
    stage.ends(flow).await;
}
