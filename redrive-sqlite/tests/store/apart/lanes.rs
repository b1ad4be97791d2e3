//! Lanes across what the broker settles and what comes from home.

use redrive_engine::port::{
    Asked, Deed, Delivery, EntryState, Keeper, LaneName, Ledger, Order, Quarantine, Settlement, Standing,
    Taken,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, lane, original, told};
use crate::fixture::{ann, assert_sound, recovered, settle_one};

fn keep(world: &World, delivery: &Delivery, in_lane: LaneName) -> Settlement {
    let mut kept = crate::fixture::held(delivery, in_lane, world.now());
    kept.record.as_mut().unwrap().flow = FLOW.into();
    Settlement { lane: Some(lane()), ..kept }
}

/// A success of a message of the lane.
fn ends(world: &World, delivery: &Delivery) -> Settlement {
    let mut ends = recovered(delivery, world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    Settlement { lane: Some(lane()), ..ends }
}

async fn standing(world: &World, delivery: Option<&Delivery>) -> Standing {
    let entry = delivery.and_then(|delivery| delivery.trail.entry_id.as_ref()?.parse().ok());
    let asked = [Asked { lane: lane(), entry, read_at: None }];
    world.store.standings(FLOW, &asked).await.unwrap().remove(0)
}

/// A head that waits at the broker, and followers that are held behind it.
async fn with_followers(followers: &[&str]) -> (World, Settlement) {
    let world = World::new().await;
    let head = world.fails_in_lane(&original("head", 1), world.later(5_000));
    let mut batch = vec![told(&head, Keeper::Broker)];
    for (id, offset) in followers.iter().zip(2..) {
        batch.push(told(&keep(&world, &original(id, offset), lane()), Keeper::Ledger));
    }
    world.record(&batch).await;
    world.record(&[at_broker(&head, 40)]).await;
    assert_eq!(world.store.count(FLOW, EntryState::Held).await, Ok(followers.len() as u64));
    assert_sound(&world.store).await;
    (world, head)
}

#[tokio::test]
async fn followers_go_from_home_when_the_copy_of_their_head_succeeds() {
    let (mut world, head) = with_followers(&["a", "b"]).await;
    world.fixture.clock.advance(5_000);
    let copy = copy_of(&head, 40);
    assert!(matches!(standing(&world, Some(&copy)).await, Standing::Turn { .. }));
    assert_eq!(standing(&world, None).await, Standing::Behind { head: Some("head".to_owned()) });
    world.record(&[told(&ends(&world, &copy), Keeper::Broker)]).await;
    assert_sound(&world.store).await;
    for id in ["a", "b"] {
        let next = world.take_one(id).await;
        assert_eq!(next.trail.attempt, 0);
        assert!(matches!(standing(&world, Some(&next)).await, Standing::Turn { .. }));
        settle_one(&world.store, ends(&world, &next)).await;
    }
    assert_eq!(standing(&world, None).await, Standing::Open);
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_follower_that_fails_at_home_holds_the_rest_and_those_that_arrive() {
    let (mut world, head) = with_followers(&["a", "b"]).await;
    world.record(&[told(&ends(&world, &copy_of(&head, 40)), Keeper::Broker)]).await;
    let first = world.take_one("a").await;
    let failed = Settlement { lane: Some(lane()), ..world.fails(&first, world.later(1_000)) };
    settle_one(&world.store, failed).await;
    let new = original("c", 9);
    assert_eq!(standing(&world, Some(&new)).await, Standing::Behind { head: Some("a".to_owned()) });
    world.record(&[told(&keep(&world, &new, lane()), Keeper::Ledger)]).await;
    world.fixture.clock.advance(1_000);
    for id in ["a", "b", "c"] {
        let next = world.take_one(id).await;
        settle_one(&world.store, ends(&world, &next)).await;
    }
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_head_given_to_its_own_lane_is_given_back() {
    let (world, head) = with_followers(&["a"]).await;
    let copy = copy_of(&head, 40);
    let kept = keep(&world, &copy, lane());
    assert_eq!(world.store.record(&[told(&kept, Keeper::Ledger)]).await.unwrap(), [Taken::GiveBack]);
    assert_eq!(world.state(&head).await, EntryState::Waiting);
    assert!(world.is_expected(entry_id(&head), 1).await, "nothing was written");
    assert_eq!(world.store.history(entry_id(&head)).await.unwrap().len(), 1);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_follower_of_a_lane_that_has_opened_goes_on_at_once() {
    let mut world = World::new().await;
    let kept = keep(&world, &original("a", 1), lane());
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    let next = world.take_one("a").await;
    assert_eq!(world.store.history(entry_id(&kept)).await.unwrap().len(), 2, "held, and released");
    settle_one(&world.store, ends(&world, &next)).await;
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn people_open_a_lane_whose_head_waits_at_the_broker() {
    for deed in [Deed::Discard, Deed::Skip, Deed::Reroute("elsewhere".to_owned())] {
        let (mut world, head) = with_followers(&["a"]).await;
        let rerouted = matches!(deed, Deed::Reroute(_));
        world.act(deed, entry_id(&head)).await;
        assert!(!world.is_expected(entry_id(&head), 1).await);
        let mut taken = world.take(1 + usize::from(rerouted)).await;
        taken.sort_by(|one, other| one.message.id.as_str().cmp(other.message.id.as_str()));
        assert_eq!(taken[0].message.id.as_str(), "a");
        assert_sound(&world.store).await;
    }
}

#[tokio::test]
async fn a_head_that_is_retried_at_once_stays_in_front() {
    let (mut world, head) = with_followers(&["a"]).await;
    world.act(Deed::RetryNow, entry_id(&head)).await;
    let first = world.take_one("head").await;
    assert!(matches!(standing(&world, Some(&first)).await, Standing::Turn { .. }));
    settle_one(&world.store, ends(&world, &first)).await;
    let next = world.take_one("a").await;
    settle_one(&world.store, ends(&world, &next)).await;
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_copy_that_is_kept_in_quarantine_comes_from_home_afterwards() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    let quarantine = Quarantine::Tenant("acme".to_owned());
    let order = Order::Quarantine(quarantine.clone());
    world.store.order(FLOW, &order, &ann(), world.now()).await.unwrap();
    world.fixture.clock.advance(10);
    let mut kept = keep(&world, &copy_of(&failed, 40), quarantine.lane());
    kept.lane = None;
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    // Only now the ledger hears of the attempt before.
    world.record(&[at_broker(&failed, 40)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Held, "the message is here, whatever is told late");
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    assert_sound(&world.store).await;
    world.store.order(FLOW, &Order::Release(quarantine), &ann(), world.now()).await.unwrap();
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.trail.attempt, 1);
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_sound(&world.store).await;
}
