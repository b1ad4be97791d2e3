//! What is read off the broker: it is news where the ledger knows nothing newer.

use redrive_engine::port::{
    Asked, Deed, EntryId, EntryState, Expected, Filter, Keeper, Learned, Ledger, NewReplay, Outcome,
    Recorded, Settlement, Standing,
};

use super::world::{FLOW, World, at_broker, copy_of, entry_id, found_at, lane, original, place, told};
use crate::fixture::{ann, assert_sound, held, recovered, settle_one};

#[tokio::test]
async fn what_nobody_told_of_is_written_down() {
    let world = World::new().await;
    let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
    for _ in 0..2 {
        world.record(&[found_at(&dead, "orders.dlq", 90)]).await;
        assert_eq!(world.state(&dead).await, EntryState::Dead);
        assert_eq!(world.store.history(entry_id(&dead)).await.unwrap().len(), 1);
    }
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn a_later_attempt_that_nobody_told_of_is_news() {
    for (outcome, state) in [
        (Outcome::DeadLetter, EntryState::Dead),
        (Outcome::Park, EntryState::Parked),
        (Outcome::Delay { until: redrive_core::Timestamp::from_millis(i64::MAX / 2) }, EntryState::Waiting),
    ] {
        let world = World::new().await;
        let first = world.fails(&original("a", 1), world.later(10));
        world.record(&[at_broker(&first, 40)]).await;
        world.fixture.clock.advance(10);
        let second = world.fails(&copy_of(&first, 40), outcome);
        world.record(&[found_at(&second, "orders.next", 90)]).await;
        let entry = world.entry(entry_id(&first)).await;
        assert_eq!((entry.state, entry.attempts), (state, 2));
        assert!(!world.is_expected(entry.id, 1).await, "the first copy is spent");
        // What is told late is no news any more, and what lay there before is none either.
        world.record(&[at_broker(&second, 90), found_at(&first, "orders.retry.10s", 40)]).await;
        assert_eq!(world.entry(entry.id).await, entry);
        assert_sound(&world.store).await;
    }
}

#[tokio::test]
async fn a_copy_that_was_moved_on_waits_at_its_new_place() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&failed, 40)]).await;
    world.record(&[found_at(&failed, "orders.retry.2s", 7)]).await;
    world.fixture.clock.advance(60_000);
    let overdue = world.overdue(world.now()).await;
    assert_eq!(overdue[0].copy, place("orders.retry.2s", 7));
    // The place where it was is told late.
    world.record(&[at_broker(&failed, 40)]).await;
    assert_eq!(world.overdue(world.now()).await, overdue);
    assert_eq!(world.store.history(entry_id(&failed)).await.unwrap().len(), 1);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_people_did_is_not_undone_by_what_lies_there() {
    for deed in [Deed::Discard, Deed::Park, Deed::RetryNow, Deed::Archive] {
        let world = World::new().await;
        let dead = world.fails(&original("a", 1), Outcome::DeadLetter);
        world.record(&[at_broker(&dead, 90)]).await;
        world.act(deed, entry_id(&dead)).await;
        let entry = world.entry(entry_id(&dead)).await;
        world.fixture.clock.advance(10);
        let later = world.fails(&copy_of(&dead, 90), Outcome::DeadLetter);
        world.record(&[found_at(&dead, "orders.dlq", 90), found_at(&later, "orders.dlq", 91)]).await;
        assert_eq!(world.entry(entry.id).await, entry);
        assert_sound(&world.store).await;
    }
}

#[tokio::test]
async fn a_success_that_was_told_is_not_undone() {
    let world = World::new().await;
    let failed = world.fails(&original("a", 1), world.later(10));
    world.record(&[at_broker(&failed, 40)]).await;
    let mut ends = recovered(&copy_of(&failed, 40), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&ends, Keeper::Broker), found_at(&failed, "orders.retry.2s", 41)]).await;
    assert_eq!(world.state(&failed).await, EntryState::Recovered);
    assert_eq!(world.expected(entry_id(&failed), 1).await, Expected::No);
    assert_sound(&world.store).await;
}

/// A head whose copy was passed without a word, and the one behind it, which was let go.
async fn presumed() -> (World, Settlement) {
    let mut world = World::new().await;
    let head = world.fails_in_lane(&original("head", 1), world.later(1_000));
    world.record(&[at_broker(&head, 40)]).await;
    let mut kept = held(&original("next", 2), lane(), world.now());
    kept.lane = Some(lane());
    kept.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&kept, Keeper::Ledger)]).await;
    world.fixture.clock.advance(31_000);
    world.passed(&[&head]).await;
    assert_eq!(world.state(&head).await, EntryState::Recovered);
    let next = world.take_one("next").await;
    settle_one(&world.store, Settlement { lane: Some(lane()), ..recovered(&next, world.now()) }).await;
    assert_sound(&world.store).await;
    (world, head)
}

#[tokio::test]
async fn a_copy_that_comes_after_all_is_handled_and_holds_its_lane() {
    let (world, head) = presumed().await;
    let id = entry_id(&head);
    assert_eq!(world.expected(id, 0).await, Expected::No, "an older copy is spent");
    assert_eq!(world.expected(id, 1).await, Expected::AfterAll);
    assert_eq!(world.expected(id, 2).await, Expected::AfterAll);
    world.record(&[found_at(&head, "orders.retry.2s", 7)]).await;
    let entry = world.entry(id).await;
    assert_eq!((entry.state, entry.attempts), (EntryState::Waiting, 1));
    assert!(world.is_expected(id, 1).await);
    assert!(world.store.payload(id).await.unwrap().is_some(), "its body is here again");
    let asked = [Asked { lane: lane(), entry: None, read_at: None }];
    let behind = Standing::Behind { head: Some("head".to_owned()) };
    assert_eq!(world.store.standings(FLOW, &asked).await.unwrap(), [behind]);
    assert_sound(&world.store).await;
    let mut ends = recovered(&copy_of(&head, 7), world.now());
    ends.record.as_mut().unwrap().flow = FLOW.into();
    world.record(&[told(&Settlement { lane: Some(lane()), ..ends }, Keeper::Broker)]).await;
    assert_eq!(world.state(&head).await, EntryState::Recovered);
    assert_eq!(world.expected(id, 1).await, Expected::No, "this time it was told");
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(0));
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_was_presumed_is_refuted_by_what_is_told_or_found() {
    let (world, head) = presumed().await;
    let dead = Settlement { lane: None, ..world.fails(&copy_of(&head, 40), Outcome::DeadLetter) };
    world.record(&[found_at(&dead, "orders.dlq", 90)]).await;
    assert_eq!(world.state(&head).await, EntryState::Dead);
    assert_eq!(world.store.held_lanes(FLOW).await, Ok(1), "a dead head holds its lane");
    assert_sound(&world.store).await;
    let (world, head) = presumed().await;
    let second = world.fails_in_lane(&copy_of(&head, 40), world.later(1_000));
    world.record(&[at_broker(&second, 41)]).await;
    assert_eq!(world.state(&head).await, EntryState::Waiting);
    assert!(world.is_expected(entry_id(&head), 2).await);
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_a_person_put_aside_is_kept_here_and_its_copy_is_spent() {
    let mut world = World::new().await;
    let waits = world.fails(&original("a", 1), Outcome::Park);
    let found = Recorded { keeper: Keeper::Ledger, ..found_at(&waits, "orders.retry.10s", 40) };
    world.record(&[found]).await;
    assert_eq!(world.state(&waits).await, EntryState::Parked);
    assert_eq!(world.expected(entry_id(&waits), 1).await, Expected::No);
    world.act(Deed::RetryNow, entry_id(&waits)).await;
    world.take_one("a").await;
    assert_sound(&world.store).await;
}

#[tokio::test]
async fn what_has_no_body_is_shown_and_not_sent() {
    let mut world = World::new().await;
    let mut message = original("a", 1);
    message.message.body = None;
    let dead = world.fails(&message, Outcome::DeadLetter);
    let learned = Learned::Found { bodiless: true };
    world.record(&[Recorded { learned, ..found_at(&dead, "orders.share-dlq", 90) }]).await;
    let id = entry_id(&dead);
    let safe = world.entry(id).await.safe_to_replay;
    assert_eq!((safe.verdict.as_str(), safe.why.contains("could not be read")), ("no", true), "{safe:?}");
    for deed in [Deed::RetryNow, Deed::Reroute("elsewhere".to_owned())] {
        let report = world.try_to(deed, id).await;
        assert_eq!(report.done, 0);
        assert!(report.refused[0].1.contains("could not be read"), "{report:?}");
    }
    let new = NewReplay { filter: Filter::default(), ids: Vec::new(), rate: None, max: None, canary: None };
    let plan = world.store.plan_replay(&new, world.now()).await.unwrap();
    assert_eq!((plan.count, plan.left_out.get("without a body")), (0, Some(&1)));
    let replay = world.store.begin_replay(EntryId::now_v7(), &new, &ann(), world.now()).await.unwrap();
    assert_eq!(replay.total, 0);
    assert_eq!(world.store.payload(id).await, Ok(None), "and it is no tombstone");
    assert_eq!(world.at_home().await, 0);
    world.act(Deed::Discard, id).await;
    assert_sound(&world.store).await;
}
