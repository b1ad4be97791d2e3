//! What holds a flow back, and charges nobody for it.

use std::time::Duration;

use redrive_core::guard::{BreakerConfig, BreakerState, Rate, Window};
use redrive_engine::FlowSpec;
use redrive_engine::port::{EntryState, Filter};
use serde_json::{Value, json};

use super::stage::FLOW;
use super::{Fixture, Stage, eventually};
use crate::handler::Step;

fn guarded(stage: &Stage<'_>, policy: Value) -> FlowSpec {
    let mut spec = stage.flow(policy);
    spec.breaker = Some(BreakerConfig {
        open: stage.tick * 5,
        window: Window::Time(Duration::from_secs(3_600)),
        ..BreakerConfig::default()
    });
    spec
}

async fn is_open(stage: &Stage<'_>, flow: &redrive_engine::Flow) {
    eventually(stage.fixture, "an open breaker", || async {
        match flow.breaker() {
            Some(BreakerState::Open) => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
}

/// An outage holds the flow: beyond the trip nobody is charged, nothing dies, and all is delivered afterwards.
pub async fn an_outage_holds_the_flow_uncharged(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(2), "budgets": { "attempts": 2 } }));
    spec.concurrency = 1;
    stage.handler.otherwise(Step::status(503));
    let ids: Vec<String> = (0..40).map(|n| format!("m{n:02}")).collect();
    for id in &ids {
        stage.publish(id).await;
    }
    let flow = stage.start(spec).await;
    is_open(&stage, &flow).await;
    // Long enough for several rounds of probes.
    stage.pass(60).await;
    let charged = stage.found(&Filter::default()).await;
    assert!(charged.len() <= 5, "{} were charged: {charged:?}", charged.len());
    assert!(stage.found(&super::stage::in_state(EntryState::Dead)).await.is_empty());
    stage.handler.otherwise(Step::Succeed);
    for id in &ids {
        stage.called(id, 1).await;
    }
    stage.drained().await;
    for id in stage.found(&Filter::default()).await {
        stage.stands(&id, EntryState::Recovered).await;
    }
    stage.ends(flow).await;
}

/// Expired credentials hold the flow; not one message is charged, and all are delivered afterwards.
pub async fn expired_credentials_charge_nobody(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let spec = guarded(&stage, json!({ "retry": stage.ticks(1), "budgets": { "attempts": 2 } }));
    stage.handler.otherwise(Step::status(401));
    let ids: Vec<String> = (0..30).map(|n| format!("m{n:02}")).collect();
    for id in &ids {
        stage.publish(id).await;
    }
    let flow = stage.start(spec).await;
    is_open(&stage, &flow).await;
    stage.pass(30).await;
    assert!(stage.found(&Filter::default()).await.is_empty());
    let depth = stage.queue(FLOW).await.depth;
    assert_eq!(depth.ready + depth.waiting, 30);
    stage.handler.otherwise(Step::Succeed);
    stage.drained().await;
    assert!(stage.found(&Filter::default()).await.is_empty());
    for id in &ids {
        let last = stage.handler.attempts_of(id).pop();
        assert_eq!(last, Some(1), "{id} was charged");
    }
    stage.ends(flow).await;
}

/// Once a call has succeeded, the same answer speaks about the message, and it is parked.
pub async fn a_proven_endpoint_blames_the_message(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = stage.start(guarded(&stage, json!({ "retry": stage.ticks(1) }))).await;
    stage.publish("good").await;
    stage.called("good", 1).await;
    stage.drained().await;
    stage.handler.on("bad", [Step::status(404)]);
    stage.publish("bad").await;
    assert_eq!(stage.stands("bad", EntryState::Parked).await.attempts, 1);
    stage.ends(flow).await;
}

/// Poison never opens the breaker: what is healthy behind it goes on.
pub async fn poison_does_not_stop_the_healthy(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 1;
    for n in 0..50 {
        stage.handler.on(&format!("p{n}"), [Step::status(422)]);
        stage.publish(&format!("p{n}")).await;
    }
    stage.publish("healthy").await;
    let flow = stage.start(spec).await;
    stage.called("healthy", 1).await;
    assert_eq!(flow.breaker(), Some(BreakerState::Closed));
    stage.drained().await;
    stage.ends(flow).await;
}

/// Time in which the breaker held a message back is not its age.
pub async fn held_time_is_not_age(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(
        &stage,
        json!({ "retry": format!("{} x3", stage.ticks(2)),
        "budgets": { "age": stage.ticks(20) } }),
    );
    spec.concurrency = 1;
    let flow = stage.start(spec).await;
    stage.handler.otherwise(Step::status(503));
    for n in 0..5 {
        stage.publish(&format!("m{n}")).await;
    }
    is_open(&stage, &flow).await;
    stage.stands("m0", EntryState::Waiting).await;
    stage.pass(80).await;
    assert!(stage.found(&super::stage::in_state(EntryState::Dead)).await.is_empty());
    // One failure that is its own after the outage: its age still allows another attempt.
    stage.handler.on("m0", [Step::status(409)]);
    stage.handler.otherwise(Step::Succeed);
    assert_eq!(stage.stands("m0", EntryState::Recovered).await.attempts, 3);
    stage.drained().await;
    stage.ends(flow).await;
}

/// At a rate of one in two ticks, calls begin no faster.
pub async fn the_rate_is_kept(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": stage.ticks(1) }));
    spec.rate = Rate::new(1, stage.tick * 2);
    let burst = spec.rate.map_or(1, Rate::one_second);
    for n in 0..burst + 5 {
        stage.publish(&format!("m{n}")).await;
    }
    let begun = redrive_engine::port::Clock::monotonic(&*stage.ports.clock);
    let flow = stage.start(spec).await;
    stage.drained().await;
    let took = redrive_engine::port::Clock::monotonic(&*stage.ports.clock).saturating_sub(begun);
    assert!(took >= stage.tick * 2 * 5, "{took:?}");
    assert_eq!(stage.handler.calls().len() as u32, burst + 5);
    stage.ends(flow).await;
}
