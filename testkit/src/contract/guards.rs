//! What holds a flow back, and charges nobody for it.

use std::time::Duration;

use redrive_core::guard::{BreakerConfig, BreakerState, Rate, RetryBudgetConfig, Window};
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
            // Once its time is over it is about to probe.
            Some(BreakerState::Open | BreakerState::HalfOpen) => Ok(()),
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
    let depth = stage.depth(FLOW).await;
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

/// A thousand poison messages in a row never open the breaker: what is healthy behind them goes on.
pub async fn poison_does_not_stop_the_healthy(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 1;
    let ids: Vec<String> = (0..1_000).map(|n| format!("p{n}")).collect();
    for id in &ids {
        stage.handler.on(id, [Step::status(422)]);
    }
    stage.publish_all(&ids).await;
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

/// Five failures of the endpoint in a row hold the flow, however rarely messages come, and though nothing ever succeeded.
pub async fn a_breaker_opens_at_a_low_rate(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(4_000) }));
    spec.concurrency = 1;
    stage.handler.otherwise(Step::status(503));
    let flow = stage.start(spec).await;
    for n in 0..5 {
        stage.publish(&format!("m{n}")).await;
        stage.stands(&format!("m{n}"), EntryState::Waiting).await;
        stage.pass(2).await;
    }
    is_open(&stage, &flow).await;
    let names: Vec<_> = flow.alarms().into_iter().map(|alarm| alarm.name.into_owned()).collect();
    assert_eq!(names, ["breaker_open"]);
    stage.publish("held").await;
    stage.pass(2).await;
    stage.handler.otherwise(Step::Succeed);
    stage.called("held", 1).await;
    // Two of three probes decide.
    stage.publish("another").await;
    stage.called("another", 1).await;
    eventually(stage.fixture, "the end of the alarm", || async {
        if flow.alarms().is_empty() { Ok(()) } else { Err(format!("{:?}", flow.alarms())) }
    })
    .await;
    stage.ends(flow).await;
}

/// Credentials expire while the flow runs: few are parked before it holds, and all others are delivered afterwards.
pub async fn credentials_that_expire_park_few(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(1) }));
    spec.concurrency = 8;
    let flow = stage.start(spec).await;
    stage.publish("good").await;
    stage.called("good", 1).await;
    stage.drained().await;
    stage.handler.otherwise(Step::status(401));
    let ids: Vec<String> = (0..300).map(|n| format!("m{n:03}")).collect();
    stage.publish_all(&ids).await;
    is_open(&stage, &flow).await;
    stage.pass(30).await;
    let parked = stage.ports.ledger.count(FLOW, EntryState::Parked).await.expect("a count");
    assert!(parked <= 20 + 8, "{parked} were parked");
    stage.handler.otherwise(Step::Succeed);
    stage.drained().await;
    let through = ids.iter().filter(|id| stage.handler.calls_of(id).last().is_some_and(|call| call.ended));
    assert_eq!(through.count(), 300);
    assert_eq!(stage.ports.ledger.count(FLOW, EntryState::Parked).await, Ok(parked));
    stage.ends(flow).await;
}

/// Retries stay a small share of the calls, and what is fresh is not kept waiting by them.
pub async fn retries_stay_a_small_share(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": format!("{} x20", stage.ticks(1)) }));
    spec.retry_budget = Some(RetryBudgetConfig {
        share: 0.3,
        floor: Rate::new(1, stage.tick * 4),
        window: stage.tick * 1_000,
    });
    let failing: Vec<String> = (0..40).map(|n| format!("f{n:02}")).collect();
    for id in &failing {
        stage.handler.on(id, vec![Step::status(503); 3]);
    }
    let flow = stage.start(spec).await;
    stage.publish_all(&failing).await;
    for id in &failing {
        stage.called(id, 1).await;
    }
    stage.pass(20).await;
    let retries = stage.handler.calls().iter().filter(|call| call.context.attempt > 1).count();
    let by_floor = 20 / 4 + 1 + Rate::new(1, stage.tick * 4).map_or(1, Rate::one_second) as usize;
    assert!(retries <= 12 + by_floor, "{retries} retries beside 40 first attempts");
    assert!(retries >= 12, "{retries} retries: the share was not used");
    // A backlog of nothing but retries drains by the floor.
    stage.drained().await;
    for id in &failing {
        assert_eq!(stage.handler.attempts_of(id), [1, 2, 3, 4]);
    }
    stage.ends(flow).await;
}

/// A backlog of retries that the budget holds leaves room for fresh messages.
pub async fn held_retries_leave_room_for_fresh_messages(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = stage.flow(json!({ "retry": format!("{} x20", stage.ticks(1)) }));
    spec.retry_budget =
        Some(RetryBudgetConfig { share: 0.0, floor: Rate::new(1, stage.tick * 5), window: stage.tick });
    spec.prefetch = 16;
    spec.concurrency = 4;
    let failing: Vec<String> = (0..40).map(|n| format!("f{n:02}")).collect();
    for id in &failing {
        stage.handler.on(id, [Step::status(503)]);
    }
    let flow = stage.start(spec).await;
    stage.publish_all(&failing).await;
    for id in &failing {
        stage.called(id, 1).await;
    }
    stage.pass(3).await;
    let fresh: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    stage.publish_all(&fresh).await;
    for id in &fresh {
        stage.called(id, 1).await;
    }
    let order = stage.handler.order();
    let retried = order.iter().filter(|id| id.starts_with('f')).count() - 40;
    assert!(retried < 40, "every retry went before the fresh messages");
    stage.drained().await;
    stage.ends(flow).await;
}

/// A breaker that stays open gives back what was taken in; nothing is lost, nobody is charged.
pub async fn a_long_outage_gives_back_what_was_taken_in(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let mut spec = guarded(&stage, json!({ "retry": stage.ticks(2) }));
    spec.long_hold = stage.tick * 8;
    spec.concurrency = 2;
    stage.handler.otherwise(Step::status(401));
    let ids: Vec<String> = (0..100).map(|n| format!("m{n:03}")).collect();
    stage.publish_all(&ids).await;
    let flow = stage.start(spec).await;
    is_open(&stage, &flow).await;
    eventually(stage.fixture, "nearly empty hands", || async {
        if flow.in_hand() <= 32 { Ok(()) } else { Err(flow.in_hand().to_string()) }
    })
    .await;
    stage.handler.otherwise(Step::Succeed);
    stage.drained().await;
    for id in &ids {
        assert_eq!(stage.handler.attempts_of(id).pop(), Some(1), "{id}");
    }
    assert!(stage.found(&Filter::default()).await.is_empty());
    stage.ends(flow).await;
}
