//! Messages that name the one they wait for.

use redrive_engine::port::{Deed, EntryId, EntryState, LaneName, Ledger, Outcome, Settlement};

use super::world::{TURN, World, behind, entry, lane};
use crate::fixture::{assert_sound, held, publish, settle_one};

#[tokio::test]
async fn a_follower_by_name_waits_for_the_one_it_names() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["first", "second", "third", "own"]).await;
    let taken = world.take(4).await;
    world.fails_in(&taken[0], Outcome::Park, LaneName::of_key(b"elsewhere")).await;
    let first = entry(&world.store, "first").await;
    for delivery in &taken[1..3] {
        world.hold(delivery, LaneName::after(first)).await;
    }
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("first").await.unwrap().unwrap().followers, 2);
    assert_eq!(world.store.entry("third").await.unwrap().unwrap().held_behind.as_deref(), Some("first"));
    // Its own lane is held behind the one that was kept first.
    assert_eq!(world.standing(None).await, behind("second"));
    world.hold(&taken[3], lane()).await;
    world.act(Deed::Discard, "first").await;
    let second = world.take_one("second").await;
    assert_eq!(world.standing(Some(&second)).await, TURN);
    world.fails(&second, Outcome::Park).await;
    // The third followed the first, not the second; in its own lane it is behind it all the same.
    let third = world.take_one("third").await;
    assert_eq!(world.standing(Some(&third)).await, behind("second"));
    world.hold(&third, lane()).await;
    assert_sound(&world.store).await;
    world.act(Deed::Archive, "second").await;
    for id in ["third", "own"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_names_what_has_ended_goes_on() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["m"]).await;
    let m = world.take_one("m").await;
    world.hold(&m, LaneName::after(EntryId::now_v7())).await;
    assert_sound(&world.store).await;
    let again = world.take_one("m").await;
    world.recovers(&again).await;
    world.is_open().await;
}

#[tokio::test]
async fn messages_that_would_wait_for_each_other_need_a_person() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["a", "b", "c"]).await;
    let lanes = [b"a", b"b", b"c"].map(|key| LaneName::of_key(key));
    for (delivery, own) in world.take(3).await.iter().zip(&lanes) {
        world.fails_in(delivery, Outcome::Delay { until: world.fixture.now() }, own.clone()).await;
    }
    let taken = world.take(3).await;
    for (n, follows) in [(0, "b"), (1, "c"), (2, "a")] {
        let after = LaneName::after(entry(&world.store, follows).await);
        let held = held(&taken[n], after, world.fixture.now());
        settle_one(&world.store, Settlement { lane: Some(lanes[n].clone()), ..held }).await;
        assert_sound(&world.store).await;
    }
    assert_eq!(world.state("a").await, EntryState::Held);
    assert_eq!(world.state("b").await, EntryState::Held);
    let c = world.store.entry("c").await.unwrap().unwrap();
    assert_eq!(c.state, EntryState::Parked);
    assert!(c.because.contains("waits for it in turn"), "{}", c.because);
    world.act(Deed::RetryNow, "c").await;
    for id in ["c", "b", "a"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}
