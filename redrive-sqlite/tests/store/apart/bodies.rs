//! Bodies that are left to the broker apart: they are fetched when they are asked for, and are here before anything is
//! handed out.

use redrive_engine::port::{
    Deed, EntryId, EntryState, Filter, Ledger, NewMessage, NewReplay, Outcome, PortError, Recorded, Refusal,
    ReplayState, Selection, Settlement, SourceRef,
};

use super::topics::Topics;
use super::world::{FLOW, World, at_broker, copy_of, entry_id, found_at, original, place, told};
use crate::fixture::{ann, assert_sound, failed, recovered, settle_one};
use crate::settling::rusqlite_of;

/// It lies there, and its body is left there.
fn by_pointer(settlement: &Settlement, topics: &Topics, lies: SourceRef) -> Recorded {
    topics.put(&lies, &settlement.delivery.message);
    Recorded { copy: Some(lies), by_pointer: true, ..at_broker(settlement, 0) }
}

/// Bytes of bodies in the file.
fn kept_bytes(world: &World) -> i64 {
    rusqlite_of(&world.fixture)
        .query_row("SELECT coalesce(sum(length(body)), 0) FROM messages", [], |row| row.get(0))
        .unwrap()
}

/// A dead letter whose body lies in the topic.
async fn dead(world: &World, topics: &Topics) -> Settlement {
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    world.record(&[by_pointer(&dead, topics, place("orders.dlq", 90))]).await;
    dead
}

async fn body(world: &World, id: EntryId) -> Result<Option<String>, PortError> {
    let payload = world.store.payload(id).await?;
    Ok(payload.and_then(|payload| payload.body).map(|body| String::from_utf8(body.to_vec()).unwrap()))
}

#[tokio::test]
async fn what_is_left_to_the_broker_is_not_in_the_file_and_is_shown_from_there() {
    let world = World::new().await;
    let topics = Topics::of(&world.store);
    let dead = dead(&world, &topics).await;
    let waits = world.fails(&original("b", 2), world.later(1_000));
    world.record(&[by_pointer(&waits, &topics, place("orders.retry.10s", 40))]).await;
    assert_eq!(kept_bytes(&world), 0);
    let entry = world.entry(entry_id(&dead)).await;
    assert_eq!((entry.message.size, entry.message.key.as_deref()), (9, Some("customer-1")));
    assert!(entry.safe_to_replay.why.contains("its body lies at orders.dlq/3/90"), "{entry:?}");
    assert_eq!(body(&world, entry.id).await, Ok(Some("body of a".to_owned())));
    assert_eq!(body(&world, entry_id(&waits)).await, Ok(Some("body of b".to_owned())));
    assert_eq!(kept_bytes(&world), 0, "a look keeps nothing");
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_body_is_here_before_its_message_is_handed_out() {
    let mut world = World::new().await;
    let topics = Topics::of(&world.store);
    let dead = dead(&world, &topics).await;
    world.act(Deed::RetryNow, entry_id(&dead)).await;
    assert_eq!(kept_bytes(&world), 9);
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.message.body.as_deref(), Some(&b"body of a"[..]));
    assert_sound(&world.store).await;
    // It dies again: once it is known where, the body is left there.
    world.fixture.clock.advance(10);
    let again = failed(&delivery, Outcome::DeadLetter, "503", world.now());
    settle_one(&world.store, again.clone()).await;
    assert_eq!(kept_bytes(&world), 9);
    world.record(&[by_pointer(&again, &topics, place("orders.dlq", 91))]).await;
    assert_eq!(kept_bytes(&world), 0);
    topics.lose(&place("orders.dlq", 90));
    assert_eq!(body(&world, entry_id(&dead)).await, Ok(Some("body of a".to_owned())));
    // And once more, told late: the person was faster, and nothing is taken from what can be handed out.
    world.act(Deed::RetryNow, entry_id(&dead)).await;
    world.record(&[by_pointer(&again, &topics, place("orders.dlq", 91))]).await;
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.message.body.as_deref(), Some(&b"body of a"[..]));
    settle_one(&world.store, recovered(&delivery, world.now())).await;
    assert_eq!(world.state(&dead).await, EntryState::Recovered);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_waiting_message_is_sent_at_once_rerouted_and_restored_with_its_body() {
    let mut world = World::new().await;
    let topics = Topics::of(&world.store);
    let mut waiting = Vec::new();
    for (n, id) in (0..).zip(["a", "b", "c"]) {
        let waits = world.fails(&original(id, n), world.later(60_000));
        world.record(&[by_pointer(&waits, &topics, place("orders.retry.10s", n))]).await;
        waiting.push(entry_id(&waits));
    }
    world.act(Deed::RetryNow, waiting[0]).await;
    world.act(Deed::Reroute("elsewhere".to_owned()), waiting[1]).await;
    world.act(Deed::Discard, waiting[2]).await;
    assert_eq!(kept_bytes(&world), 9 * 3, "one to be sent, one and its copy for the other address");
    world.act(Deed::Restore, waiting[2]).await;
    world.fixture.clock.advance(120_000);
    for delivery in world.take(3).await {
        let expected = format!("body of {}", delivery.message.id);
        assert_eq!(delivery.message.body.as_deref(), Some(expected.as_bytes()));
    }
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_replay_waits_for_a_broker_that_is_away_and_skips_what_is_gone() {
    let mut world = World::new().await;
    let topics = Topics::of(&world.store);
    let mut all = Vec::new();
    for (n, id) in (0..).zip(["a", "b", "c"]) {
        let dead = world.fails(&original(id, n), Outcome::DeadLetter);
        world.record(&[by_pointer(&dead, &topics, place("orders.dlq", n))]).await;
        all.push(entry_id(&dead));
        world.fixture.clock.advance(1);
    }
    topics.lose(&place("orders.dlq", 1));
    let id = EntryId::now_v7();
    let new = NewReplay { filter: Filter::default(), ids: Vec::new(), rate: None, max: None, canary: None };
    world.store.begin_replay(id, &new, &ann(), world.now()).await.unwrap();
    topics.away(true);
    let error = world.store.step_replay(id, 10, world.now()).await.unwrap_err();
    assert!(matches!(&error, PortError::Unavailable(why) if why == "the topics do not answer"), "{error}");
    assert_eq!(world.store.replay(id).await.unwrap().unwrap().sent, 0);
    topics.away(false);
    assert_eq!(world.store.step_replay(id, 10, world.now()).await.unwrap().sent, 2);
    let replay = world.store.replay(id).await.unwrap().unwrap();
    assert_eq!((replay.state, replay.sent, replay.skipped), (ReplayState::Running, 2, 1));
    let gone = world.entry(all[1]).await;
    assert_eq!(gone.state, EntryState::Dead);
    let why = "its body is gone: it lay at orders.dlq/3/1";
    assert_eq!((gone.safe_to_replay.verdict.as_str(), gone.safe_to_replay.why.as_str()), ("no", why));
    let last = world.store.history(all[1]).await.unwrap().pop().unwrap();
    assert_eq!((last.what.as_str(), last.because.as_deref()), ("body gone", Some(why)));
    for delivery in world.take(2).await {
        assert!(delivery.message.body.is_some());
    }
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_is_gone_is_refused_by_name_until_it_is_found_again() {
    let world = World::new().await;
    let topics = Topics::of(&world.store);
    let dead = dead(&world, &topics).await;
    let lies = place("orders.dlq", 90);
    // The topic was made anew, and another message lies there.
    topics.put(&lies, &original("another", 3).message);
    let why = "its body is gone: it lay at orders.dlq/3/90".to_owned();
    assert_eq!(body(&world, entry_id(&dead)).await, Err(Refusal::State(why.clone()).into()));
    for deed in [Deed::RetryNow, Deed::Reroute("elsewhere".to_owned())] {
        let report = world.try_to(deed, entry_id(&dead)).await;
        assert_eq!((report.done, &report.refused[0].1), (0, &why));
    }
    // What needs no body goes on.
    world.act(Deed::Discard, entry_id(&dead)).await;
    world.act(Deed::Restore, entry_id(&dead)).await;
    let edited = NewMessage { body: Some("new".into()), ..NewMessage::default() };
    world.store.copy(&entry_id(&dead).to_string(), edited, &ann(), world.now()).await.unwrap();
    assert_sound(&world.store).await;
    topics.put(&lies, &dead.delivery.message);
    world.act(Deed::RetryNow, entry_id(&dead)).await;
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn without_an_instance_bodies_that_lie_at_the_broker_are_named_and_not_sent() {
    let world = World::new().await;
    let topics = Topics::of(&world.store);
    let dead = dead(&world, &topics).await;
    drop(topics);
    let report = world.try_to(Deed::RetryNow, entry_id(&dead)).await;
    assert!(
        report.refused[0].1.starts_with("its body lies at orders.dlq/3/90, and is read there"),
        "{report:?}"
    );
    let error = body(&world, entry_id(&dead)).await.unwrap_err();
    assert!(error.to_string().contains("orders.dlq/3/90"), "{error}");
    let new = NewReplay { filter: Filter::default(), ids: Vec::new(), rate: None, max: None, canary: None };
    let error = world.store.begin_replay(EntryId::now_v7(), &new, &ann(), world.now()).await.unwrap_err();
    assert!(error.to_string().contains("start an instance that runs the flow `orders`"), "{error}");
    assert_eq!(world.state(&dead).await, EntryState::Dead);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_body_is_left_only_once_the_place_of_its_copy_is_known() {
    let world = World::new().await;
    let topics = Topics::of(&world.store);
    let dead = world.fails_in_lane(&original("a", 1), Outcome::DeadLetter);
    let first = Recorded { by_pointer: true, ..told(&dead, redrive_engine::port::Keeper::Broker) };
    world.record(&[first]).await;
    assert_eq!(kept_bytes(&world), 9, "the ledger was told first");
    world.record(&[by_pointer(&dead, &topics, place("orders.dlq", 90))]).await;
    assert_eq!(kept_bytes(&world), 0);
    // A tombstone, and one that its topic did not take whole, stay here.
    let mut tombstone = original("b", 2);
    tombstone.message.body = None;
    let tombstone = world.fails(&tombstone, Outcome::DeadLetter);
    world.record(&[by_pointer(&tombstone, &topics, place("orders.dlq", 91))]).await;
    assert_eq!(body(&world, entry_id(&tombstone)).await, Ok(None));
    let large = world.fails(&original("c", 3), Outcome::DeadLetter);
    world.record(&[at_broker(&large, 92)]).await;
    assert_eq!(kept_bytes(&world), 9);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_retry_that_fails_again_is_left_at_its_next_place_or_kept_here() {
    let mut world = World::new().await;
    let topics = Topics::of(&world.store);
    let first = world.fails(&original("a", 1), world.later(10));
    world.record(&[by_pointer(&first, &topics, place("orders.retry.10s", 40))]).await;
    world.fixture.clock.advance(10);
    let second = world.fails(&copy_of(&first, 40), world.later(10));
    world.record(&[by_pointer(&second, &topics, place("orders.retry.10s", 41))]).await;
    topics.lose(&place("orders.retry.10s", 40));
    assert_eq!(body(&world, entry_id(&first)).await, Ok(Some("body of a".to_owned())));
    assert_eq!(kept_bytes(&world), 0);
    world.fixture.clock.advance(10);
    // The choice was changed: the ledger keeps it from now on.
    let third = world.fails(&copy_of(&second, 41), world.later(10));
    world.record(&[at_broker(&third, 42)]).await;
    assert_eq!(kept_bytes(&world), 9);
    // And back; then it was moved on, to where its body is not.
    world.fixture.clock.advance(10);
    let fourth = world.fails(&copy_of(&third, 42), world.later(10));
    world.record(&[by_pointer(&fourth, &topics, place("orders.retry.10s", 43))]).await;
    assert_eq!(kept_bytes(&world), 0);
    world.record(&[found_at(&fourth, "orders.retry.20s", 7)]).await;
    assert_eq!(kept_bytes(&world), 9);
    world.act(Deed::RetryNow, entry_id(&first)).await;
    let delivery = world.take_one("a").await;
    assert_eq!(delivery.message.body.as_deref(), Some(&b"body of a"[..]));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_lies_lowest_in_each_partition_is_known_and_can_be_copied_first() {
    let world = World::new().await;
    let topics = Topics::of(&world.store);
    for n in 0..30 {
        let dead = world.fails(&original(&format!("m{n}"), n), Outcome::DeadLetter);
        let lies = SourceRef { partition: Some((n % 3) as i32), ..place("orders.dlq", 100 - n) };
        world.record(&[by_pointer(&dead, &topics, lies)]).await;
    }
    let waits = world.fails(&original("w", 50), world.later(60_000));
    world.record(&[by_pointer(&waits, &topics, place("orders.retry.10s", 4))]).await;
    let lowest = world.store.lowest_pointers(FLOW).await.unwrap();
    let shown: Vec<String> = lowest.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["orders.dlq/0/73", "orders.dlq/1/72", "orders.dlq/2/71", "orders.retry.10s/3/4"]);
    assert_eq!(world.store.lowest_pointers("another").await, Ok(Vec::new()));
    let before = SourceRef { partition: Some(1), ..place("orders.dlq", 82) };
    let page = world.store.pointers_before(FLOW, &before, 10).await.unwrap();
    let shown: Vec<String> = page.iter().map(|one| one.place.to_string()).collect();
    assert_eq!(shown, ["orders.dlq/1/72", "orders.dlq/1/75", "orders.dlq/1/78", "orders.dlq/1/81"]);
    topics.bring(&world.store, &page).await;
    assert_eq!(kept_bytes(&world), 4 * 11);
    assert_eq!(world.store.pointers_before(FLOW, &before, 10).await, Ok(Vec::new()));
    // They are sent though the topic has lost them since.
    for one in &page {
        topics.lose(&one.place);
        world.act(Deed::RetryNow, one.entry).await;
    }
    let all = Selection::Filter(Filter { flow: Some(FLOW.to_owned()), ..Filter::default() });
    let report = world.store.act(&Deed::RetryNow, &all, &ann(), world.now()).await.unwrap();
    assert_eq!(report.done, 31, "four of them once more: {report:?}");
    assert_sound(&world.store).await;
}
