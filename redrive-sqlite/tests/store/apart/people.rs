//! What people do to messages of a broker apart.

use redrive_engine::port::{
    Broker, Deed, EntryId, EntryState, Filter, Keeper, Ledger, NewMessage, NewReplay, Outcome, REROUTE_TO,
    ReplayState,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, original, place, told};
use crate::fixture::{ack, ann, assert_sound, recovered, settle_one};

#[tokio::test]
async fn a_retry_at_once_comes_from_home_and_the_copy_is_spent() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(600_000));
    world.record(&[at_broker(&failed, 40)]).await;
    world.act(Deed::RetryNow, entry_id(&failed)).await;
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    let delivery = world.take_one("a").await;
    assert_eq!((delivery.trail.attempt, delivery.source.clone()), (1, place("orders", 1)));
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    assert_eq!(world.overdue(world.now()).await, []);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn every_deed_spends_the_copy() {
    for (deed, state) in [
        (Deed::Cancel, EntryState::Parked),
        (Deed::Park, EntryState::Parked),
        (Deed::Discard, EntryState::Discarded),
        (Deed::RetryNow, EntryState::Waiting),
        (Deed::Reroute("elsewhere".to_owned()), EntryState::Archived),
    ] {
        let world = World::new().await;
        let failed = world.fails(&original("a", 1), world.later(600_000));
        world.record(&[at_broker(&failed, 40)]).await;
        let name = deed.name();
        world.act(deed, entry_id(&failed)).await;
        assert_eq!(world.state(&failed).await, state, "{name}");
        assert!(!world.is_expected(entry_id(&failed), 1).await, "{name}");
        assert_sound(&world.store).await;
    }
}

#[tokio::test]
async fn what_is_restored_waits_here_from_then_on() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(5_000));
    world.record(&[at_broker(&failed, 40)]).await;
    world.act(Deed::Discard, entry_id(&failed)).await;
    world.act(Deed::Restore, entry_id(&failed)).await;
    assert_eq!(world.state(&failed).await, EntryState::Waiting);
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    world.fixture.clock.advance(5_000);
    let delivery = world.take_one("a").await;
    ack(&world.store, &delivery).await;
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_record_from_before_a_deed_is_history_alone() {
    for deed in [Deed::Discard, Deed::Park, Deed::RetryNow] {
        let world = World::new().await;
        let first = world.fails(&original("a", 1), world.later(10));
        world.record(&[at_broker(&first, 40)]).await;
        world.fixture.clock.advance(10);
        let second = world.fails(&copy_of(&first, 40), world.later(600_000));
        world.fixture.clock.advance(1);
        world.act(deed.clone(), entry_id(&first)).await;
        let state = world.state(&first).await;
        world.record(&[at_broker(&second, 41)]).await;
        world.record(&[at_broker(&second, 41)]).await;
        assert_eq!(world.state(&first).await, state, "{}", deed.name());
        let history = world.store.history(entry_id(&first)).await.unwrap();
        let lines: Vec<_> = history.iter().map(|line| line.what.as_str()).collect();
        assert_eq!(lines, ["attempt", deed.name(), "attempt"]);
        assert!(!world.is_expected(entry_id(&first), 2).await, "the copy that it left is spent");
        assert_sound(&world.store).await;
    }
}

#[tokio::test]
async fn an_attempt_that_was_under_way_does_not_undo_a_deed_by_failing() {
    let world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&first, 40)]).await;
    world.fixture.clock.advance(10);
    world.act(Deed::Discard, entry_id(&first)).await;
    world.fixture.clock.advance(10);
    let second = world.fails(&copy_of(&first, 40), world.later(600_000));
    world.record(&[at_broker(&second, 41)]).await;
    assert_eq!(world.state(&first).await, EntryState::Discarded);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn an_attempt_that_was_under_way_and_succeeds_ends_the_message() {
    let mut world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&first, 40)]).await;
    world.act(Deed::RetryNow, entry_id(&first)).await;
    world.fixture.clock.advance(10);
    let mut ends = recovered(&copy_of(&first, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(world.state(&first).await, EntryState::Recovered);
    assert_eq!(world.at_home().await, 0, "it is not tried again");
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_had_succeeded_when_a_person_sent_it_once_more_is_not_tried_again() {
    let mut world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&first, 40)]).await;
    world.fixture.clock.advance(10);
    let mut ends = recovered(&copy_of(&first, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.fixture.clock.advance(1);
    world.act(Deed::RetryNow, entry_id(&first)).await;
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(world.state(&first).await, EntryState::Recovered);
    assert_eq!(world.at_home().await, 0, "it is not tried again");
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_dead_letter_is_replayed_from_home() {
    let mut world = World::new().await;
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    world.record(&[at_broker(&dead, 90)]).await;
    let id = EntryId::now_v7();
    let filter = Filter { flow: Some(FLOW.to_owned()), ..Filter::default() };
    let new = NewReplay { filter, ids: Vec::new(), rate: None, max: None, canary: None };
    assert_eq!(world.store.plan_replay(&new, world.now()).await.unwrap().count, 1);
    world.store.begin_replay(id, &new, &ann(), world.now()).await.unwrap();
    assert_eq!(world.store.step_replay(id, 10, world.now()).await.unwrap().sent, 1);
    assert_eq!(world.state(&dead).await, EntryState::Replaying);
    assert_sound(&world.store).await;
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.source, place("orders", 1));
    assert_eq!(delivery.trail.replay.as_ref().unwrap().id.as_deref(), Some(&*id.to_string()));
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.store.replay(id).await.unwrap().unwrap().state, ReplayState::Done);
    let resolved = Ledger::resolved(&world.store, FLOW, 0, 10).await.unwrap();
    assert_eq!(resolved.len(), 1);
    assert_eq!((resolved[0].1.entry, resolved[0].1.state), (entry_id(&dead), EntryState::Recovered));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_message_that_is_rerouted_lies_at_home_with_its_address() {
    let mut world = World::new().await;
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    world.record(&[at_broker(&dead, 90)]).await;
    let report = world.try_to(Deed::Reroute(String::new()), entry_id(&dead)).await;
    assert_eq!((report.done, report.refused.len()), (0, 1), "an address is needed");
    world.act(Deed::Reroute("topic:orders.fixed".to_owned()), entry_id(&dead)).await;
    assert_eq!(world.state(&dead).await, EntryState::Archived);
    let queues = world.store.queues().await.unwrap();
    assert_eq!(queues.len(), 1, "no queue of this file is made for it: {queues:?}");
    let errand = world.take_one("a").await;
    assert_eq!(
        errand.message.headers.get(REROUTE_TO).map(|value| &value[..]),
        Some(&b"topic:orders.fixed"[..])
    );
    assert_eq!(errand.message.body, original("a", 1).message.body);
    assert_eq!(errand.trail.entry_id, None, "it goes on as a fresh message");
    ack(&world.store, &errand).await;
    assert_eq!(world.at_home().await, 0, "nobody else gets it");
    assert_eq!(world.state(&dead).await, EntryState::Archived);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn an_edited_copy_goes_home() {
    let mut world = World::new().await;
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    world.record(&[at_broker(&dead, 90)]).await;
    let mut edited = NewMessage { body: Some("mended".into()), ..NewMessage::default() };
    edited.headers.push(REROUTE_TO, "elsewhere");
    let id = entry_id(&dead).to_string();
    let new = world.store.copy(&id, edited, &ann(), world.now()).await.unwrap();
    let delivery = world.take_one(&new).await;
    assert_eq!(delivery.message.body.as_deref(), Some(&b"mended"[..]));
    assert_eq!(delivery.message.key, original("a", 1).message.key);
    assert!(!delivery.message.headers.contains(REROUTE_TO));
    // It has an entry of its own when it fails, which is worked with as any other.
    let failed = world.fails(&delivery, Outcome::Park);
    settle_one(&world.store, failed.clone()).await;
    let entry = world.entry(entry_id(&failed)).await;
    assert_eq!((entry.state, entry.parent_id), (EntryState::Parked, Some(entry_id(&dead))));
    assert_sound(&world.store).await;
    world.act(Deed::Reroute("elsewhere".to_owned()), entry.id).await;
    let errand = world.take_one(&new).await;
    assert!(errand.message.headers.contains(REROUTE_TO), "its address is one of the broker's, too");
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_message_in_hand_at_home_is_not_acted_on() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(0));
    world.record(&[told(&failed, Keeper::Ledger)]).await;
    let delivery = world.take_one("a").await;
    let report = world.try_to(Deed::Discard, entry_id(&failed)).await;
    assert_eq!(report.done, 0);
    assert!(report.refused[0].1.contains("being handled right now"), "{report:?}");
    ack(&world.store, &delivery).await;
}
