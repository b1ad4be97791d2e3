//! Copies that wait at the broker: which are wanted, which are overdue, which came unseen; and positions.

use std::time::Duration;

use redrive_engine::port::{
    Copied, Deed, EntryId, EntryState, Expected, Keeper, Ledger, Outcome, Overdue, Retention,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, lane, original, place, told};
use crate::fixture::{assert_sound, held, recovered, settle_one};

#[tokio::test]
async fn a_copy_is_expected_while_its_entry_waits_for_it() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    let id = entry_id(&failed);
    let asked = |entry: EntryId, message: &str| Copied { entry, message: message.into(), attempts: 1 };
    let unknown = world.store.expected(FLOW, &[asked(id, "a")]).await;
    assert_eq!(unknown, Ok(vec![Expected::Unknown]), "the ledger has not been told yet");
    world.record(&[at_broker(&failed, 40)]).await;
    assert!(world.is_expected(id, 1).await);
    assert!(world.is_expected(id, 2).await, "the ledger is behind");
    assert!(!world.is_expected(id, 0).await, "an older copy");
    let dead = world.fails(&copy_of(&failed, 40), Outcome::DeadLetter);
    world.record(&[at_broker(&dead, 50)]).await;
    assert!(!world.is_expected(id, 2).await, "it has come to an end");
    let kept = world.fails(&original("b", 2), world.later(10));
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    let all = [asked(entry_id(&kept), "b"), asked(EntryId::now_v7(), "b"), asked(entry_id(&kept), "other")];
    let expected = vec![Expected::No, Expected::Unknown, Expected::Anothers];
    assert_eq!(world.store.expected(FLOW, &all).await, Ok(expected), "in their order");
    let elsewhere = world.store.expected("billing", &all[..1]).await;
    assert_eq!(elsewhere, Ok(vec![Expected::Anothers]), "each flow has its own");
}

#[tokio::test]
async fn an_older_copy_is_expected_until_the_broker_has_said_where_the_newer_one_lies() {
    let world = World::new().await;
    for (n, outcome) in [(1, world.later(10)), (2, Outcome::DeadLetter), (3, Outcome::Park)] {
        let first = world.fails(&original(&format!("m{n}"), n), world.later(10));
        let id = entry_id(&first);
        world.record(&[at_broker(&first, 40)]).await;
        // The ledger is told first; then the process dies before the broker is.
        let second = world.fails_in_lane(&copy_of(&first, 40), outcome);
        world.record(&[told(&second, Keeper::Broker)]).await;
        assert!(world.is_expected(id, 1).await, "it may be the only one");
        world.record(&[at_broker(&second, 41)]).await;
        assert!(!world.is_expected(id, 1).await);
    }
}

#[tokio::test]
async fn what_the_ledger_holds_is_not_expected_from_the_broker() {
    let world = World::new().await;
    let first = world.fails_in_lane(&original("head", 1), world.later(9_000));
    world.record(&[told(&first, Keeper::Broker)]).await;
    let mut kept = held(&original("next", 2), lane(), world.now());
    kept.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    assert_eq!(world.state(&kept).await, EntryState::Held);
    assert!(!world.is_expected(entry_id(&kept), 0).await);
    assert!(world.is_expected(entry_id(&first), 1).await);
}

#[tokio::test]
async fn overdue_are_those_whose_copy_should_have_come() {
    let world = World::new().await;
    let soon = world.fails(&original("a", 1), world.later(1_000));
    let late = world.fails(&original("b", 2), world.later(60_000));
    let nowhere = world.fails(&original("c", 3), world.later(1_000));
    let here = world.fails(&original("d", 4), world.later(1_000));
    let batch = [
        at_broker(&soon, 40),
        at_broker(&late, 41),
        told(&nowhere, Keeper::Broker),
        told(&here, Keeper::Ledger),
    ];
    world.record(&batch).await;
    let overdue = async |after: u64| {
        let before = world.now() + Duration::from_millis(after);
        let found = world.overdue(before).await;
        found.into_iter().map(|one| (one.entry, one.copy)).collect::<Vec<_>>()
    };
    assert_eq!(overdue(1_000).await, []);
    assert_eq!(overdue(1_001).await, [(entry_id(&soon), place("orders.retry.10s", 40))]);
    // The broker says where the copy lies after the ledger was told of the rest.
    world.record(&[at_broker(&nowhere, 42)]).await;
    assert_eq!(overdue(1_001).await.len(), 2);
    let far = world.now() + Duration::from_secs(90);
    assert_eq!(world.store.overdue("others", far, None, 9).await.unwrap(), []);
    // Page by page, all of them come once.
    let mut all = Vec::new();
    let mut after = None;
    while let Some(one) = world.store.overdue(FLOW, far, after, 1).await.unwrap().pop() {
        after = Some(one.cursor());
        all.push(one);
    }
    assert_eq!(all, world.overdue(far).await);
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn the_place_of_an_earlier_copy_is_forgotten() {
    let world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(1_000));
    world.record(&[at_broker(&first, 40)]).await;
    world.fixture.clock.advance(1_000);
    let second = world.fails(&copy_of(&first, 40), world.later(1_000));
    world.record(&[told(&second, Keeper::Broker)]).await;
    world.fixture.clock.advance(60_000);
    assert_eq!(world.overdue(world.now()).await, []);
    // What was told of the first copy late is no news of the second.
    world.record(&[at_broker(&first, 40)]).await;
    assert_eq!(world.overdue(world.now()).await, []);
    world.record(&[at_broker(&second, 41)]).await;
    let overdue = world.overdue(world.now()).await;
    assert_eq!(overdue.len(), 1);
    assert_eq!((overdue[0].entry, &overdue[0].copy), (entry_id(&first), &place("orders.retry.10s", 41)));
}

#[tokio::test]
async fn what_the_broker_has_passed_has_recovered_and_its_lane_goes_on() {
    let mut world = World::new().await;
    let head = world.fails_in_lane(&original("head", 1), world.later(1_000));
    world.record(&[at_broker(&head, 40)]).await;
    let mut kept = held(&original("next", 2), lane(), world.now());
    kept.lane = Some(lane());
    kept.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    let waits = world.overdue(world.now() + Duration::from_secs(9)).await.remove(0);
    world.store.passed(std::slice::from_ref(&waits), world.now()).await.unwrap();
    assert_eq!(world.state(&head).await, EntryState::Waiting, "it is not due yet: that was an earlier copy");
    world.fixture.clock.advance(31_000);
    let another = Overdue { copy: place("orders.retry.10s", 39), ..waits.clone() };
    world.store.passed(&[another], world.now()).await.unwrap();
    assert_eq!(world.state(&head).await, EntryState::Waiting, "that is not the copy that it waits for");
    let held = Overdue { entry: entry_id(&kept), ..waits.clone() };
    let unknown = Overdue { entry: EntryId::now_v7(), ..waits.clone() };
    world.store.passed(&[waits, held, unknown], world.now()).await.unwrap();
    assert_eq!(world.state(&head).await, EntryState::Recovered);
    let history = world.store.history(entry_id(&head)).await.unwrap();
    assert!(history.last().unwrap().because.as_ref().unwrap().contains("has passed its copy"));
    assert_sound(&world.store).await;
    let next = world.take_one("next").await;
    settle_one(&world.store, recovered(&next, world.now())).await;
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn an_entry_is_kept_while_a_spent_copy_can_still_come() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(600_000));
    world.record(&[at_broker(&failed, 40)]).await;
    world.act(Deed::Discard, entry_id(&failed)).await;
    let kept = Some(Duration::from_secs(60));
    let retention = Retention { finished: kept, discarded: kept, archived: kept, processed: kept };
    world.fixture.clock.advance(599_000);
    assert_eq!(world.store.tidy(&retention, 10, world.now()).await, Ok(0));
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    world.fixture.clock.advance(62_000);
    assert_eq!(world.store.tidy(&retention, 10, world.now()).await, Ok(1));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn positions_are_kept_by_name() {
    let mut world = World::new().await;
    assert_eq!(world.store.position("shelves/orders").await, Ok(None));
    world.store.keep_position("shelves/orders", "3:17").await.unwrap();
    world.store.keep_position("resolved/orders", "9").await.unwrap();
    world.store.keep_position("shelves/orders", "3:18").await.unwrap();
    world.reopen().await;
    assert_eq!(world.store.position("shelves/orders").await, Ok(Some("3:18".to_owned())));
    assert_eq!(world.store.position("resolved/orders").await, Ok(Some("9".to_owned())));
}
