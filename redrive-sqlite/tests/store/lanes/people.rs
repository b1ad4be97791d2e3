//! What people do to messages of a lane.

use redrive_engine::port::{
    Deed, EntryId, EntryState, Filter, Ledger, NewReplay, Order, Outcome, Quarantine, Selection, Standing,
};

use super::world::{TURN, World, behind, lane};
use crate::fixture::{ack, ann, assert_sound, at, held, ids, publish, settle_one};

#[tokio::test]
async fn a_head_that_is_put_aside_stays_the_head_and_one_that_is_put_away_does_not() {
    for (deed, opens) in [
        (Deed::Park, false),
        (Deed::Cancel, false),
        (Deed::RetryNow, false),
        (Deed::Discard, true),
        (Deed::Skip, true),
        (Deed::Reroute("elsewhere".to_owned()), true),
    ] {
        let mut world = World::with_followers(Outcome::Delay { until: at(1_000) }, &["f1"]).await;
        world.act(deed.clone(), "head").await;
        assert_sound(&world.store).await;
        let expected = if opens { EntryState::Waiting } else { EntryState::Held };
        assert_eq!(world.state("f1").await, expected, "{}", deed.name());
        if opens {
            let f1 = world.take_one("f1").await;
            world.recovers(&f1).await;
            world.is_open().await;
        } else {
            assert_eq!(world.standing(None).await, behind("head"));
        }
    }
}

#[tokio::test]
async fn a_replay_of_a_head_counts_its_followers_and_lets_them_go_when_it_is_through() {
    let mut world = World::with_followers(Outcome::DeadLetter, &["f1", "f2"]).await;
    let now = world.fixture.now();
    let dead = Filter { state: vec![EntryState::Dead], ..Filter::default() };
    let new = NewReplay { filter: dead, ids: Vec::new(), rate: None, max: None, canary: None };
    assert_eq!(world.store.plan_replay(&new, now).await.unwrap().followers, 2);
    let id = EntryId::now_v7();
    world.store.begin_replay(id, &new, &ann(), now).await.unwrap();
    world.store.step_replay(id, 10, now).await.unwrap();
    let head = world.take_one("head").await;
    assert_eq!(world.standing(Some(&head)).await, TURN);
    assert_eq!(world.state("f1").await, EntryState::Held);
    world.recovers(&head).await;
    for id in ["f1", "f2"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn followers_can_be_taken_out_and_brought_back() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4"]).await;
    world.act(Deed::Discard, "f1").await;
    world.act(Deed::Discard, "f2").await;
    world.act(Deed::Park, "f3").await;
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("head").await.unwrap().unwrap().followers, 1);
    world.act(Deed::Restore, "f1").await;
    assert_eq!(world.state("f1").await, EntryState::Held, "its lane is there");
    assert_sound(&world.store).await;
    world.act(Deed::Archive, "head").await;
    for id in ["f1", "f4"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
    world.act(Deed::Restore, "f2").await;
    assert_eq!(world.state("f2").await, EntryState::Waiting, "its lane is gone");
    let f2 = world.take_one("f2").await;
    assert_eq!(world.standing(Some(&f2)).await, Standing::Open);
    world.recovers(&f2).await;
    world.is_open().await;
    assert_eq!(world.state("f3").await, EntryState::Parked);
}

#[tokio::test]
async fn one_that_was_let_go_can_be_put_aside_and_the_next_goes() {
    for deed in [Deed::Park, Deed::Cancel, Deed::Discard, Deed::Skip] {
        let mut world = World::with_followers(Outcome::Park, &["f1", "f2"]).await;
        world.act(Deed::Discard, "head").await;
        // A person who wants it sooner changes nothing: it is due.
        world.fixture.clock.advance(50);
        world.act(Deed::RetryNow, "f1").await;
        world.act(deed, "f1").await;
        assert_sound(&world.store).await;
        let f2 = world.take_one("f2").await;
        world.recovers(&f2).await;
        world.is_open().await;
    }
}

#[tokio::test]
async fn what_is_skipped_is_told_to_those_behind_it_and_to_nobody_else() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3"]).await;
    world.act(Deed::Skip, "f2").await;
    world.act(Deed::Skip, "head").await;
    assert_eq!(world.state("head").await, EntryState::Parked);
    assert_eq!(world.state("f2").await, EntryState::Parked);
    let skipped =
        |ids: &[&str]| Standing::Turn { skipped: ids.iter().map(ToString::to_string).collect(), entry: None };
    let f1 = world.take_one("f1").await;
    assert_eq!(world.standing(Some(&f1)).await, skipped(&["head"]));
    world.recovers(&f1).await;
    let f3 = world.take_one("f3").await;
    assert_eq!(world.standing(Some(&f3)).await, skipped(&["f2", "head"]));
    world.recovers(&f3).await;
    world.is_open().await;
    let selection = Selection::Ids(vec!["head".to_owned()]);
    let report = world.store.act(&Deed::Skip, &selection, &ann(), world.fixture.now()).await.unwrap();
    assert_eq!(report.done, 0);
    assert!(report.refused[0].1.contains("stands in no lane"), "{report:?}");
}

#[tokio::test]
async fn a_quarantine_lets_everything_go_back_to_its_place() {
    let mut world = World::new().await;
    let acme: Quarantine = "tenant=acme".parse().unwrap();
    let order = async |world: &World, order: Order| {
        world.store.order("orders", &order, &ann(), world.fixture.now()).await.unwrap()
    };
    order(&world, Order::Quarantine(acme.clone())).await;
    publish(&world.store, "orders", &["q1", "q2", "f1", "other"]).await;
    let taken = world.take(4).await;
    world.hold(&taken[0], acme.lane()).await;
    world.hold(&taken[1], acme.lane()).await;
    assert_eq!(world.standing(None).await, behind("q1"), "its own lane is held behind it");
    world.hold(&taken[2], lane()).await;
    ack(&world.store, &taken[3]).await;
    assert_sound(&world.store).await;
    let q1 = world.store.entry("q1").await.unwrap().unwrap();
    assert_eq!((q1.state, q1.held_behind.as_deref()), (EntryState::Held, Some("tenant=acme")));
    assert_eq!((q1.followers, world.store.controls().await.unwrap()[0].held), (1, 2));

    publish(&world.store, "orders", &["newer"]).await;
    assert_eq!(order(&world, Order::Release(acme.clone())).await, 2);
    assert_sound(&world.store).await;
    let back = world.take(3).await;
    assert_eq!(ids(&back), ["q1", "q2", "newer"]);
    assert_eq!(world.standing(Some(&back[0])).await, TURN);
    assert_eq!(world.standing(Some(&back[1])).await, behind("q1"));
    world.hold(&back[1], lane()).await;
    world.recovers(&back[0]).await;
    for id in ["q2", "f1"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;

    // A hold that arrives after the release keeps nobody for ever.
    world.hold(&back[2], acme.lane()).await;
    assert_sound(&world.store).await;
    assert_eq!(world.state("newer").await, EntryState::Waiting);
    world.fixture.clock.advance(1_000);
    let again = world.take_one("newer").await;
    world.recovers(&again).await;
    world.is_open().await;
}

#[tokio::test]
async fn what_is_read_ahead_does_not_pass_what_a_quarantine_lets_go() {
    let mut world = World::new().await;
    let key: Quarantine = "key=k".parse().unwrap();
    world.store.order("orders", &Order::Quarantine(key.clone()), &ann(), world.fixture.now()).await.unwrap();
    let old: Vec<String> = (0..20).map(|n| format!("old{n:02}")).collect();
    let names: Vec<&str> = old.iter().map(String::as_str).collect();
    publish(&world.store, "orders", &names).await;
    for delivery in world.take(20).await {
        settle_one(&world.store, held(&delivery, key.lane(), world.fixture.now())).await;
    }
    publish(&world.store, "orders", &["n1", "n2", "n3"]).await;
    world.take_one("n1").await;
    let released = world.store.order("orders", &Order::Release(key), &ann(), world.fixture.now()).await;
    assert_eq!(released, Ok(20));
    let taken = world.take(22).await;
    assert_eq!(ids(&taken)[..20], names);
    assert_eq!(ids(&taken)[20..], ["n2", "n3"]);
    assert_sound(&world.store).await;
}
