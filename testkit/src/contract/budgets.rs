//! What one message may use up.

use redrive_core::Failure;
use redrive_engine::handler::{Attempted, Charge};
use redrive_engine::port::{Entry, EntryState};
use redrive_retry::Retryer;
use serde_json::{Value, json};

use super::{Fixture, Stage};
use crate::handler::Step;

async fn dies(stage: &Stage<'_>, policy: Value, step: Step) -> Entry {
    let flow = stage.run(policy).await;
    stage.handler.otherwise(step);
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Dead).await;
    stage.pass(3).await;
    assert_eq!(stage.handler.calls_of("a").len(), entry.attempts as usize);
    stage.ends(flow).await;
    entry
}

/// `attempts: 4` allows four calls, whatever the schedule.
pub async fn the_attempt_budget_is_exact(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = json!({ "retry": format!("{} x9", stage.ticks(1)), "budgets": { "attempts": 4 } });
    let entry = dies(&stage, policy, Step::status(503)).await;
    assert_eq!(entry.attempts, 4);
    assert!(entry.because.contains("attempts spent: 4 of 4"), "{}", entry.because);
}

/// `local_attempts: 2` allows two calls in hand, then the message waits elsewhere.
pub async fn the_local_budget_is_exact(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = json!({ "local": "1ms x5", "retry": stage.ticks(1), "budgets": { "local_attempts": 2, "attempts": 9 } });
    let entry = dies(&stage, policy, Step::status(503)).await;
    assert_eq!(entry.attempts, 3);
}

/// `broker_attempts: 2` allows two delayed steps.
pub async fn the_broker_budget_is_exact(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = json!({ "retry": format!("{} x9", stage.ticks(1)), "budgets": { "broker_attempts": 2 } });
    assert_eq!(dies(&stage, policy, Step::status(503)).await.attempts, 3);
}

/// No attempt comes later after the first failure than `age` allows.
pub async fn the_age_budget_ends_retries(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy =
        json!({ "retry": format!("{} forever", stage.ticks(4)), "budgets": { "age": stage.ticks(10) } });
    let entry = dies(&stage, policy, Step::status(503)).await;
    // Ages 0, 4 and 8; on a slow machine fewer fit, never more.
    assert!((2..=3).contains(&entry.attempts), "{}", entry.attempts);
    assert!(entry.because.contains("too old"), "{}", entry.because);
}

/// All waits together stay within `delay`.
pub async fn the_delay_budget_ends_retries(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = json!({ "retry": format!("{} x9", stage.ticks(2)), "budgets": { "delay": stage.ticks(5) } });
    let entry = dies(&stage, policy, Step::status(503)).await;
    assert_eq!(entry.attempts, 3);
    assert!(entry.because.contains("waits spent"), "{}", entry.because);
}

/// Calls that the handler says it made count against `calls`, in all layers.
pub async fn the_call_budget_counts_what_handlers_charge(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy =
        json!({ "local": "1ms", "retry": format!("{} x9", stage.ticks(1)), "budgets": { "calls": 10 } });
    let failure = Failure::from_message("busy").with_status(503);
    let entry = dies(&stage, policy, Step::FailCharged(failure, Charge { calls: 4, cost: 0 })).await;
    assert_eq!(entry.attempts, 3);
    let left: Vec<_> = stage.handler.calls_of("a").iter().map(|call| call.context.calls_left).collect();
    assert_eq!(left, [Some(10), Some(6), Some(2)]);
}

/// The retryers of a handler draw on the message's calls without being told, and the history says how much.
pub async fn the_call_budget_holds_for_retryers(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy =
        json!({ "local": "1ms", "retry": format!("{} x9", stage.ticks(1)), "budgets": { "calls": 7 } });
    let schedule = "0s x2".parse().expect("a schedule");
    let retryer = Retryer::builder().schedule(schedule).no_budget().build().expect("a retryer");
    let entry = dies(
        &stage,
        policy,
        Step::run(move |_, _| {
            let retryer = retryer.clone();
            async move {
                let called = retryer.call(|_| async { Err::<(), _>(std::io::Error::other("busy")) }).await;
                Attempted::failure(Failure::from_error(called.expect_err("busy")).with_status(503))
            }
        }),
    )
    .await;
    assert!(entry.because.contains("calls spent: 7 of 7"), "{}", entry.because);
    let left: Vec<_> = stage.handler.calls_of("a").iter().map(|call| call.context.calls_left).collect();
    assert_eq!(left, [Some(7), Some(4), Some(1)]);
    let history = stage.ports.ledger.history(entry.id).await.expect("the ledger");
    let calls: Vec<_> = history.iter().filter(|line| line.what == "attempt").map(|line| line.calls).collect();
    assert_eq!(calls, [Some(3), Some(3), Some(1)]);
}

/// A wait in hand that a stop interrupts is charged once: a restart does not use up the delay budget.
pub async fn waits_in_hand_are_charged_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy =
        || json!({ "local": format!("{} x3", stage.ticks(20)), "budgets": { "delay": stage.ticks(50) } });
    stage.handler.otherwise(Step::status(503));
    let flow = stage.run(policy()).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    stage.pass(1).await;
    flow.stop().await;
    let flow = stage.run(policy()).await;
    // 20 ticks were decided before the stop and 20 after; a third wait would make 60.
    assert_eq!(stage.stands("a", EntryState::Dead).await.attempts, 3);
    stage.ends(flow).await;
}
