//! A message that others wait for, when whoever retries it in hand stops, dies, or loses its ledger.
//!
//! These apply where a message has a place that it comes from again: there it is never sent round by the broker.

use redrive_engine::port::{EntryState, Filter};
use serde_json::{Value, json};

use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::Step;

/// Whether a message that others wait for keeps its place over a stop.
pub(super) fn keeps_places(fixture: &impl Fixture) -> bool {
    let capabilities = fixture.capabilities();
    capabilities.partitions && capabilities.records_in_settle
}

fn policy(stage: &Stage<'_>, times: u32) -> Value {
    json!({ "blocking": format!("{} x{times}", stage.ticks(10)) })
}

/// A stop gives the message back with its count in the ledger: what stands behind it does not run first.
pub async fn a_blocked_message_keeps_its_place_over_a_stop(fixture: &impl Fixture) {
    if !keeps_places(fixture) {
        return not_applicable("a_blocked_message_keeps_its_place_over_a_stop", "messages have no places");
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a", [Step::status(503), Step::status(503), Step::status(503)]);
    let mut spec = stage.flow(policy(&stage, 5));
    spec.concurrency = 1;
    let flow = stage.start(spec.clone()).await;
    for id in ["a", "b"] {
        stage.publish(id).await;
    }
    stage.called("a", 2).await;
    flow.stop().await;
    assert!(stage.found(&Filter::default()).await.is_empty(), "it goes back to its place");
    let made = stage.handler.attempts_of("a").len();
    let stage = stage.reopen().await;
    spec.handler = stage.handler.clone();
    let flow = stage.start(spec).await;
    stage.called("b", 1).await;
    assert_eq!(stage.handler.order(), ["a", "a", "a", "a", "b"], "{made} before the stop");
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3, 4]);
    assert!(
        stage.found(&Filter::default()).await.is_empty(),
        "a blocking retry holds the flow, not the entry"
    );
    assert!(!flow.is_blocked());
    stage.drained().await;
    stage.ends(flow).await;
}

/// The same when nobody had the time to give anything back; the entry that it ends in says from where it went on.
pub async fn a_blocked_message_keeps_its_count_when_its_flow_dies(fixture: &impl Fixture) {
    if !keeps_places(fixture) {
        return not_applicable(
            "a_blocked_message_keeps_its_count_when_its_flow_dies",
            "messages have no places",
        );
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a", std::iter::repeat_with(|| Step::status(503)).take(8));
    let mut spec = stage.flow(policy(&stage, 3));
    spec.concurrency = 1;
    let flow = stage.start(spec.clone()).await;
    for id in ["a", "b"] {
        stage.publish(id).await;
    }
    stage.called("a", 2).await;
    stage.pass(1).await;
    drop(flow);
    let stage = stage.reopen().await;
    spec.handler = stage.handler.clone();
    let flow = eventually(fixture, "the source to be free", || async {
        stage.try_start(spec.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    let entry = stage.stands("a", EntryState::Dead).await;
    stage.called("b", 1).await;
    assert_eq!(entry.attempts, 4);
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3, 4], "none over its budget");
    assert_eq!(stage.handler.order(), ["a", "a", "a", "a", "b"]);
    assert!(entry.because.contains("went on from attempt 2"), "{}", entry.because);
    stage.drained().await;
    stage.ends(flow).await;
}

/// Where the ledger does not know of the attempts before, they are made again, and the entry says so.
pub async fn a_count_that_starts_over_is_told(fixture: &impl Fixture) {
    if !keeps_places(fixture) {
        return not_applicable("a_count_that_starts_over_is_told", "messages have no places");
    }
    let stage = Stage::open(fixture).await;
    stage.handler.otherwise(Step::status(503));
    let spec = stage.flow(policy(&stage, 2));
    let flow = stage.start(spec.clone()).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    stage.pass(1).await;
    drop(flow);
    let Stage { fixture, ports, handler, tick } = stage;
    let Some(ports) = fixture.lose_ledger(ports).await else {
        return not_applicable("a_count_that_starts_over_is_told", "the ledger cannot be lost");
    };
    let stage = Stage { fixture, ports, handler, tick };
    let flow = eventually(fixture, "the source to be free", || async {
        stage.try_start(spec.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 1, 2, 3]);
    assert_eq!(entry.attempts, 3);
    assert!(entry.because.contains("counted from 1"), "{}", entry.because);
    stage.ends(flow).await;
}
