//! A message that is read at its place once more, because the broker did not learn what was written down of it.

use redrive_core::Timestamp;
use redrive_engine::port::{
    Asked, Deed, Delivery, EntryState, Keeper, LaneName, Ledger, Outcome, ReadAt, Settlement, Standing,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, lane, original, told};
use crate::fixture::{assert_sound, at, held, recovered, settle_one};

fn asked(delivery: &Delivery) -> Asked {
    let read_at = ReadAt { source: delivery.source.clone(), published_at: delivery.ready_at };
    Asked { lane: lane(), entry: None, read_at: Some(read_at) }
}

async fn standing(world: &World, asked: Asked) -> Standing {
    world.store.standings(FLOW, &[asked]).await.unwrap().remove(0)
}

fn again(settlement: &Settlement) -> Standing {
    Standing::Turn { skipped: Vec::new(), entry: Some(entry_id(settlement)) }
}

fn keep(delivery: &Delivery, lane: LaneName, now: Timestamp) -> Settlement {
    let mut kept = held(delivery, lane.clone(), now);
    kept.record.as_mut().unwrap().flow = FLOW.into();
    Settlement { lane: Some(lane), ..kept }
}

#[tokio::test]
async fn one_that_nobody_knows_stands_as_its_lane_says() {
    let world = World::new().await;
    assert_eq!(standing(&world, asked(&original("a", 1))).await, Standing::Open);
    let head = world.fails_in_lane(&original("head", 2), Outcome::Park);
    world.record(&[told(&head, Keeper::Broker)]).await;
    let behind = Standing::Behind { head: Some("head".to_owned()) };
    assert_eq!(standing(&world, asked(&original("a", 1))).await, behind);
}

#[tokio::test]
async fn one_that_the_broker_did_not_learn_of_runs_again_under_its_entry() {
    let world = World::new().await;
    for (n, outcome) in [(1, world.later(5_000)), (2, Outcome::DeadLetter), (3, Outcome::Park)] {
        let read = original(&format!("m{n}"), n);
        let failed = world.fails(&read, outcome);
        world.record(&[told(&failed, Keeper::Broker)]).await;
        assert_eq!(standing(&world, asked(&read)).await, again(&failed), "without any lane that is held");
    }
    let head = original("head", 9);
    let failed = world.fails_in_lane(&head, world.later(5_000));
    world.record(&[told(&failed, Keeper::Broker)]).await;
    assert_eq!(standing(&world, asked(&head)).await, again(&failed), "at the head of its lane");
    // It fails in fewer attempts than before, and its copy is the one that is expected.
    world.fixture.clock.advance(10);
    let second = world.fails_in_lane(&copy_of(&failed, 9), world.later(5_000));
    let mut second = Settlement { delivery: head.clone(), ..second };
    second.record.as_mut().unwrap().attempts = 1;
    world.record(&[at_broker(&second, 40)]).await;
    assert!(world.is_expected(entry_id(&failed), 1).await);
    assert_eq!(world.entry(entry_id(&failed)).await.source.offset, Some(9));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn one_that_the_ledger_has_is_known() {
    let world = World::new().await;
    let head = world.fails_in_lane(&original("head", 1), Outcome::Park);
    let follower = keep(&original("next", 2), lane(), world.now());
    let kept = world.fails(&original("kept", 3), world.later(5_000));
    world
        .record(&[told(&head, Keeper::Broker), told(&follower, Keeper::Ledger), told(&kept, Keeper::Ledger)])
        .await;
    assert_eq!(standing(&world, asked(&original("next", 2))).await, Standing::Known, "held");
    assert_eq!(standing(&world, asked(&original("kept", 3))).await, Standing::Known, "waits here");
    world.act(Deed::RetryNow, entry_id(&head)).await;
    assert_eq!(standing(&world, asked(&original("head", 1))).await, Standing::Known, "a person sent it");
}

#[tokio::test]
async fn one_that_came_to_an_end_is_known() {
    let mut world = World::new().await;
    let reject = Outcome::Reject { event: "{}".into(), target: "rejected".to_owned() };
    for (n, outcome) in [(1, reject), (2, Outcome::Discard)] {
        let read = original(&format!("m{n}"), n);
        world.record(&[told(&world.fails(&read, outcome), Keeper::Broker)]).await;
        assert_eq!(standing(&world, asked(&read)).await, Standing::Known);
    }
    let read = original("a", 3);
    let failed = world.fails(&read, world.later(10));
    world.record(&[told(&failed, Keeper::Broker)]).await;
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(standing(&world, asked(&read)).await, Standing::Known, "recovered");
    let read = original("b", 4);
    let failed = world.fails(&read, Outcome::Park);
    world.record(&[told(&failed, Keeper::Broker)]).await;
    world.act(Deed::Archive, entry_id(&failed)).await;
    assert_eq!(standing(&world, asked(&read)).await, Standing::Known, "archived");
    world.act(Deed::Restore, entry_id(&failed)).await;
    world.act(Deed::RetryNow, entry_id(&failed)).await;
    let delivery = world.take_one("b").await;
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(standing(&world, asked(&read)).await, Standing::Known);
    world.reopen().await;
    assert_eq!(standing(&world, asked(&read)).await, Standing::Known, "in the file");
}

#[tokio::test]
async fn the_same_place_at_another_time_is_another_message() {
    let world = World::new().await;
    let read = original("a", 1);
    let failed = world.fails(&read, world.later(5_000));
    world.record(&[told(&failed, Keeper::Broker)]).await;
    let other = |change: fn(&mut Delivery)| {
        let mut other = read.clone();
        change(&mut other);
        asked(&other)
    };
    assert_eq!(standing(&world, other(|read| read.ready_at = at(99_999))).await, Standing::Open);
    assert_eq!(standing(&world, other(|read| read.source.offset = Some(2))).await, Standing::Open);
    assert_eq!(standing(&world, other(|read| read.source.partition = Some(4))).await, Standing::Open);
    assert_eq!(standing(&world, other(|read| read.source.name = "others".into())).await, Standing::Open);
    assert_eq!(standing(&world, other(|read| read.source.kind = "other".into())).await, Standing::Open);
    let in_another_flow = world.store.standings("billing", &[asked(&read)]).await.unwrap();
    assert_eq!(in_another_flow, [Standing::Open], "each flow has its own");
    assert_eq!(standing(&world, asked(&read)).await, again(&failed));
}

#[tokio::test]
async fn a_copy_is_not_found_at_the_place_that_it_says_it_came_from() {
    let world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(10));
    // The ledger hears of the second attempt alone.
    let mut copy = copy_of(&first, 40);
    let mut trail = (*copy.trail).clone();
    trail.origin.topic = Some("orders".into());
    trail.origin.partition = Some(3);
    trail.origin.offset = Some(1);
    trail.origin.timestamp = Some(at(1));
    copy.trail = trail.into();
    let second = world.fails(&copy, Outcome::DeadLetter);
    world.record(&[at_broker(&second, 90)]).await;
    let entry = world.entry(entry_id(&first)).await;
    assert_eq!((entry.state, entry.source.name.as_str()), (EntryState::Dead, "orders"), "it is shown");
    assert_eq!(entry.source.offset, Some(1));
    let standing = standing(&world, asked(&original("a", 1))).await;
    assert_eq!(standing, Standing::Open, "but a header cannot say that a message is known");
}
