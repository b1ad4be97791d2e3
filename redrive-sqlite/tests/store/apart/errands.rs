//! What the broker is told of what people brought to an end.

use redrive_engine::port::{Deed, EntryState, Keeper, Ledger, Outcome, Resolved, Settlement};

use super::world::{FLOW, World, at_broker, entry_id, lane, original, told};
use crate::fixture::{assert_sound, failed, held, recovered, settle_one};

async fn resolved(world: &World, after: u64) -> Vec<(u64, Resolved)> {
    world.store.resolved(FLOW, after, 100).await.unwrap()
}

async fn states(world: &World) -> Vec<EntryState> {
    resolved(world, 0).await.into_iter().map(|(_, resolved)| resolved.state).collect()
}

#[tokio::test]
async fn deeds_are_told_in_their_order_and_numbered() {
    let world = World::new().await;
    let one = world.fails(&original("a", 1), Outcome::DeadLetter);
    let two = world.fails(&original("b", 2), world.later(5_000));
    world.record(&[at_broker(&one, 90), at_broker(&two, 40)]).await;
    world.act(Deed::Discard, entry_id(&one)).await;
    world.act(Deed::Park, entry_id(&two)).await;
    world.act(Deed::Restore, entry_id(&one)).await;
    world.act(Deed::Archive, entry_id(&two)).await;
    world.act(Deed::Reroute("elsewhere".to_owned()), entry_id(&one)).await;
    let told = resolved(&world, 0).await;
    let lines: Vec<_> = told.iter().map(|(_, resolved)| (resolved.entry, resolved.state)).collect();
    let (a, b) = (entry_id(&one), entry_id(&two));
    let expected = [
        (a, EntryState::Discarded),
        (b, EntryState::Parked),
        (a, EntryState::Dead),
        (b, EntryState::Archived),
        (a, EntryState::Archived),
    ];
    assert_eq!(lines, expected, "what is parked is open, but its copy is spent");
    assert!(told.is_sorted_by_key(|(number, _)| *number));
    assert_eq!(world.store.resolved(FLOW, 0, 1).await.unwrap(), told[..1]);
    assert_eq!(world.store.resolved("others", 0, 10).await.unwrap(), []);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_was_told_is_forgotten_and_its_numbers_are_not_used_again() {
    let mut world = World::new().await;
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    world.record(&[at_broker(&dead, 90)]).await;
    world.act(Deed::Discard, entry_id(&dead)).await;
    let last = resolved(&world, 0).await.last().unwrap().0;
    assert_eq!(resolved(&world, last).await, []);
    assert_eq!(resolved(&world, 0).await, [], "whoever asked for the next has done with it");
    world.reopen().await;
    world.act(Deed::Restore, entry_id(&dead)).await;
    let next = resolved(&world, last).await;
    assert_eq!(next.len(), 1);
    assert!(next[0].0 > last);
}

#[tokio::test]
async fn what_recovers_after_a_person_sent_it_is_told() {
    let mut world = World::new().await;
    let parked = world.fails(&original("a", 1), Outcome::Park);
    world.record(&[at_broker(&parked, 90)]).await;
    world.act(Deed::RetryNow, entry_id(&parked)).await;
    assert_eq!(states(&world).await, [], "it is open");
    let delivery = world.take_one("a").await;
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(states(&world).await, [EntryState::Recovered]);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_the_broker_never_had_is_not_told() {
    let mut world = World::new().await;
    let head = world.fails_in_lane(&original("head", 1), world.later(5_000));
    let mut kept = held(&original("next", 2), lane(), world.now());
    kept.record.as_mut().unwrap().flow = FLOW.into();
    let kept = Settlement { lane: Some(lane()), ..kept };
    world.record(&[told(&head, Keeper::Ledger), told(&kept, Keeper::Ledger)]).await;
    world.fixture.clock.advance(5_000);
    let delivery = world.take_one("head").await;
    settle_one(&world.store, Settlement { lane: Some(lane()), ..recovered(&delivery, world.now()) }).await;
    world.act(Deed::Discard, entry_id(&kept)).await;
    assert_eq!(states(&world).await, []);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_dies_at_home_lies_on_the_brokers_shelf_too() {
    let mut world = World::new().await;
    let waits = world.fails(&original("a", 1), world.later(0));
    world.record(&[told(&waits, Keeper::Ledger)]).await;
    let delivery = world.take_one("a").await;
    settle_one(&world.store, failed(&delivery, Outcome::DeadLetter, "503", world.now())).await;
    world.act(Deed::Discard, entry_id(&waits)).await;
    assert_eq!(states(&world).await, [EntryState::Discarded]);
    assert_sound(&world.store).await;
}
