//! A success, and a failure of each class.

use redrive_core::{Class, Exit, Failure, Reason};
use redrive_engine::port::{EntryState, Filter};
use serde_json::json;

use super::{Fixture, Stage};
use crate::handler::Step;

/// What succeeds is gone, and the ledger never hears of it.
pub async fn acknowledges_what_succeeds(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    stage.publish("a").await;
    let calls = stage.called("a", 1).await;
    assert_eq!(calls[0].context.attempt, 1);
    assert!(stage.brought(&calls[0].message.headers).is_empty(), "a first delivery carries nothing of ours");
    stage.drained().await;
    stage.pass(3).await;
    assert_eq!(stage.handler.calls_of("a").len(), 1);
    assert!(stage.found(&Filter::default()).await.is_empty());
    stage.ends(flow).await;
}

async fn fails_as(stage: &Stage<'_>, step: Step, class: Class, calls: usize, exit: Exit) {
    let retry = format!("{} x2", stage.ticks(1));
    let flow = stage.run(json!({ "local": { "CONTENTION": stage.ticks(1) }, "retry": retry, "rules": [
        { "when": { "message": "already shipped" }, "class": "PERMANENT_BUSINESS", "reason": "ALREADY_SHIPPED" },
        { "when": { "message": "kills" }, "class": "POISON" } ] }))
    .await;
    stage.handler.otherwise(step);
    stage.publish("a").await;
    let state = if exit == Exit::Park { EntryState::Parked } else { EntryState::Dead };
    let entry = stage.stands("a", state).await;
    assert_eq!((entry.class, entry.attempts as usize), (class, calls));
    stage.pass(5).await;
    assert_eq!(stage.handler.calls_of("a").len(), calls);
    stage.handler.otherwise(Step::Succeed);
    stage.publish("b").await;
    stage.called("b", 1).await;
    flow.stop().await;
    stage.is_sound().await;
}

/// TRANSIENT: by the delayed schedule, then the dead letters.
pub async fn transient_failures_are_retried_then_dead(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    fails_as(&stage, Step::status(503), Class::Transient, 3, Exit::DeadLetter).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.reason, Reason::DOWNSTREAM_UNAVAILABLE);
    assert_eq!(entry.http_status, Some(503));
}

/// CONTENTION: its own schedule in place, then like the others.
pub async fn contention_has_its_own_schedule(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    fails_as(&stage, Step::status(409), Class::Contention, 4, Exit::DeadLetter).await;
}

/// PERMANENT_TECHNICAL: parked at once.
pub async fn permanent_technical_failures_are_parked_at_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    fails_as(&stage, Step::status(422), Class::PermanentTechnical, 1, Exit::Park).await;
}

/// PERMANENT_BUSINESS: parked at once.
pub async fn permanent_business_failures_are_parked_at_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    fails_as(&stage, Step::unknown("already shipped"), Class::PermanentBusiness, 1, Exit::Park).await;
}

/// POISON: parked at once.
pub async fn poison_is_parked_at_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    fails_as(&stage, Step::unknown("it kills"), Class::Poison, 1, Exit::Park).await;
}

/// UNKNOWN: twice in place, then delayed, within the same attempts, then parked.
pub async fn unknown_failures_are_retried_then_parked(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage
        .run(
            json!({ "retry": { "UNKNOWN": format!("{} x2", stage.ticks(1)) }, "budgets": { "attempts": 5 } }),
        )
        .await;
    stage.handler.otherwise(Step::Fail(Failure::from_message("nobody has seen this before")));
    stage.publish("a").await;
    let entry = stage.stands("a", EntryState::Parked).await;
    assert_eq!((entry.class, entry.attempts), (Class::Unknown, 5));
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3, 4, 5]);
    stage.ends(flow).await;
}

/// Each type of message can have a policy of its own, and the handler is told by that one.
pub async fn each_message_type_has_its_policy(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": format!("{} x3", stage.ticks(1)) }));
    spec.policies_by_type.insert(
        "invoice".to_owned(),
        stage.policy(json!({ "retry": stage.ticks(1), "budgets": { "calls": 2 } })),
    );
    let flow = stage.start(spec).await;
    stage.handler.otherwise(Step::status(503));
    stage.publish_message(super::stage::with_headers("i", &[("type", "invoice")])).await;
    stage.publish_message(super::stage::with_headers("o", &[("type", "order")])).await;
    assert_eq!(stage.stands("i", EntryState::Dead).await.attempts, 2);
    assert_eq!(stage.stands("o", EntryState::Dead).await.attempts, 4);
    let told = |id| -> Vec<(bool, Option<u32>)> {
        let calls = stage.handler.calls_of(id);
        calls.iter().map(|call| (call.context.will_retry, call.context.calls_left)).collect()
    };
    assert_eq!(told("i"), [(true, Some(2)), (false, Some(1))]);
    assert_eq!(told("o"), [(true, None), (true, None), (true, None), (false, None)]);
    stage.ends(flow).await;
}
