//! A replay from its plan to its last outcome.

use redrive_engine::port::{
    EntryId, EntryState, Filter, Ledger, NewReplay, Outcome, PortError,
    ReplayOutcome::{Failed, Recovered, Skipped},
    ReplayState, Retention, Source,
};
use redrive_sqlite::Store;

use crate::fixture::{
    Fixture, ann, assert_sound, failed, ids, is_empty, publish, recovered, settle_one, subscribe, take,
};

fn dead() -> NewReplay {
    let filter = Filter { state: vec![EntryState::Dead, EntryState::Parked], ..Filter::default() };
    NewReplay { filter, ids: Vec::new(), rate: None, max: None, canary: None }
}

/// Five dead letters.
async fn five_dead(fixture: &Fixture, store: &Store, source: &mut Box<dyn Source>) {
    publish(store, "orders", &["a", "b", "c", "d", "e"]).await;
    for delivery in take(source, 5).await {
        fixture.clock.advance(10);
        settle_one(store, failed(&delivery, Outcome::DeadLetter, "503", fixture.now())).await;
    }
}

#[tokio::test]
async fn a_replay_sends_each_once_and_learns_every_outcome() {
    let fixture = Fixture::new();
    let id = EntryId::now_v7();
    {
        let store = fixture.open();
        let mut source = subscribe(&store, "orders").await;
        five_dead(&fixture, &store, &mut source).await;
        let plan = store.plan_replay(&dead(), fixture.now()).await.unwrap();
        assert_eq!((plan.count, plan.sample.len(), plan.left_out.len()), (5, 5, 0));
        let replay = store.begin_replay(id, &dead(), &ann(), fixture.now()).await.unwrap();
        assert_eq!((replay.state, replay.total, replay.by.as_str()), (ReplayState::Running, 5, "ann"));
        let step = store.step_replay(id, 2, fixture.now()).await.unwrap();
        assert_eq!((step.sent, step.state), (2, ReplayState::Running));
    }
    // The process ended between two steps.
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let sent = take(&mut source, 2).await;
    assert_eq!(ids(&sent), ["a", "b"], "what failed first goes first");
    let carried = sent[0].trail.replay.as_ref().unwrap();
    assert_eq!(carried.id.as_deref(), Some(&*id.to_string()));
    assert_eq!((carried.by.as_deref(), carried.death_count, sent[0].trail.attempt), (Some("ann"), 1, 0));
    assert_eq!(store.entry("a").await.unwrap().unwrap().state, EntryState::Replaying);
    settle_one(&store, recovered(&sent[0], fixture.now())).await;
    let until = fixture.now();
    settle_one(&store, failed(&sent[1], Outcome::Delay { until }, "503", until)).await;

    store.steer_replay(id, ReplayState::Paused, &ann(), fixture.now()).await.unwrap();
    assert_eq!(store.step_replay(id, 10, fixture.now()).await.unwrap().sent, 0);
    store.steer_replay(id, ReplayState::Running, &ann(), fixture.now()).await.unwrap();

    let discard = redrive_engine::port::Selection::Ids(vec!["d".to_owned()]);
    store.act(&redrive_engine::port::Deed::Discard, &discard, &ann(), fixture.now()).await.unwrap();
    let step = store.step_replay(id, 10, fixture.now()).await.unwrap();
    assert_eq!((step.sent, step.state), (2, ReplayState::Running));
    let rest = take(&mut source, 3).await;
    for delivery in &rest {
        let settled = if delivery.message.id.as_str() == "c" {
            failed(delivery, Outcome::DeadLetter, "503", fixture.now())
        } else {
            recovered(delivery, fixture.now())
        };
        settle_one(&store, settled).await;
    }
    let replay = store.replay(id).await.unwrap().unwrap();
    assert_eq!(replay.state, ReplayState::Done);
    assert_eq!((replay.sent, replay.recovered, replay.failed, replay.skipped), (4, 3, 1, 1));
    let outcomes: Vec<_> =
        store.replay_items(id, 0, 10).await.unwrap().iter().map(|item| item.outcome).collect();
    assert_eq!(outcomes, [Recovered, Recovered, Failed, Skipped, Recovered]);
    assert_eq!(store.entry("c").await.unwrap().unwrap().replays, 1);
    assert!(is_empty(&store, &mut source).await);
    let refused = store.steer_replay(id, ReplayState::Running, &ann(), fixture.now()).await;
    assert!(matches!(refused, Err(PortError::Refused(_))), "{refused:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_canary_waits_for_its_outcome_and_a_maximum_holds() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    five_dead(&fixture, &store, &mut source).await;
    let id = EntryId::now_v7();
    let new = NewReplay { canary: Some(1), max: Some(3), ..dead() };
    let plan = store.plan_replay(&new, fixture.now()).await.unwrap();
    assert_eq!(plan.count, 3);
    assert!(plan.warnings.iter().any(|warning| warning.starts_with("2 more fit")), "{plan:?}");
    store.begin_replay(id, &new, &ann(), fixture.now()).await.unwrap();
    assert_eq!(store.step_replay(id, 10, fixture.now()).await.unwrap().sent, 1);
    assert_eq!(store.step_replay(id, 10, fixture.now()).await.unwrap().sent, 0);
    let first = take(&mut source, 1).await.remove(0);
    settle_one(&store, recovered(&first, fixture.now())).await;
    assert_eq!(store.step_replay(id, 10, fixture.now()).await.unwrap().sent, 2);
    store.steer_replay(id, ReplayState::Cancelled, &ann(), fixture.now()).await.unwrap();
    assert_eq!(store.replays(10).await.unwrap()[0].state, ReplayState::Cancelled);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_plan_says_what_to_think_about() {
    let fixture = Fixture::new();
    let store = fixture.open();
    publish(&store, "orders", &["a"]).await;
    publish(&store, "returns", &["b", "c"]).await;
    for queue in ["orders", "returns"] {
        let mut source = subscribe(&store, queue).await;
        let count = if queue == "orders" { 1 } else { 2 };
        for delivery in take(&mut source, count).await {
            let outcome = if delivery.message.id.as_str() == "c" {
                Outcome::Delay { until: fixture.now() + std::time::Duration::from_secs(9) }
            } else {
                Outcome::Park
            };
            settle_one(&store, failed(&delivery, outcome, &format!("{queue} failed"), fixture.now())).await;
        }
    }
    store.mark_processed("orders", &["a", "b\ncharge"], fixture.now()).await.unwrap();
    let all = NewReplay { filter: Filter::default(), ..dead() };
    fixture.clock.advance(8 * 86_400_000);
    let plan = store.plan_replay(&all, fixture.now()).await.unwrap();
    assert_eq!((plan.count, plan.left_out.get("waiting")), (2, Some(&1)));
    assert_eq!(
        plan.warnings,
        [
            "it spans 2 flows: orders, returns",
            "it mixes 2 failure groups: not all of them may have one cause",
            "1 are marked as processed by a handler, which will pass over them",
            "1 have steps that ran once and are marked; those are not run again",
            "2 failed first more than 7 days ago: marks of what was done for them may have expired",
        ]
    );
    let missing = NewReplay { ids: vec!["nobody".to_owned()], ..dead() };
    assert!(store.plan_replay(&missing, fixture.now()).await.is_err());
}

#[tokio::test]
async fn a_plan_warns_of_marks_that_have_expired() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    five_dead(&fixture, &store, &mut source).await;
    let plan = async || store.plan_replay(&dead(), fixture.now()).await.unwrap().warnings;
    assert_eq!(plan().await, [""; 0]);
    fixture.clock.advance(30 * 86_400_000);
    assert_eq!(plan().await, [""; 0], "nobody marks anything here");

    let marked = ["a", "b\ncharge", "b\nmail", "gone"];
    store.mark_processed("orders", &marked, fixture.now()).await.unwrap();
    fixture.clock.advance(6 * 86_400_000);
    let kept = Retention::default();
    assert_eq!(store.tidy(&kept, 100, fixture.now()).await.unwrap(), 0);
    fixture.clock.advance(2 * 86_400_000);
    assert_eq!(store.tidy(&kept, 2, fixture.now()).await.unwrap(), 2, "in small steps");
    assert_eq!(store.tidy(&kept, 100, fixture.now()).await.unwrap(), 2);
    let expired =
        "2 were marked, as a whole or in steps, and the marks have expired: what was done is done again";
    assert_eq!(plan().await, [expired]);
    let safe = async |id: &str| store.entry(id).await.unwrap().unwrap().safe_to_replay.why;
    assert!(safe("b").await.contains("a mark of what was done for it has expired"), "{}", safe("b").await);
    assert!(safe("c").await.contains("no handler has marked it"), "{}", safe("c").await);

    // Another one is marked now, so marks are in use: the rest may have had some.
    store.mark_processed("orders", &["later"], fixture.now()).await.unwrap();
    let may_have = "3 failed first more than 7 days ago: marks of what was done for them may have expired";
    assert_eq!(plan().await, [expired, may_have]);
    assert_sound(&store).await;
}
