//! Handlers, brokers and ledgers that misbehave.

use redrive_core::{Class, Failure, MAX_TEXT, Reason};
use redrive_engine::port::EntryState;
use serde_json::json;

use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::{Door, Step};

/// A panic is a failure like another; the flow goes on.
pub async fn a_panic_is_a_failure(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "local": "1ms x2" })).await;
    stage.handler.on("a", vec![Step::Panic("the shelf is empty".to_owned()); 3]);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert_eq!((entry.class, entry.reason), (Class::Unknown, Reason::HANDLER_PANICKED));
    assert_eq!(entry.error.message, "the shelf is empty");
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.drained().await;
    stage.ends(flow).await;
}

/// A handler that never returns is given up after its time, with one worker too.
pub async fn a_handler_that_never_returns_is_given_up(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.timeout = stage.tick * 3;
    spec.concurrency = 1;
    let flow = stage.start(spec).await;
    stage.handler.on("a", [Step::Hang, Step::Hang]);
    stage.publish("a").await;
    stage.publish("b").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!((entry.attempts, entry.reason), (2, Reason::DOWNSTREAM_TIMEOUT));
    stage.called("b", 1).await;
    assert!(stage.handler.calls_of("a").iter().all(|call| !call.ended));
    stage.ends(flow).await;
}

/// Ten megabytes of error text are survived, bounded, in the ledger and in the headers.
pub async fn ten_megabytes_of_error_text_are_bounded(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let text = "ä".repeat(5 * 1024 * 1024);
    let failure =
        Failure::from_message(text.clone()).with_type(text.clone()).with_status(503).with_body(text);
    stage.handler.otherwise(Step::Fail(failure));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert!(entry.error.message.len() <= MAX_TEXT + 16);
    let headers = &stage.handler.calls_of("a")[1].message.headers;
    let size: usize = headers.iter().map(|header| header.value.as_ref().map_or(0, bytes::Bytes::len)).sum();
    assert!(size < 16 * 1024, "{size} bytes of headers");
    stage.ends(flow).await;
}

/// Answers in bytes that are no text, and causes without end, do no harm.
pub async fn odd_failures_do_no_harm(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let mut endless = Failure::from_message("\0\u{7}\u{1b}[31mred\r\n").with_status(999);
    for n in 0..1_000 {
        endless = endless.with_cause("Cause", format!("number {n}"));
    }
    stage.handler.on("a", [Step::Fail(endless.clone()), Step::Fail(endless)]);
    stage.handler.on("b", vec![Step::Fail(Failure::default()); 9]);
    stage.publish("a").await;
    stage.publish("b").await;
    stage.stands("a", EntryState::Parked).await;
    stage.stands("b", EntryState::Parked).await;
    stage.ends(flow).await;
}

/// A broker that is away while the flow settles: nothing is lost, nothing is handled twice.
pub async fn a_broker_that_does_not_settle_is_asked_again(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if !stage.fixture.fail_settles(0) {
        return not_applicable("a_broker_that_does_not_settle_is_asked_again", "no faults on request");
    }
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.fixture.fail_settles(5);
    stage.handler.on("b", [Step::status(503)]);
    stage.handler.on("c", [Step::status(422)]);
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
    }
    stage.stands("b", EntryState::Recovered).await;
    stage.stands("c", EntryState::Parked).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("a"), [1]);
    assert_eq!(stage.handler.attempts_of("b"), [1, 2]);
    assert_eq!(stage.handler.attempts_of("c"), [1]);
    stage.ends(flow).await;
}

/// A source that does not answer is asked again.
pub async fn a_source_that_does_not_answer_is_asked_again(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if !stage.fixture.fail_receives(0) {
        return not_applicable("a_source_that_does_not_answer_is_asked_again", "no faults on request");
    }
    stage.fixture.fail_receives(3);
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    stage.drained().await;
    stage.ends(flow).await;
}

/// A ledger that is deaf for a while learns everything in the end, in order, also across a stop.
pub async fn a_deaf_ledger_is_told_again(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if !stage.fixture.fail_records(0) {
        return not_applicable("a_deaf_ledger_is_told_again", "no ledger apart that faults can be asked of");
    }
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.fixture.fail_records(6);
    stage.handler.on("a", [Step::status(503)]);
    stage.handler.on("b", [Step::status(422)]);
    stage.publish("a").await;
    stage.publish("b").await;
    let entry = stage.stands("a", EntryState::Recovered).await;
    assert_eq!(entry.attempts, 2);
    stage.stands("b", EntryState::Parked).await;
    stage.handler.on("c", [Step::status(422)]);
    stage.publish("c").await;
    stage.called("c", 1).await;
    stage.fixture.fail_records(3);
    stage.ends(flow).await;
    stage.stands("c", EntryState::Parked).await;
}

/// Another reader takes the queue over: what the first one had in hand is handled by the second, and the first one's
/// late answer changes nothing.
pub async fn a_late_settlement_changes_nothing(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let door = Door::closed();
    stage.handler.on("a", [Step::Wait(door.clone(), Box::new(Step::status(422)))]);
    let first = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    let Ok(second) = stage.try_start(stage.flow(json!({ "retry": stage.ticks(1) }))).await else {
        door.open();
        stage.ends(first).await;
        return not_applicable("a_late_settlement_changes_nothing", "a queue has one reader at a time");
    };
    stage.called("a", 2).await;
    stage.drained().await;
    door.open();
    eventually(fixture, "the first reader to have finished", || async {
        if stage.handler.calls_of("a")[0].ended { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    first.stop().await;
    assert_eq!(
        stage.ports.ledger.entry("a").await.expect("the ledger"),
        None,
        "the second one has succeeded"
    );
    stage.ends(second).await;
}
