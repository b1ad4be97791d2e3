//! Order: what has one key is handled one after the other, whatever happens to the one in front.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_core::OrderBy;
use redrive_core::guard::{BreakerConfig, Window};
use redrive_engine::handler::Attempted;
use redrive_engine::port::{Deed, EntryState, NewMessage, ReplayState};
use redrive_engine::{Flow, FlowSpec, ReplayDriver};
use serde_json::{Value, json};

use super::stage::{FLOW, in_state, named, with_headers};
use super::{Fixture, Stage, eventually, no_lanes};
use crate::handler::{Door, Step};

/// A message of a lane.
fn keyed(id: &str, key: &str) -> NewMessage {
    NewMessage { key: Some(key.to_owned().into()), ..named(id) }
}

fn ordered(stage: &Stage<'_>, policy: Value) -> FlowSpec {
    let mut spec = stage.flow(policy);
    spec.order_by = OrderBy::Key;
    spec.concurrency = 8;
    spec
}

async fn publish(stage: &Stage<'_>, key: &str, ids: &[&str]) {
    for id in ids {
        stage.publish_message(keyed(id, key)).await;
    }
}

/// The ids of the calls with messages of this lane, in the order in which they began.
fn calls_in(stage: &Stage<'_>, key: &str) -> Vec<String> {
    let calls = stage.handler.calls();
    let of_lane = calls.iter().filter(|call| call.message.key.as_deref() == Some(key.as_bytes()));
    of_lane.map(|call| call.message.id.to_string()).collect()
}

async fn all_held(stage: &Stage<'_>, ids: &[&str], head: &str) {
    for id in ids {
        let entry = stage.stands(id, EntryState::Held).await;
        assert_eq!(entry.held_behind.as_deref(), Some(head), "{id}");
        assert_eq!(entry.attempts, 0, "{id} was tried");
    }
    let followers = stage.ports.ledger.entry(head).await.expect("the ledger").expect("an entry").followers;
    assert_eq!(followers, ids.len() as u64);
}

/// At the end nothing is left of any lane.
async fn lanes_are_open(stage: &Stage<'_>, flow: &Flow) {
    eventually(stage.fixture, "open lanes", || async {
        match (stage.ports.ledger.held_lanes(FLOW).await, flow.lanes_in_hand()) {
            (Ok(0), 0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
}

/// A flow whose order nobody can keep does not start.
pub async fn order_is_refused_where_nobody_keeps_it(fixture: &impl Fixture) {
    if fixture.capabilities().lanes {
        return;
    }
    let stage = Stage::open(fixture).await;
    let refused = stage.try_start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    let error = refused.expect_err("nobody keeps the order").to_string();
    assert!(error.contains("order_by"), "{error}");
}

/// Messages of one lane never run at the same time, and run in the order in which they came.
pub async fn a_lane_runs_one_after_the_other(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let running: Arc<BTreeMap<String, AtomicUsize>> =
        Arc::new(["a", "b", "c"].into_iter().map(|key| (key.to_owned(), AtomicUsize::new(0))).collect());
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, highest, tick) = (Arc::clone(&running), Arc::clone(&most), stage.tick);
    stage.handler.otherwise(Step::run(move |message, _| {
        let (seen, highest) = (Arc::clone(&seen), Arc::clone(&highest));
        async move {
            let key = String::from_utf8_lossy(message.key.as_deref().unwrap_or_default()).into_owned();
            highest.fetch_max(seen[&key].fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(tick / 10).await;
            seen[&key].fetch_sub(1, Ordering::SeqCst);
            Attempted::success()
        }
    }));
    let mut expected: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for n in 0..30 {
        let key = ["a", "b", "c"][n % 3];
        let id = format!("{key}{n:02}");
        stage.publish_message(keyed(&id, key)).await;
        expected.entry(key).or_default().push(id);
    }
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    stage.drained().await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
    for (key, ids) in expected {
        assert_eq!(calls_in(&stage, key), ids);
    }
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A lane whose message takes for ever does not stop another.
pub async fn lanes_run_beside_each_other(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let door = Door::closed();
    stage.handler.on("a1", [Step::Wait(Arc::clone(&door), Box::new(Step::Succeed))]);
    publish(&stage, "a", &["a1", "a2"]).await;
    publish(&stage, "b", &["b1", "b2"]).await;
    stage.publish("keyless").await;
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    stage.called("b2", 1).await;
    stage.called("keyless", 1).await;
    assert_eq!(calls_in(&stage, "a"), ["a1"]);
    door.open();
    stage.drained().await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a2"]);
    stage.ends(flow).await;
}

/// Behind a delayed head everything of its lane is kept, untried; it goes in order when the head is through.
pub async fn followers_wait_for_a_delayed_head(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(20) }))).await;
    publish(&stage, "a", &["a1", "a2", "a3"]).await;
    publish(&stage, "b", &["b1"]).await;
    stage.called("b1", 1).await;
    stage.stands("a1", EntryState::Waiting).await;
    all_held(&stage, &["a2", "a3"], "a1").await;
    assert_eq!(stage.ports.ledger.held_lanes(FLOW).await, Ok(1));
    // One that comes late goes to the end.
    publish(&stage, "a", &["a4"]).await;
    all_held(&stage, &["a2", "a3", "a4"], "a1").await;
    for id in ["a1", "a2", "a3", "a4"] {
        stage.stands(id, EntryState::Recovered).await;
    }
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a2", "a3", "a4"]);
    assert_eq!(stage.handler.attempts_of("a2"), [1], "who only waited has lost nothing");
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A dead head keeps its followers until it is replayed, and they go after it.
pub async fn followers_wait_for_a_dead_head_and_its_replay(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503), Step::status(503)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    publish(&stage, "a", &["a1", "a2", "a3"]).await;
    stage.stands("a1", EntryState::Dead).await;
    all_held(&stage, &["a2", "a3"], "a1").await;
    stage.pass(5).await;
    assert_eq!(stage.handler.calls_of("a2").len(), 0);

    let replay = stage.replay(in_state(EntryState::Dead)).await;
    let driver = ReplayDriver::start(stage.ports.ledger.clone(), stage.ports.clock.clone(), stage.tick);
    for id in ["a1", "a2", "a3"] {
        stage.stands(id, EntryState::Recovered).await;
    }
    let done = eventually(stage.fixture, "the end of the replay", || async {
        match stage.ports.ledger.replay(replay).await {
            Ok(Some(replay)) if replay.state == ReplayState::Done => Ok(replay),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!((done.sent, done.recovered), (1, 1));
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a1", "a2", "a3"]);
    lanes_are_open(&stage, &flow).await;
    driver.stop().await;
    stage.ends(flow).await;
}

/// A parked head keeps its followers until it is tried again.
pub async fn followers_wait_for_a_parked_head(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(422)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    publish(&stage, "a", &["a1", "a2"]).await;
    stage.stands("a1", EntryState::Parked).await;
    all_held(&stage, &["a2"], "a1").await;
    stage.done(Deed::RetryNow, "a1").await;
    stage.stands("a2", EntryState::Recovered).await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a2"]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A head that is discarded lets its followers go.
pub async fn a_discarded_head_opens_its_lane(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(422)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(1) }))).await;
    publish(&stage, "a", &["a1", "a2", "a3"]).await;
    stage.stands("a1", EntryState::Parked).await;
    all_held(&stage, &["a2", "a3"], "a1").await;
    stage.done(Deed::Discard, "a1").await;
    stage.stands("a3", EntryState::Recovered).await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a2", "a3"]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A head that is skipped stays for a person; its followers go, and are told of it.
pub async fn a_skipped_head_lets_the_others_pass(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(5_000) }))).await;
    publish(&stage, "a", &["a1", "a2"]).await;
    stage.stands("a1", EntryState::Waiting).await;
    all_held(&stage, &["a2"], "a1").await;
    stage.done(Deed::Skip, "a1").await;
    stage.stands("a2", EntryState::Recovered).await;
    stage.stands("a1", EntryState::Parked).await;
    let told = stage.handler.calls_of("a2").remove(0).context.diverted;
    assert_eq!(*told, ["a1".to_owned()]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A follower that fails becomes the head of those behind it.
pub async fn a_follower_that_fails_becomes_the_head(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503)]);
    stage.handler.on("a2", [Step::status(422)]);
    let flow = stage.start(ordered(&stage, json!({ "retry": stage.ticks(10) }))).await;
    publish(&stage, "a", &["a1", "a2", "a3", "a4"]).await;
    stage.stands("a1", EntryState::Recovered).await;
    stage.stands("a2", EntryState::Parked).await;
    all_held(&stage, &["a3", "a4"], "a2").await;
    stage.pass(5).await;
    assert_eq!(stage.handler.calls_of("a3").len(), 0);
    stage.done(Deed::Archive, "a2").await;
    stage.stands("a4", EntryState::Recovered).await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a2", "a3", "a4"]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// Every kind of failure in a lane: in place, delayed, parked, discarded, panicked, timed out. Order is kept through all.
pub async fn a_lane_keeps_its_order_through_every_failure(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let mut spec = ordered(
        &stage,
        json!({ "local": "1ms x1", "retry": format!("{} x3", stage.ticks(1)),
            "exits": { "POISON": "discard" },
            "rules": [{ "when": { "status": 418 }, "class": "POISON", "reason": "TEAPOT" }] }),
    );
    spec.timeout = stage.tick * 2;
    let two = |step: Step| [step.clone(), step];
    stage.handler.on("a1", two(Step::status(503)));
    stage.handler.on("a2", [Step::status(418)]);
    stage.handler.on("a3", two(Step::Panic("no".to_owned())));
    stage.handler.on("a4", two(Step::Hang));
    stage.handler.on("a5", two(Step::status(409)));
    let flow = stage.start(spec).await;
    publish(&stage, "a", &["a1", "a2", "a3", "a4", "a5", "a6"]).await;
    stage.called("a6", 1).await;
    stage.drained().await;
    let mut order = calls_in(&stage, "a");
    order.dedup();
    assert_eq!(order, ["a1", "a2", "a3", "a4", "a5", "a6"]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// With order, a blocking retry holds its lane and nothing else.
pub async fn a_blocking_retry_holds_its_lane_alone(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503), Step::status(503)]);
    let policy = json!({ "blocking": format!("{} x5", stage.ticks(10)) });
    let flow = stage.start(ordered(&stage, policy)).await;
    publish(&stage, "a", &["a1", "a2"]).await;
    stage.called("a1", 1).await;
    publish(&stage, "b", &["b1", "b2"]).await;
    stage.called("b2", 1).await;
    assert!(!flow.is_blocked());
    assert_eq!(stage.handler.calls_of("a2").len(), 0);
    stage.called("a2", 1).await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a1", "a2"]);
    stage.drained().await;
    assert!(stage.found(&redrive_engine::port::Filter::default()).await.is_empty());
    stage.ends(flow).await;
}

/// A lane that is held, its head and its followers are there after a restart, in order.
pub async fn a_held_lane_survives_a_restart(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::status(503)]);
    let policy = json!({ "retry": stage.ticks(30) });
    let flow = stage.start(ordered(&stage, policy.clone())).await;
    publish(&stage, "a", &["a1", "a2", "a3"]).await;
    stage.stands("a1", EntryState::Waiting).await;
    all_held(&stage, &["a2", "a3"], "a1").await;
    stage.ends(flow).await;
    let stage = stage.reopen().await;
    publish(&stage, "a", &["a4"]).await;
    let flow = stage.start(ordered(&stage, policy)).await;
    stage.stands("a4", EntryState::Recovered).await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a2", "a3", "a4"]);
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// A stop gives a lane back as it was: whoever ran comes first again.
pub async fn a_stop_gives_a_lane_back_in_order(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    stage.handler.on("a1", [Step::Hang]);
    let mut spec = ordered(&stage, json!({ "retry": stage.ticks(1) }));
    spec.shutdown = stage.tick;
    publish(&stage, "a", &["a1", "a2", "a3"]).await;
    let flow = stage.start(spec.clone()).await;
    stage.called("a1", 1).await;
    flow.stop().await;
    let flow = stage.start(spec).await;
    stage.drained().await;
    assert_eq!(calls_in(&stage, "a"), ["a1", "a1", "a2", "a3"]);
    assert_eq!(stage.handler.attempts_of("a1"), [1, 1], "the attempt that was given up is not charged");
    stage.ends(flow).await;
}

/// A head parked with ten thousand followers: other lanes go on, hands stay empty, and all go in order when it is through.
pub async fn a_head_with_ten_thousand_followers_disturbs_nobody(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    // The store in memory looks at every row each time.
    let followers = if fixture.capabilities().kind == "memory" { 500 } else { 10_000 };
    let stage = Stage::open(fixture).await;
    stage.handler.on("head", [Step::status(422)]);
    let mut spec = ordered(&stage, json!({ "retry": stage.ticks(1) }));
    spec.prefetch = 128;
    let flow = stage.start(spec).await;
    publish(&stage, "a", &["head"]).await;
    stage.stands("head", EntryState::Parked).await;
    let ids: Vec<String> = (0..followers).map(|n| format!("f{n:05}")).collect();
    for chunk in ids.chunks(500) {
        let messages: Vec<NewMessage> = chunk.iter().map(|id| keyed(id, "a")).collect();
        stage.publish_batch(messages).await;
    }
    publish(&stage, "b", &["b1"]).await;
    stage.called("b1", 1).await;
    eventually(stage.fixture, "everyone to be kept", || async {
        let held = stage.ports.ledger.count(FLOW, EntryState::Held).await;
        if held == Ok(followers) { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
    eventually(stage.fixture, "empty hands", || async {
        match (flow.in_hand(), flow.lanes_in_hand()) {
            (0, 0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
    publish(&stage, "b", &["b2"]).await;
    stage.called("b2", 1).await;
    stage.done(Deed::RetryNow, "head").await;
    stage.stands(ids.last().expect("a follower"), EntryState::Recovered).await;
    let order = calls_in(&stage, "a");
    assert_eq!(order[..2], ["head", "head"]);
    assert!(order[2..].iter().eq(ids.iter()), "out of order");
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// Heads that come through while followers arrive: nobody is left behind, and nobody overtakes.
pub async fn a_release_races_new_followers(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let flow = stage.start(ordered(&stage, json!({ "retry": format!("{} x9", stage.ticks(1)) }))).await;
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for n in 0..60 {
        let key = format!("k{}", n % 4);
        let id = format!("{key}-{n:03}");
        if n % 5 == 0 {
            stage.handler.on(&id, [Step::status(503)]);
        }
        if n % 11 == 0 {
            stage.handler.on(&id, [Step::status(503), Step::status(503)]);
        }
        stage.publish_message(keyed(&id, &key)).await;
        ids.entry(key).or_default().push(id);
        if n % 7 == 0 {
            stage.fixture.pass(stage.tick / 3).await;
        }
    }
    for id in ids.values().flatten() {
        stage.called(id, 1).await;
    }
    stage.drained().await;
    for (key, ids) in &ids {
        let mut order = calls_in(&stage, key);
        order.dedup();
        assert_eq!(order, *ids);
    }
    lanes_are_open(&stage, &flow).await;
    stage.ends(flow).await;
}

/// When the endpoint is at fault, a lane goes back whole, uncharged, and comes again in order.
pub async fn a_lane_goes_back_whole(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    let stage = Stage::open(fixture).await;
    let mut spec = ordered(&stage, json!({ "retry": stage.ticks(1) }));
    spec.breaker = Some(BreakerConfig {
        open: stage.tick * 3,
        window: Window::Time(stage.tick * 1_000),
        ..BreakerConfig::default()
    });
    stage.handler.otherwise(Step::status(401));
    let ids = ["a1", "a2", "a3", "a4", "a5"];
    publish(&stage, "a", &ids).await;
    let flow = stage.start(spec).await;
    stage.called("a1", 6).await;
    stage.handler.otherwise(Step::Succeed);
    stage.drained().await;
    let mut order = calls_in(&stage, "a");
    order.dedup();
    assert_eq!(order, ids);
    assert_eq!(stage.handler.attempts_of("a1").pop(), Some(1));
    assert!(stage.found(&redrive_engine::port::Filter::default()).await.is_empty());
    stage.ends(flow).await;
}

/// The order key can stand in a header or in the body.
pub async fn lanes_are_made_by_headers_and_bodies(fixture: &impl Fixture) {
    if no_lanes(fixture) {
        return;
    }
    for order_by in ["header:customer", "json:/order"] {
        let stage = Stage::open(fixture).await;
        let mut spec = ordered(&stage, json!({ "retry": stage.ticks(10) }));
        spec.order_by = order_by.parse().expect("something to order by");
        stage.handler.on("x1", [Step::status(503)]);
        let flow = stage.start(spec).await;
        for (id, lane) in [("x1", "7"), ("x2", "7"), ("y1", "8")] {
            let message = with_headers(id, &[("customer", lane)]);
            let body = Some(format!("{{\"order\":\"{lane}\"}}").into());
            stage.publish_message(NewMessage { body, ..message }).await;
        }
        stage.called("y1", 1).await;
        all_held(&stage, &["x2"], "x1").await;
        stage.stands("x2", EntryState::Recovered).await;
        lanes_are_open(&stage, &flow).await;
        stage.ends(flow).await;
    }
}
