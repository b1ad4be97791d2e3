//! What a broker apart settles is written down with its body.

use redrive_engine::port::{
    EntryState, Filter, Keeper, Ledger, Outcome, Page, REROUTE_TO, Settlement, Taken,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, original, place, told};
use crate::fixture::{ack, assert_sound, failed, recovered, settle_one};

#[tokio::test]
async fn a_retry_that_the_broker_keeps_is_shown_with_its_body_and_not_handed_out() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 7), world.later(5_000));
    world.record(&[at_broker(&failed, 40)]).await;
    let entry = world.entry(entry_id(&failed)).await;
    assert_eq!((entry.state, entry.attempts), (EntryState::Waiting, 1));
    assert_eq!((entry.source.kind.as_str(), entry.source.name.as_str()), ("kafka", "orders"));
    assert_eq!((entry.source.partition, entry.source.offset), (Some(3), Some(7)));
    assert_eq!(entry.due_at, failed.record.as_ref().unwrap().due_at);
    let payload = world.store.payload(entry.id).await.unwrap().unwrap();
    assert_eq!(payload.body.as_deref(), Some(&b"body of a"[..]));
    world.fixture.clock.advance(60_000);
    assert_eq!(world.at_home().await, 0, "the broker hands it out");
    assert_eq!(world.store.count(FLOW, EntryState::Waiting).await, Ok(1));
    let found = world.store.search(&Filter::default(), &Page::default()).await.unwrap();
    assert_eq!(found.entries.len(), 1);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_retry_that_the_ledger_keeps_comes_from_home_when_it_is_due() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 7), world.later(5_000));
    world.record(&[told(&failed, Keeper::Ledger)]).await;
    assert_eq!(world.at_home().await, 1);
    world.fixture.clock.advance(5_000);
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.source, place("orders", 7), "it shows where it was read first");
    assert_eq!(delivery.trail.attempt, 1);
    assert_eq!(delivery.trail.entry_id.as_deref(), Some(&*entry_id(&failed).to_string()));
    assert_eq!(delivery.trail.origin.offset, Some(7));
    assert_eq!(delivery.message.body, original("a", 7).message.body);
    assert_eq!(delivery.message.key, original("a", 7).message.key);
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_eq!(world.at_home().await, 0);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_delivery_from_home_that_fails_again_stays_there() {
    let mut world = World::new().await;
    let first = world.fails(&original("a", 7), world.later(0));
    world.record(&[told(&first, Keeper::Ledger)]).await;
    let delivery = world.take_one("a").await;
    settle_one(&world.store, failed(&delivery, world.later(1_000), "503", world.now())).await;
    assert!(!world.is_expected(entry_id(&first), 2).await, "no copy of it is at the broker");
    world.fixture.clock.advance(1_000);
    let delivery = world.take_one("a").await;
    assert_eq!((delivery.trail.attempt, delivery.source.clone()), (2, place("orders", 7)));
    settle_one(&world.store, failed(&delivery, Outcome::DeadLetter, "503", world.now())).await;
    assert_eq!(world.state(&first).await, EntryState::Dead);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn the_same_batch_given_twice_changes_nothing() {
    let world = World::new().await;
    let waits = world.fails(&original("a", 1), world.later(5_000));
    let kept = world.fails(&original("b", 2), world.later(9_000));
    let dead = world.fails(&original("c", 3), Outcome::DeadLetter);
    let marked = Settlement {
        processed_by: Some("orders".into()),
        ..Settlement::plain(original("d", 4), Outcome::Ack)
    };
    let batch = [
        at_broker(&waits, 40),
        told(&kept, Keeper::Ledger),
        at_broker(&dead, 41),
        told(&marked, Keeper::Broker),
    ];
    world.record(&batch).await;
    let seen = async || {
        let mut all = Vec::new();
        for settlement in [&waits, &kept, &dead] {
            let id = entry_id(settlement);
            all.push((world.entry(id).await, world.store.history(id).await.unwrap()));
        }
        (all, world.store.counts().await.unwrap())
    };
    let before = seen().await;
    world.fixture.clock.advance(50);
    world.record(&batch).await;
    assert_eq!(seen().await, before);
    assert_eq!(world.store.processed("orders", &["d", "a"]).await.unwrap(), [true, false]);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_batch_may_tell_two_attempts_of_one_message() {
    let world = World::new().await;
    let first = world.fails(&original("a", 1), world.later(10));
    world.fixture.clock.advance(10);
    let copy = copy_of(&first, 40);
    let second = world.fails(&copy, Outcome::Park);
    let batch = [at_broker(&first, 40), at_broker(&second, 50)];
    world.record(&batch).await;
    world.record(&batch).await;
    let entry = world.entry(entry_id(&first)).await;
    assert_eq!((entry.state, entry.attempts), (EntryState::Parked, 2));
    assert_eq!(entry.source.offset, Some(1));
    assert_eq!(world.store.history(entry.id).await.unwrap().len(), 2);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_retry_that_succeeds_at_the_broker_has_recovered() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&failed, 40)]).await;
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_eq!(world.store.payload(entry_id(&failed)).await, Ok(None));
    assert_eq!(world.at_home().await, 0);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_success_of_a_message_that_nobody_told_of_leaves_an_entry_and_no_body() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_eq!(world.store.payload(entry_id(&failed)).await, Ok(None));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_a_success_overtook_does_not_bring_the_message_back() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    world.fixture.clock.advance(20);
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    world.record(&[at_broker(&failed, 40)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_eq!(world.store.history(entry_id(&failed)).await.unwrap().len(), 2);
    assert!(!world.is_expected(entry_id(&failed), 1).await);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn ends_of_every_kind_are_kept_as_they_are() {
    let world = World::new().await;
    let reject = Outcome::Reject { event: "{}".into(), target: "rejected".to_owned() };
    for (n, outcome, state) in [
        (1, reject, EntryState::Rejected),
        (2, Outcome::Discard, EntryState::Discarded),
        (3, Outcome::Park, EntryState::Parked),
        (4, Outcome::Reroute { target: "elsewhere".to_owned() }, EntryState::Recovered),
    ] {
        let failed = world.fails(&original(&format!("m{n}"), n), outcome);
        world.record(&[told(&failed, Keeper::Broker)]).await;
        assert_eq!(world.state(&failed).await, state);
        let kept = world.store.payload(entry_id(&failed)).await.unwrap().is_some();
        assert_eq!(kept, state.is_open(), "{state}");
    }
    let queues: Vec<String> = redrive_engine::port::Broker::queues(&world.store)
        .await
        .unwrap()
        .into_iter()
        .map(|q| q.name)
        .collect();
    assert_eq!(queues, ["orders.ledger"], "what goes elsewhere goes there at the broker");
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn ids_of_other_brokers_may_repeat() {
    let mut world = World::new().await;
    let one = world.fails(&original("same", 1), world.later(0));
    let two = world.fails(&original("same", 2), world.later(0));
    let three = world.fails(&original("same", 3), Outcome::Park);
    world
        .record(&[told(&one, Keeper::Ledger), told(&two, Keeper::Ledger), told(&three, Keeper::Broker)])
        .await;
    let taken = world.take(2).await;
    let offsets: Vec<_> = taken.iter().map(|delivery| delivery.source.offset).collect();
    assert_eq!(offsets, [Some(1), Some(2)]);
    assert_eq!(world.state(&three).await, EntryState::Parked);
    ack(&world.store, &taken[0]).await;
    assert_eq!(world.state(&one).await, EntryState::Recovered);
    assert_eq!(world.state(&two).await, EntryState::Waiting);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn an_outcome_that_its_record_contradicts_is_refused() {
    let world = World::new().await;
    let mut wrong = world.fails(&original("a", 1), Outcome::Park);
    wrong.record.as_mut().unwrap().state = EntryState::Held;
    let refused = world.store.record(&[told(&wrong, Keeper::Broker)]).await.unwrap_err();
    assert!(refused.to_string().contains("does not go with the record's state: held"), "{refused}");
    let given_back = Settlement::plain(original("b", 2), Outcome::Return);
    assert_eq!(world.store.record(&[told(&given_back, Keeper::Broker)]).await.unwrap(), [Taken::Taken]);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn an_order_to_reroute_that_a_message_brings_along_is_none() {
    let mut world = World::new().await;
    let mut message = original("a", 1);
    message.message.headers.push(REROUTE_TO, "elsewhere");
    message.message.headers.push("kept", "yes");
    let failed = world.fails(&message, world.later(0));
    world.record(&[told(&failed, Keeper::Ledger)]).await;
    let delivery = world.take_one("a").await;
    assert!(!delivery.message.headers.contains(REROUTE_TO));
    assert!(delivery.message.headers.contains("kept"));
}

#[tokio::test]
async fn a_message_in_hand_at_home_is_not_touched_by_what_the_broker_tells() {
    let mut world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(0));
    world.record(&[told(&failed, Keeper::Ledger)]).await;
    let delivery = world.take_one("a").await;
    world.fixture.clock.advance(5);
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Waiting);
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_sound(&world.store).await;
}
