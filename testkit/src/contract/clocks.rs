//! A wall clock that is set.

use std::time::Duration;

use redrive_engine::port::EntryState;
use serde_json::json;

use super::stage::with_headers;
use super::{Fixture, Stage, eventually};
use crate::handler::Step;

const HOUR: Duration = Duration::from_secs(3_600);

/// Set back an hour: nothing is lost, nothing comes at once, fresh messages go on, and what waits comes in the end.
pub async fn a_clock_set_back_loses_nothing(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow =
        stage.run(json!({ "retry": format!("{} x3", stage.ticks(10)), "budgets": { "age": "24h" } })).await;
    stage.handler.on("a", [Step::status(503), Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    stage.ports.clock.back(HOUR);
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.pass(2).await;
    assert_eq!(stage.handler.calls_of("a").len(), 1, "it came at once");
    stage.ports.clock.forward(HOUR);
    stage.called("a", 2).await;
    stage.ports.clock.back(HOUR);
    stage.pass(2).await;
    assert_eq!(stage.handler.calls_of("a").len(), 2, "it came at once");
    stage.ports.clock.forward(HOUR);
    let entry = stage.stands("a", EntryState::Recovered).await;
    assert_eq!(entry.attempts, 3);
    stage.drained().await;
    stage.ends(flow).await;
}

/// Set forward an hour: what waited has come due, each once, and waits in hand are not cut short.
pub async fn a_clock_set_forward_makes_due_once(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.run(json!({ "retry": format!("{} x3", stage.ticks(600)) })).await;
    let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    for id in &ids {
        stage.handler.on(id, [Step::status(503)]);
        stage.publish(id).await;
        stage.stands(id, EntryState::Waiting).await;
    }
    stage.ports.clock.forward(HOUR);
    for id in &ids {
        stage.stands(id, EntryState::Recovered).await;
        assert_eq!(stage.handler.attempts_of(id), [1, 2]);
    }
    stage.drained().await;
    stage.ends(flow).await;
}

/// A message that carries a deadline is not retried past it.
pub async fn no_retry_comes_after_the_deadline(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": format!("{} x9", stage.ticks(4)),
        "exits": { "DEADLINE_PASSED": "discard" } }));
    spec.facts.deadline = Some("header:deadline".parse().expect("a source"));
    let flow = stage.start(spec).await;
    stage.handler.otherwise(Step::status(503));
    let deadline = (stage.now() + stage.tick * 10).as_millis().to_string();
    stage.publish_message(with_headers("a", &[("deadline", &deadline)])).await;
    let entry = stage.stands("a", EntryState::Discarded).await;
    assert_eq!(entry.reason.as_str(), "DEADLINE_PASSED");
    assert!((1..=3).contains(&entry.attempts), "{}", entry.attempts);
    stage.ends(flow).await;
}

/// A restart with a clock that has been set back loses nothing either.
pub async fn a_restart_with_a_clock_set_back_loses_nothing(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = |stage: &Stage<'_>| json!({ "retry": format!("{} x3", stage.ticks(20)) });
    let flow = stage.run(policy(&stage)).await;
    stage.handler.on("a", [Step::status(503)]);
    stage.publish("a").await;
    stage.stands("a", EntryState::Waiting).await;
    flow.stop().await;
    let stage = stage.reopen().await;
    stage.ports.clock.back(HOUR);
    let flow = stage.run(policy(&stage)).await;
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.ports.clock.forward(HOUR);
    stage.stands("a", EntryState::Recovered).await;
    eventually(fixture, "an idle flow", || async {
        if flow.in_hand() == 0 { Ok(()) } else { Err(format!("{} in hand", flow.in_hand())) }
    })
    .await;
    stage.ends(flow).await;
}
