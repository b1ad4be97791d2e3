//! Who is held behind whom, and who goes when.

use redrive_core::Reason;
use redrive_engine::port::{Deed, EntryState, Ledger, Outcome, Retention, Standing};

use super::world::{TURN, World, behind, entry, lane};
use crate::fixture::{Fixture, ack, assert_sound, at, entry_of, ids, is_empty, publish, subscribe, take};
use crate::settling::rusqlite_of;

#[tokio::test]
async fn followers_are_kept_behind_their_head_and_go_in_order_in_growing_windows() {
    let followers: Vec<String> = (0..30).map(|n| format!("f{n:02}")).collect();
    let names: Vec<&str> = followers.iter().map(String::as_str).collect();
    let mut world = World::with_followers(Outcome::Delay { until: at(1_000) }, &names).await;
    assert!(is_empty(&world.store, &mut world.source).await);
    assert_eq!(world.standing(None).await, behind("head"));
    assert_eq!(world.store.held_lanes("orders").await, Ok(1));
    let head = world.store.entry("head").await.unwrap().unwrap();
    assert_eq!(head.followers, 30);
    let first = world.store.entry("f00").await.unwrap().unwrap();
    assert_eq!(first.held_behind.as_deref(), Some("head"));
    assert_eq!((first.attempts, first.reason.clone()), (0, Reason::PREDECESSOR_PENDING));
    assert_eq!((first.group.as_str(), first.because.as_str()), ("", "it is behind somebody"));
    assert_eq!(world.store.groups(None, 10).await.unwrap().len(), 1, "what was never tried is in no group");

    world.fixture.clock.advance(1_000);
    let retry = world.take_one("head").await;
    assert_eq!(world.standing(Some(&retry)).await, TURN);
    world.recovers(&retry).await;
    let mut seen = Vec::new();
    for window in [1, 4, 16, 9] {
        let taken = world.take(window).await;
        assert!(is_empty(&world.store, &mut world.source).await, "no more than {window}");
        for delivery in &taken {
            assert_eq!(world.standing(Some(delivery)).await, TURN);
            assert_eq!(delivery.trail.attempt, 0);
            assert_eq!(world.standing(None).await, Standing::Behind { head: None });
        }
        assert_sound(&world.store).await;
        seen.extend(taken.iter().map(|delivery| delivery.message.id.to_string()));
        for delivery in &taken {
            world.recovers(delivery).await;
        }
    }
    assert_eq!(seen, followers);
    world.is_open().await;
    let history = world.store.history(entry(&world.store, "f29").await).await.unwrap();
    let whats: Vec<_> = history.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(whats, ["held", "released", "recovered"]);
}

#[tokio::test]
async fn a_follower_that_fails_becomes_the_head_and_the_window_is_small_again() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4", "f5", "f6"]).await;
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    let window = world.take(4).await;
    assert_eq!(ids(&window), ["f2", "f3", "f4", "f5"]);
    world.recovers(&window[0]).await;
    world.fails(&window[1], Outcome::Delay { until: at(500) }).await;
    // Those that had been let go with it are kept again, in front of the rest.
    for delivery in &window[2..] {
        assert_eq!(world.standing(Some(delivery)).await, behind("f3"));
        world.hold(delivery, lane()).await;
    }
    assert_sound(&world.store).await;
    assert_eq!(world.store.entry("f3").await.unwrap().unwrap().followers, 3);
    assert_eq!(world.store.entry("f6").await.unwrap().unwrap().held_behind.as_deref(), Some("f3"));
    world.fixture.clock.advance(500);
    for id in ["f3", "f4"] {
        let next = world.take_one(id).await;
        assert!(is_empty(&world.store, &mut world.source).await, "one at a time after a failure");
        world.recovers(&next).await;
    }
    for next in world.take(2).await {
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_is_held_while_the_lane_opens_goes_on_and_is_not_overtaken() {
    let mut world = World::new().await;
    publish(&world.store, "orders", &["head", "f1", "f2"]).await;
    let taken = world.take(3).await;
    world.fails(&taken[0], Outcome::Delay { until: at(0) }).await;
    let retry = world.take_one("head").await;
    assert_eq!(world.standing(Some(&taken[1])).await, behind("head"));
    // The head is through before the hold arrives.
    world.recovers(&retry).await;
    assert_eq!(world.standing(None).await, Standing::Open);
    world.hold(&taken[1], lane()).await;
    assert_eq!(world.standing(Some(&taken[2])).await, Standing::Behind { head: None });
    world.hold(&taken[2], lane()).await;
    for id in ["f1", "f2"] {
        let next = world.take_one(id).await;
        assert_eq!(world.standing(Some(&next)).await, TURN);
        assert_sound(&world.store).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn who_was_let_go_does_not_pass_one_that_is_held_again() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3", "f4"]).await;
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    let window = world.take(3).await;
    world.fails(&window[0], Outcome::Park).await;
    world.hold(&window[1], lane()).await;
    // The head ends while the last of the window is still in hand.
    world.act(Deed::Discard, "f2").await;
    assert_eq!(world.standing(Some(&window[2])).await, Standing::Behind { head: None });
    world.hold(&window[2], lane()).await;
    for id in ["f3", "f4"] {
        let next = world.take_one(id).await;
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn a_restart_changes_nothing_about_a_lane() {
    let mut world = World::with_followers(Outcome::Park, &["f1", "f2", "f3"]).await;
    world.act(Deed::RetryNow, "head").await;
    let head = world.take_one("head").await;
    assert_eq!(world.standing(Some(&head)).await, TURN, "tried again it is still the head");
    world.recovers(&head).await;
    let f1 = world.take_one("f1").await;
    drop(world.source);
    drop(world.store);
    world.store = world.fixture.open();
    world.source = subscribe(&world.store, "orders").await;
    assert_eq!(world.standing(None).await, Standing::Behind { head: None });
    let again = world.take_one("f1").await;
    assert_eq!(entry_of(&again), entry_of(&f1));
    assert_eq!(world.standing(Some(&again)).await, TURN);
    world.recovers(&again).await;
    for next in world.take(2).await {
        world.recovers(&next).await;
    }
    world.is_open().await;
}

#[tokio::test]
async fn retention_leaves_lanes_alone() {
    let mut world = World::with_followers(Outcome::Park, &["f1"]).await;
    world.fixture.clock.advance(100 * 86_400_000);
    let none = Some(std::time::Duration::ZERO);
    let retention = Retention { finished: none, discarded: none, archived: none, processed: none };
    assert_eq!(world.store.tidy(&retention, 100, world.fixture.now()).await.unwrap(), 0);
    world.act(Deed::Discard, "head").await;
    let f1 = world.take_one("f1").await;
    world.recovers(&f1).await;
    world.fixture.clock.advance(1);
    assert_eq!(world.store.tidy(&retention, 100, world.fixture.now()).await.unwrap(), 2);
    world.is_open().await;
}

#[tokio::test]
async fn what_an_older_file_held_goes_on() {
    let fixture = Fixture::new();
    {
        let sql = rusqlite_of(&fixture);
        sql.execute_batch(include_str!("../../../src/schema/v1.sql")).unwrap();
        sql.execute_batch(
            "PRAGMA application_id = 0x52445256; PRAGMA user_version = 1;
             INSERT INTO queues (id, name, created) VALUES (1, 'orders', 0);
             INSERT INTO messages (id, queue, mid, enqueued, size, entry) VALUES (1, 1, 'old', 0, 0, 1);
             INSERT INTO entries (eid, id, flow, state, message, mid, size, attempts, first_failed, last_failed,
                 changed, class, reason, grp, lane, source_kind, source_name, error_message, because, chain)
             VALUES (1, x'01a1e2348bbb704bb5adf5eb5e99d153', 'orders', 1, 1, 'old', 0, 1, 1, 1, 1, 'UNKNOWN',
                 'UNKNOWN_FAILURE', 'g', 'c1', 'embedded', 'orders', '', '', '[]');
             INSERT INTO failure_groups VALUES ('orders', 'g', 'UNKNOWN', 'UNKNOWN_FAILURE', NULL, '', 1, 1);
             INSERT INTO counts VALUES ('orders', 1, 1);
             INSERT INTO group_counts VALUES ('orders', 'g', 1, 1);
             INSERT INTO lanes (flow, lane, count) VALUES ('orders', 'c1', 1);",
        )
        .unwrap();
    }
    let store = fixture.open();
    assert_sound(&store).await;
    let mut source = subscribe(&store, "orders").await;
    let old = take(&mut source, 1).await.remove(0);
    ack(&store, &old).await;
    assert_eq!(store.entry("old").await.unwrap().unwrap().state, EntryState::Recovered);
    assert_sound(&store).await;
}
