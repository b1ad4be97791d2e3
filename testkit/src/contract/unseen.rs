//! What a ledger apart from its broker did not see: copies that were moved on, words that a crash swallowed, and all that
//! was there before the ledger was lost.

use std::sync::Arc;

use redrive_engine::port::{Broker as _, Deed, EntryState, Order, Shelves, Subscription};
use redrive_engine::{Apart, Flow};
use serde_json::json;

use super::stage::{FLOW, operator};
use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::Step;

/// The ledger hears nothing until a test says so.
const ALL: u32 = 1_000_000;

fn subscription(stage: &Stage<'_>) -> Subscription {
    Subscription::new(FLOW, stage.address(FLOW))
}

fn apart(stage: &Stage<'_>, name: &str) -> Option<Arc<Apart>> {
    let apart = stage.fixture.apart(&stage.ports);
    if apart.is_none() {
        not_applicable(name, "the broker and the ledger are one");
    }
    apart
}

/// Ends a flow as a crash does: what the ledger was not told it is never told.
async fn crash(stage: Stage<'_>, flow: Flow) -> Stage<'_> {
    flow.force().now();
    flow.stop().await;
    let stage = stage.reopen().await;
    stage.fixture.fail_records(0);
    stage
}

/// A copy that its broker moves from place to place while it waits is waited for, however late it comes.
pub async fn a_copy_that_was_moved_on_is_waited_for(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let Some(apart) = apart(&stage, "a_copy_that_was_moved_on_is_waited_for") else { return };
    let wait = fixture.wait_of_hops().unwrap_or(stage.tick * 10);
    let flow = stage.run(json!({ "retry": format!("{}ms", wait.as_millis()) })).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    if fixture.wait_of_hops().is_none() && !fixture.move_on(&stage.address(FLOW)) {
        flow.stop().await;
        return not_applicable("a_copy_that_was_moved_on_is_waited_for", "copies stay where they are");
    }
    let (ledger, actor) = (&stage.ports.ledger, operator());
    let first = eventually(fixture, "the place of the copy in the ledger", || async {
        let known = ledger.overdue(FLOW, stage.now() + wait * 2, None, 2).await;
        let known = known.map_err(|error| error.to_string())?;
        known.into_iter().next().map(|copy| copy.copy).ok_or_else(|| "none".to_owned())
    })
    .await;
    ledger.order(FLOW, &Order::PauseRetries, &actor, stage.now()).await.expect("a pause");
    // Long after its time, the broker has passed the place that the ledger knew first.
    fixture.pass(wait).await;
    stage.pass(90).await;
    assert_eq!(apart.passed(&[first]).await.expect("the broker"), [true], "it was moved on");
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    stage.stands("a", EntryState::Waiting).await;
    ledger.order(FLOW, &Order::ResumeRetries, &actor, stage.now()).await.expect("an end of it");
    stage.called("a", 2).await;
    stage.stands("a", EntryState::Recovered).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2]);
    stage.ends(flow).await;
}

/// A retry that failed and was delayed again, of which the ledger never heard, is made after a crash.
pub async fn a_retry_that_the_ledger_never_heard_of_is_made(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if apart(&stage, "a_retry_that_the_ledger_never_heard_of_is_made").is_none() {
        return;
    }
    if !fixture.fail_records(0) {
        return not_applicable("a_retry_that_the_ledger_never_heard_of_is_made", "no faults on request");
    }
    let policy = json!({ "retry": format!("{0}, {1}", stage.ticks(3), stage.ticks(60)) });
    let flow = stage.run(policy.clone()).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    let known = stage.stands("a", EntryState::Waiting).await;
    fixture.fail_records(ALL);
    stage.called("a", 2).await;
    stage.pass(2).await;
    let stage = crash(stage, flow).await;

    let flow = stage.run(policy).await;
    eventually(fixture, "the second failure in the ledger", || async {
        let entry = stage.ports.ledger.entry("a").await.map_err(|error| error.to_string())?;
        let entry = entry.ok_or("no entry")?;
        let seen = (entry.id, entry.state, entry.attempts);
        if seen == (known.id, EntryState::Waiting, 2) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    stage.called("a", 3).await;
    stage.stands("a", EntryState::Recovered).await;
    stage.drained().await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3]);
    stage.ends(flow).await;
}

/// A dead letter of which the ledger never heard is one after a crash: it has not recovered.
pub async fn a_dead_letter_that_the_ledger_never_heard_of_is_one(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if apart(&stage, "a_dead_letter_that_the_ledger_never_heard_of_is_one").is_none() {
        return;
    }
    if !fixture.fail_records(0) {
        return not_applicable("a_dead_letter_that_the_ledger_never_heard_of_is_one", "no faults on request");
    }
    let policy = json!({ "retry": stage.ticks(3) });
    let flow = stage.run(policy.clone()).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.handler.on("b", [Step::status(422)]);
    stage.publish("a").await;
    let known = stage.stands("a", EntryState::Waiting).await;
    fixture.fail_records(ALL);
    stage.called("a", 2).await;
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.pass(2).await;
    let stage = crash(stage, flow).await;

    let flow = stage.run(policy).await;
    let dead = stage.stands("a", EntryState::Dead).await;
    assert_eq!((dead.id, dead.attempts), (known.id, 2));
    stage.stands("b", EntryState::Parked).await;
    stage.pass(50).await;
    for (id, state) in [("a", EntryState::Dead), ("b", EntryState::Parked)] {
        stage.stands(id, state).await;
        stage.done(Deed::RetryNow, id).await;
        stage.stands(id, EntryState::Recovered).await;
    }
    stage.drained().await;
    stage.ends(flow).await;
}

/// A new ledger learns of what lies at the broker, and not of what people had resolved.
pub async fn a_new_ledger_brings_nothing_back_that_was_resolved(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let Some(before) = apart(&stage, "a_new_ledger_brings_nothing_back_that_was_resolved") else { return };
    let policy = json!({ "retry": stage.ticks(1) });
    let flow = stage.run(policy.clone()).await;
    for id in ["open", "gone", "aside"] {
        stage.handler.on(id, [Step::status(422)]);
        stage.publish(id).await;
        stage.stands(id, EntryState::Parked).await;
    }
    stage.done(Deed::Discard, "gone").await;
    stage.done(Deed::Archive, "aside").await;
    keeps_resolved(&stage, 2).await;
    let open = stage.stands("open", EntryState::Parked).await;
    stage.ends(flow).await;
    drop(before);
    let Some(stage) = lose_ledger(stage).await else {
        return not_applicable("a_new_ledger_brings_nothing_back_that_was_resolved", "it cannot be lost");
    };
    let flow = stage.run(policy).await;
    assert_eq!(stage.stands("open", EntryState::Parked).await.id, open.id);
    stage.pass(5).await;
    for id in ["gone", "aside"] {
        assert_eq!(stage.ports.ledger.entry(id).await.expect("the ledger"), None, "{id} is resolved");
    }
    stage.ends(flow).await;
}

/// What people did to messages that wait at the broker holds when the ledger is lost: they do not run.
pub async fn what_people_stopped_does_not_run_for_a_new_ledger(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let name = "what_people_stopped_does_not_run_for_a_new_ledger";
    let Some(before) = apart(&stage, name) else { return };
    let policy = json!({ "retry": stage.ticks(60) });
    let flow = stage.run(policy.clone()).await;
    for id in ["gone", "cancelled", "parked", "waits"] {
        stage.handler.on(id, [Step::status(503)]);
        stage.publish(id).await;
        stage.stands(id, EntryState::Waiting).await;
    }
    if waiting_at_broker(&before, &subscription(&stage)).await < 4 {
        flow.stop().await;
        return not_applicable(name, "they wait in the ledger");
    }
    stage.done(Deed::Discard, "gone").await;
    stage.done(Deed::Cancel, "cancelled").await;
    stage.done(Deed::Park, "parked").await;
    keeps_resolved(&stage, 3).await;
    stage.ends(flow).await;
    drop(before);
    let Some(stage) = lose_ledger(stage).await else {
        return not_applicable(name, "the ledger cannot be lost");
    };
    let flow = stage.run(policy).await;
    stage.called("waits", 2).await;
    stage.stands("waits", EntryState::Recovered).await;
    for id in ["cancelled", "parked"] {
        stage.stands(id, EntryState::Parked).await;
    }
    stage.drained().await;
    for id in ["gone", "cancelled", "parked"] {
        assert_eq!(stage.handler.calls_of(id).len(), 1, "{id} was stopped by a person");
    }
    stage.done(Deed::RetryNow, "cancelled").await;
    stage.stands("cancelled", EntryState::Recovered).await;
    stage.ends(flow).await;
}

async fn keeps_resolved(stage: &Stage<'_>, count: usize) {
    let subscription = subscription(stage);
    eventually(stage.fixture, "the broker to keep what was resolved", || async {
        let resolved = stage.ports.broker.resolved(&subscription).await.map_err(|error| error.to_string())?;
        if resolved.len() >= count { Ok(()) } else { Err(format!("{resolved:?}")) }
    })
    .await;
}

async fn waiting_at_broker(apart: &Apart, subscription: &Subscription) -> usize {
    let mut shelves: Box<dyn Shelves> = apart.shelves(subscription, None).await.expect("the shelves");
    let found = shelves.next(100).await.expect("what lies there");
    found.iter().filter(|shelved| shelved.state == EntryState::Waiting).count()
}

async fn lose_ledger(stage: Stage<'_>) -> Option<Stage<'_>> {
    let Stage { fixture, ports, handler, tick } = stage;
    let ports = fixture.lose_ledger(ports).await?;
    Some(Stage { fixture, ports, handler, tick })
}
