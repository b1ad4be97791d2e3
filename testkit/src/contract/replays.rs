//! Replays: a frozen selection, sent back, each outcome known.

use redrive_engine::port::{
    Deed, EntryId, EntryState, Filter, NewMessage, NewReplay, Page, Replay, ReplayOutcome, ReplayState,
};
use redrive_engine::{Flow, ReplayDriver};
use serde_json::json;

use super::stage::{FLOW, in_state, named, operator};
use super::{Fixture, Stage, eventually, not_applicable};
use crate::handler::Step;

async fn dead(stage: &Stage<'_>, ids: &[&str]) -> Flow {
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    for id in ids {
        stage.handler.on(id, [Step::status(503), Step::status(503)]);
        stage.publish(id).await;
        stage.stands(id, EntryState::Dead).await;
    }
    flow
}

fn driver(stage: &Stage<'_>) -> ReplayDriver {
    ReplayDriver::start(stage.ports.ledger.clone(), stage.ports.clock.clone(), stage.tick)
}

async fn reaches(stage: &Stage<'_>, id: EntryId, state: ReplayState) -> Replay {
    eventually(stage.fixture, &format!("the replay to be {state:?}"), || async {
        match stage.ports.ledger.replay(id).await {
            Ok(Some(replay)) if replay.state == state => Ok(replay),
            other => {
                let entries = stage.ports.ledger.search(&Filter::default(), &Page::default()).await;
                let entries: Vec<_> = entries.iter().flat_map(|found| &found.entries).collect();
                let states: Vec<_> = entries.iter().map(|entry| (&entry.message.id, entry.state)).collect();
                Err(format!("{other:?} with {states:?} and {:?}", stage.depth(FLOW).await))
            }
        }
    })
    .await
}

/// Plan, run, every outcome known, the audit written, the history complete.
pub async fn a_replay_knows_every_outcome(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = dead(&stage, &["a", "b", "c", "d"]).await;
    stage.handler.on("b", [Step::status(422)]);
    stage.handler.on("c", [Step::status(503)]);
    let new = NewReplay {
        filter: in_state(EntryState::Dead),
        ids: Vec::new(),
        rate: None,
        max: None,
        canary: None,
    };
    let plan = stage.ports.ledger.plan_replay(&new, stage.now()).await.expect("a plan");
    assert_eq!((plan.count, plan.sample.len()), (4, 4));
    assert_eq!(stage.found(&in_state(EntryState::Dead)).await.len(), 4, "a plan changes nothing");

    let id = stage.replay(new.filter).await;
    // The selection is frozen: what leaves is skipped, what dies later is not part of it.
    stage.done(Deed::Discard, "d").await;
    stage.handler.on("e", [Step::status(503), Step::status(503)]);
    stage.publish("e").await;
    stage.stands("e", EntryState::Dead).await;

    let driver = driver(&stage);
    let replay = reaches(&stage, id, ReplayState::Done).await;
    assert_eq!((replay.total, replay.sent, replay.skipped), (4, 3, 1));
    assert_eq!((replay.recovered, replay.failed), (2, 1));
    assert_eq!((replay.by.as_str(), replay.reason.as_str()), ("ada", "the warehouse is back"));
    assert!(replay.ended_at.is_some());
    let items = stage.ports.ledger.replay_items(id, 0, 10).await.expect("items");
    let mut outcomes = Vec::new();
    for item in &items {
        assert_eq!(item.was, EntryState::Dead);
        let entry =
            stage.ports.ledger.entry(&item.entry.to_string()).await.expect("the ledger").expect("an entry");
        outcomes.push((entry.message.id, item.outcome));
    }
    outcomes.sort_by(|one, other| one.0.cmp(&other.0));
    let named = |pairs: &[(&str, ReplayOutcome)]| -> Vec<(String, ReplayOutcome)> {
        pairs.iter().map(|(id, outcome)| ((*id).to_owned(), *outcome)).collect()
    };
    assert_eq!(
        outcomes,
        named(&[
            ("a", ReplayOutcome::Recovered),
            ("b", ReplayOutcome::Failed),
            ("c", ReplayOutcome::Recovered),
            ("d", ReplayOutcome::Skipped),
        ])
    );
    let after = stage.ports.ledger.replay_items(id, 3, 10).await.expect("items");
    assert_eq!(after, items[3..]);
    assert_eq!(stage.handler.calls_of("e").len(), 2);

    let call = &stage.handler.calls_of("a")[2];
    assert_eq!(call.context.attempt, 1, "a replay begins with the policy's first attempt");
    assert_eq!(call.context.replay.as_deref(), Some(id.to_string().as_str()));
    assert_eq!(&*call.context.idempotency_key, "a", "the key is the same across replays");
    let text = |name| call.message.headers.get_text(name, 100).map(|text| text.to_string());
    assert_eq!(text("x-replayed").as_deref(), Some("true"));
    assert_eq!(text("x-replayed-by").as_deref(), Some("ada"));
    assert_eq!(text("x-original-death-count").as_deref(), Some("2"));
    let entry = stage.stands("a", EntryState::Recovered).await;
    assert_eq!(entry.replays, 1);
    let history = stage.ports.ledger.history(entry.id).await.expect("history");
    assert!(history.iter().any(|line| line.what == "replay" && line.by.as_deref() == Some("ada")));
    let audit = stage.ports.ledger.audit(None, 10).await.expect("the audit");
    assert!(audit.iter().any(|line| line.what == "replay run" && line.count == 4 && line.who == "ada"));
    driver.stop().await;
    stage.ends(flow).await;
}

/// A replay can be paused, goes on when resumed, and survives a restart in between.
pub async fn a_replay_can_be_paused_and_survives_a_restart(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = dead(&stage, &["a", "b", "c"]).await;
    let id = stage.replay(in_state(EntryState::Dead)).await;
    let step = stage.ports.ledger.step_replay(id, 1, stage.now()).await.expect("a step");
    assert_eq!((step.sent, step.state), (1, ReplayState::Running));
    let paused = stage.ports.ledger.steer_replay(id, ReplayState::Paused, &operator(), stage.now()).await;
    assert_eq!(paused.expect("paused").state, ReplayState::Paused);
    let step = stage.ports.ledger.step_replay(id, 9, stage.now()).await.expect("a step");
    assert_eq!((step.sent, step.state), (0, ReplayState::Paused));
    eventually(fixture, "the one that was sent to recover", || async {
        let recovered = stage.found(&in_state(EntryState::Recovered)).await;
        if recovered.len() == 1 { Ok(()) } else { Err(format!("{recovered:?}")) }
    })
    .await;
    flow.stop().await;

    let stage = stage.reopen().await;
    let flow = stage.run(json!({ "retry": stage.ticks(1) })).await;
    let running = driver(&stage);
    stage.pass(3).await;
    assert_eq!(stage.found(&in_state(EntryState::Dead)).await.len(), 2, "a paused replay sends nothing");
    let resumed = stage.ports.ledger.steer_replay(id, ReplayState::Running, &operator(), stage.now()).await;
    assert_eq!(resumed.expect("resumed").state, ReplayState::Running);
    let replay = reaches(&stage, id, ReplayState::Done).await;
    assert_eq!((replay.sent, replay.recovered), (3, 3));
    for name in ["a", "b", "c"] {
        assert_eq!(stage.handler.calls_of(name).len(), 3, "{name} was sent once");
    }
    let audit = stage.ports.ledger.audit(None, 10).await.expect("the audit");
    let what: Vec<_> = audit.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(what, ["replay resume", "replay pause", "replay run"]);
    running.stop().await;
    stage.ends(flow).await;
}

/// A cancelled replay sends nothing more; what was not sent stays where it was.
pub async fn a_cancelled_replay_leaves_the_rest(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = dead(&stage, &["a", "b", "c"]).await;
    let id = stage.replay(in_state(EntryState::Dead)).await;
    stage.ports.ledger.step_replay(id, 1, stage.now()).await.expect("a step");
    let ledger = &stage.ports.ledger;
    let cancelled = ledger.steer_replay(id, ReplayState::Cancelled, &operator(), stage.now()).await;
    assert_eq!(cancelled.expect("cancelled").state, ReplayState::Cancelled);
    let driver = driver(&stage);
    stage.pass(5).await;
    assert_eq!(stage.found(&in_state(EntryState::Dead)).await.len(), 2);
    let step = ledger.step_replay(id, 9, stage.now()).await.expect("a step");
    assert_eq!((step.sent, step.state), (0, ReplayState::Cancelled));
    let resumed = ledger.steer_replay(id, ReplayState::Running, &operator(), stage.now()).await;
    assert!(resumed.is_err(), "a cancelled replay does not go on");
    driver.stop().await;
    stage.ends(flow).await;
}

/// A replay is held to its rate and to its maximum.
pub async fn a_replay_keeps_its_rate_and_maximum(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = dead(&stage, &["a", "b", "c", "d"]).await;
    let rate = redrive_core::guard::Rate::new(1, stage.tick * 4);
    let burst = rate.map_or(1, redrive_core::guard::Rate::one_second);
    let new =
        NewReplay { filter: in_state(EntryState::Dead), ids: Vec::new(), rate, max: Some(3), canary: None };
    let begun = redrive_engine::port::Clock::monotonic(&*stage.ports.clock);
    let id = uuid::Uuid::from_u128(7);
    stage.ports.ledger.begin_replay(id, &new, &operator(), stage.now()).await.expect("a replay");
    let driver = driver(&stage);
    let replay = reaches(&stage, id, ReplayState::Done).await;
    let took = redrive_engine::port::Clock::monotonic(&*stage.ports.clock).saturating_sub(begun);
    assert_eq!((replay.total, replay.sent, replay.recovered), (3, 3, 3));
    assert!(took >= stage.tick * 4 * 3_u32.saturating_sub(burst), "{took:?}");
    assert_eq!(stage.found(&in_state(EntryState::Dead)).await.len(), 1);
    driver.stop().await;
    stage.ends(flow).await;
}

/// Single entries can be replayed by the message's id; ids that are not there are none of its business.
pub async fn a_replay_takes_ids(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    let flow = dead(&stage, &["a", "b"]).await;
    let ids = vec!["b".to_owned()];
    let new = NewReplay { filter: Filter::default(), ids, rate: None, max: None, canary: None };
    let id = uuid::Uuid::from_u128(8);
    stage.ports.ledger.begin_replay(id, &new, &operator(), stage.now()).await.expect("a replay");
    let driver = driver(&stage);
    assert_eq!(reaches(&stage, id, ReplayState::Done).await.recovered, 1);
    stage.stands("b", EntryState::Recovered).await;
    stage.stands("a", EntryState::Dead).await;
    driver.stop().await;
    stage.ends(flow).await;
}

/// A second copy of what a replay has sent is dropped by the flow, whatever became of the first.
pub async fn the_flow_drops_a_replays_double(fixture: &impl Fixture) {
    let stage = Stage::open(fixture).await;
    if fixture.apart(&stage.ports).is_some() {
        return not_applicable("the_flow_drops_a_replays_double", "replays do not go through the source");
    }
    let flow = dead(&stage, &["a"]).await;
    let id = stage.replay(in_state(EntryState::Dead)).await;
    let driver = driver(&stage);
    reaches(&stage, id, ReplayState::Done).await;
    let call = stage.handler.calls_of("a")[2].clone();
    stage.drained().await;
    let double = NewMessage { headers: call.message.headers.clone(), ..named("a") };
    stage.publish_batch(vec![double]).await;
    stage.publish("b").await;
    stage.called("b", 1).await;
    stage.drained().await;
    assert_eq!(stage.handler.calls_of("a").len(), 3, "the double was handled");
    stage.stands("a", EntryState::Recovered).await;
    driver.stop().await;
    stage.ends(flow).await;
}
