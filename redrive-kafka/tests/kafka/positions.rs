//! What is committed, and what a restart runs again.

use std::ops::RangeInclusive;

use redrive_engine::port::{Broker as _, Outcome, PortError, Refusal};

use crate::stage::{Seat, Stage, numbers};

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_read_and_done() {
    let Some(stage) = Stage::shared("done") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..50).await;
    stage.produce(&stage.name, 1, 50..100).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(100).await;
    let mut all = numbers(&taken);
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    let of_first: Vec<usize> =
        numbers(&taken.iter().filter(|one| one.source.partition == Some(0)).cloned().collect::<Vec<_>>());
    assert_eq!(of_first, (0..50).collect::<Vec<_>>(), "a partition comes in its order");
    seat.end(&taken, &Outcome::Ack).await;
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((50, String::new())));
    assert_eq!(stage.committed(&stage.name, &stage.name, 1).await, Some((50, String::new())));
    let again = seat.settle(&taken[..1], &Outcome::Ack).await;
    assert!(
        matches!(again[..], [Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. }))]),
        "{again:?}"
    );
    let depth = seat.source.depth().await.unwrap();
    assert_eq!((depth.ready, depth.waiting), (0, 0));
    assert_eq!(seat.broker.alarms(), []);
    seat.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_runs_only_what_was_in_flight() {
    let Some(stage) = Stage::shared("restart") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..200).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(200).await;
    // Every third is in flight when the process ends.
    let (open, done): (Vec<_>, Vec<_>) = taken.into_iter().partition(|one| one.tag.number % 3 == 0);
    for some in done.chunks(17) {
        seat.end(some, &Outcome::Ack).await;
    }
    let (offset, text) = stage.committed(&stage.name, &stage.name, 0).await.unwrap();
    assert_eq!(offset, 0, "nothing is committed past what is not settled");
    assert!(!text.is_empty());
    // Ends without a word to those in flight.
    drop(seat.source);
    tokio::task::spawn_blocking(move || drop(seat.broker)).await.unwrap();

    stage.produce(&stage.name, 0, 200..210).await;
    let mut next = Seat::new(stage.flow()).await;
    let again = next.take(open.len() + 10).await;
    let expected: Vec<usize> = (0..200).filter(|number| number % 3 == 0).chain(200..210).collect();
    assert_eq!(numbers(&again), expected);
    assert!(again.iter().filter(|one| one.tag.number < 199).all(|one| one.redelivered));
    assert!(again.iter().filter(|one| one.tag.number >= 200).all(|one| !one.redelivered));
    next.end(&again, &Outcome::Ack).await;
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((210, String::new())));
    next.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_in_its_order() {
    let Some(stage) = Stage::shared("return") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..20).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(10).await;
    let back: Vec<_> = [7, 2, 5].map(|place: usize| taken[place].clone()).into();
    assert!(seat.settle(&back, &Outcome::Return).await.iter().all(Result::is_ok));
    assert!(seat.settle(&back, &Outcome::Return).await.iter().all(Result::is_err), "once only");
    let again = seat.take(13).await;
    assert_eq!(numbers(&again), [2, 5, 7].into_iter().chain(10..20).collect::<Vec<_>>());
    let rest: Vec<_> = taken.into_iter().filter(|one| ![2, 5, 7].contains(&one.tag.number)).collect();
    seat.end(&again, &Outcome::Ack).await;
    seat.end(&rest, &Outcome::Ack).await;
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((20, String::new())));
    seat.leave().await;
}

/// Every second one of so many is finished behind one that is not: more than a commit can tell. The partition stands
/// before that, and goes on once the oldest is settled, after a restart too; nothing is lost, and the text never outgrows its
/// room.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_stands_before_its_commit_is_full() {
    let Some(stage) = Stage::shared("full") else { return };
    let handed_out = stands_before_it_is_full(&stage, 16_000, 1_000..=2_048).await;
    // As many stand far below on a broker that allows less.
    assert!(handed_out > 4_000, "{handed_out}");
}

/// The same on a broker that allows an eighth of the usual: its limit is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_stands_sooner_where_the_broker_allows_less() {
    let Some(stage) = Stage::with_settings("less", "offset.metadata.max.bytes=512") else { return };
    let handed_out = stands_before_it_is_full(&stage, 4_000, 100..=256).await;
    assert!(handed_out < 4_000, "{handed_out}");
}

/// Settles every second message until the partition stands, and then all the others. Tells how many were handed out before;
/// the text of the commit was so long then.
async fn stands_before_it_is_full(stage: &Stage, all: usize, long: RangeInclusive<usize>) -> usize {
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..all).await;
    let mut seat = Seat::new(stage.flow()).await;
    let mut open = Vec::new();
    let mut handed_out = 0;
    // Everything that comes until the partition stands; every second one is settled.
    while handed_out < all && !seat.broker.alarms().iter().any(|alarm| alarm.name == "position_full") {
        let mut taken = seat.take_now(1_000).await;
        handed_out += taken.len();
        let done: Vec<_> = taken.extract_if(.., |one| one.tag.number % 2 == 1).collect();
        seat.end(&done, &Outcome::Ack).await;
        open.extend(taken);
    }
    assert!(handed_out < all, "the partition has to stand");
    let (offset, text) = stage.committed(&stage.name, &stage.name, 0).await.unwrap();
    assert_eq!(offset, 0);
    assert!(long.contains(&text.len()), "{}", text.len());
    // Ends without a word to those in flight. What that text says is finished is not run again.
    drop(seat.source);
    tokio::task::spawn_blocking(move || drop(seat.broker)).await.unwrap();
    let mut seat = Seat::new(stage.flow()).await;
    let again = seat.take(open.len()).await;
    assert!(numbers(&again) == numbers(&open), "only what was in flight runs again");
    seat.end(&again, &Outcome::Ack).await;
    // As each of them could be finished before the one in front of it, only so many are handed out at once.
    let mut rest = Vec::new();
    while rest.len() < all - handed_out {
        let some = seat.take(1).await;
        seat.end(&some, &Outcome::Ack).await;
        let more = seat.take_now(1_000).await;
        seat.end(&more, &Outcome::Ack).await;
        rest.extend(numbers(&some).into_iter().chain(numbers(&more)));
    }
    assert_eq!(rest, (handed_out..all).collect::<Vec<_>>());
    assert!(!seat.broker.alarms().iter().any(|alarm| alarm.name == "position_full"));
    let end = i64::try_from(all).unwrap();
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((end, String::new())));
    seat.leave().await;
    handed_out
}
