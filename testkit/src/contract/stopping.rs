//! Stops and restarts.

use redrive_engine::port::{EntryState, Filter};
use serde_json::json;

use super::blocking::keeps_places;
use super::stage::FLOW;
use super::{Fixture, Stage, eventually};
use crate::handler::{Door, Step};

/// A stop waits for what runs, settles it, and gives the rest back uncharged.
pub async fn a_stop_finishes_what_runs(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 1;
    let door = Door::closed();
    stage.handler.on("a", [Step::Wait(door.clone(), Box::new(Step::Succeed))]);
    for id in ["a", "b", "c"] {
        stage.publish(id).await;
    }
    let flow = stage.start(spec.clone()).await;
    stage.called("a", 1).await;
    eventually(fixture, "prefetched messages", || async {
        if flow.in_hand() == 3 { Ok(()) } else { Err(format!("{} in hand", flow.in_hand())) }
    })
    .await;
    let opening = async {
        stage.pass(2).await;
        door.open();
    };
    tokio::join!(flow.stop(), opening);
    assert!(stage.handler.calls_of("a")[0].ended);
    assert_eq!(stage.handler.order(), ["a"]);
    assert_eq!(stage.depth(FLOW).await.ready, 2);
    let flow = stage.start(spec).await;
    stage.called("c", 1).await;
    stage.drained().await;
    assert_eq!(stage.handler.order(), ["a", "b", "c"]);
    assert_eq!(stage.handler.attempts_of("b"), [1], "a prefetched message is not charged");
    assert!(stage.found(&Filter::default()).await.is_empty());
    stage.ends(flow).await;
}

/// What runs past the stop's deadline is given up, uncharged, and handled after the restart.
pub async fn a_stop_has_a_deadline(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.shutdown = stage.tick * 2;
    stage.handler.on("a", [Step::Hang]);
    stage.publish("a").await;
    let flow = stage.start(spec.clone()).await;
    stage.called("a", 1).await;
    flow.stop().await;
    assert!(!stage.handler.calls_of("a")[0].ended);
    assert!(stage.found(&Filter::default()).await.is_empty());
    let stage = stage.reopen().await;
    spec.handler = stage.handler.clone();
    let flow = stage.start(spec).await;
    stage.called("a", 2).await;
    assert_eq!(stage.handler.attempts_of("a"), [1, 1]);
    stage.drained().await;
    stage.ends(flow).await;
}

/// Attempts that were made in hand are written down when the flow stops during a wait in place.
pub async fn a_stop_writes_attempts_in_hand_down(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = |stage: &Stage<'_>| {
        let step = stage.ticks(30);
        json!({ "local": format!("1ms, {step} x2"), "budgets": { "attempts": 4 } })
    };
    stage.handler.otherwise(Step::status(503));
    let flow = stage.run(policy(&stage)).await;
    stage.publish("a").await;
    stage.called("a", 2).await;
    stage.pass(1).await;
    flow.stop().await;
    let entry = stage.stands("a", EntryState::Waiting).await;
    assert_eq!(entry.attempts, 2);
    let stage = stage.reopen().await;
    let flow = stage.run(policy(&stage)).await;
    let entry = stage.stands("a", EntryState::Dead).await;
    assert_eq!(entry.attempts, 4);
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3, 4]);
    stage.ends(flow).await;
}

/// The same for a blocking retry: the flow that starts next goes on where the last one stood.
pub async fn a_stop_writes_a_blocking_retry_down(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = |stage: &Stage<'_>| json!({ "blocking": format!("{} x3", stage.ticks(10)) });
    stage.handler.otherwise(Step::status(503));
    let flow = stage.run(policy(&stage)).await;
    stage.publish("a").await;
    stage.called("a", 1).await;
    stage.pass(1).await;
    flow.stop().await;
    if keeps_places(fixture) {
        assert!(stage.found(&Filter::default()).await.is_empty(), "it went back to its place");
    } else {
        assert_eq!(stage.stands("a", EntryState::Waiting).await.attempts, 1);
    }
    let stage = stage.reopen().await;
    let flow = stage.run(policy(&stage)).await;
    assert_eq!(stage.stands("a", EntryState::Dead).await.attempts, 4);
    assert_eq!(stage.handler.attempts_of("a"), [1, 2, 3, 4]);
    stage.ends(flow).await;
}

/// A flow that is dropped like a process that dies: what it had in hand is handed out again.
pub async fn what_a_dead_flow_had_comes_back(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 1;
    stage.handler.on("a", [Step::Hang]);
    for id in ["a", "b"] {
        stage.publish(id).await;
    }
    let flow = stage.start(spec.clone()).await;
    stage.called("a", 1).await;
    drop(flow);
    // Its tasks end a moment later; until then a broker with one reader a queue may refuse another.
    let flow = eventually(fixture, "the queue to be free", || async {
        stage.try_start(spec.clone()).await.map_err(|error| error.to_string())
    })
    .await;
    stage.called("a", 2).await;
    stage.called("b", 1).await;
    stage.drained().await;
    stage.ends(flow).await;
}

/// Waiting retries, dead letters and their history survive a restart.
pub async fn the_ledger_survives_a_restart(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let policy = |stage: &Stage<'_>| json!({ "retry": format!("{} x2", stage.ticks(20)) });
    let flow = stage.run(policy(&stage)).await;
    stage.handler.on("w", [Step::status(503)]);
    stage.handler.on("p", [Step::status(422)]);
    stage.publish("w").await;
    stage.publish("p").await;
    let waiting = stage.stands("w", EntryState::Waiting).await;
    let parked = stage.stands("p", EntryState::Parked).await;
    let history = stage.ports.ledger.history(parked.id).await.expect("history");
    flow.stop().await;
    let stage = stage.reopen().await;
    assert_eq!(stage.stands("w", EntryState::Waiting).await, waiting);
    assert_eq!(stage.stands("p", EntryState::Parked).await, parked);
    assert_eq!(stage.ports.ledger.history(parked.id).await.expect("history"), history);
    let flow = stage.run(policy(&stage)).await;
    let recovered = stage.stands("w", EntryState::Recovered).await;
    assert_eq!((recovered.id, recovered.attempts), (waiting.id, 2));
    stage.ends(flow).await;
}
