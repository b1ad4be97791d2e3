//! Several messages of one partition, or of one queue, are being handled when what they need goes away.

use std::sync::Arc;

use redrive_core::guard::{BreakerConfig, BreakerState};
use redrive_engine::Flow;
use redrive_engine::port::Outcome;
use testkit::handler::{Door, Step};

use super::{Bench, SECOND};

const ALL: [&str; 4] = ["a", "b", "c", "d"];

/// They fail as the door opens, and once more.
fn fail_together(bench: &Bench) -> Arc<Door> {
    let door = Door::closed();
    for id in ALL {
        bench.handler.on(id, [Step::Wait(door.clone(), Box::new(Step::status(503))), Step::status(503)]);
    }
    bench.partitions.publish(0, &ALL);
    door
}

/// All of them have failed, and the first one has begun its second attempt.
async fn until_the_first_is_tried_again(bench: &Bench) -> Flow {
    let door = fail_together(bench);
    let flow = bench.start(bench.spec("10s forever")).await;
    bench.called(4).await;
    door.open();
    bench.called(5).await;
    flow
}

/// Those that were settled, in their order, each of which has to be done.
fn done(bench: &Bench) -> Vec<String> {
    let settled = bench.partitions.settled();
    assert!(settled.iter().all(|ended| ended.outcome == Outcome::Ack), "{settled:?}");
    settled.into_iter().map(|ended| ended.id).collect()
}

fn attempts(bench: &Bench) -> Vec<Vec<u32>> {
    ALL.iter().map(|id| bench.handler.attempts_of(id)).collect()
}

async fn keep_their_places(bench: &Bench) {
    let door = fail_together(bench);
    let flow = bench.start(bench.spec("10s forever")).await;
    bench.called(4).await;
    door.open();
    bench.comes("blocked", true, || flow.is_blocked()).await;
    bench.partitions.publish(0, &["later"]);
    bench.empty(&flow).await;
    assert_eq!(done(bench), ["a", "b", "c", "d", "later"]);
    assert_eq!(bench.handler.order()[4..], ["a", "a", "b", "b", "c", "c", "d", "d", "later"]);
    assert_eq!(attempts(bench), [[1, 2, 3]; 4]);
    assert!(!flow.is_blocked() && !bench.partitions.is_gated(0));
    assert_eq!(flow.alarms(), []);
    flow.stop().await;
}

#[tokio::test(start_paused = true)]
async fn those_that_fail_together_keep_their_places_in_a_partition() {
    keep_their_places(&Bench::without_ledger()).await;
    keep_their_places(&Bench::with_ledger()).await;
}

#[tokio::test(start_paused = true)]
async fn those_that_fail_together_keep_their_places_in_a_queue() {
    keep_their_places(&Bench::with_a_queue()).await;
}

/// The one whose call takes longest stands first all the same, once it has failed.
#[tokio::test(start_paused = true)]
async fn the_first_place_is_tried_first_whoever_failed_first() {
    let bench = Bench::without_ledger();
    for (n, id) in ALL.iter().enumerate() {
        let late = SECOND * (4 - u32::try_from(n).expect("a few"));
        bench.handler.on(id, [Step::Take(late, Box::new(Step::status(503)))]);
    }
    bench.partitions.publish(0, &ALL);
    let flow = bench.start(bench.spec("10s forever")).await;
    bench.comes("blocked", true, || flow.is_blocked()).await;
    let of = |flow: &Flow| flow.alarms().pop().map(|alarm| alarm.text).unwrap_or_default();
    assert_eq!(of(&flow), "a blocking retry of d holds partition 0");
    tokio::time::sleep(SECOND * 4).await;
    assert_eq!(of(&flow), "a blocking retry of a holds partition 0");
    bench.empty(&flow).await;
    assert_eq!(done(&bench), ["a", "b", "c", "d"]);
    flow.stop().await;
}

/// One that uses up its attempts leaves, and the next one is tried.
#[tokio::test(start_paused = true)]
async fn one_that_is_given_up_makes_room_for_the_next() {
    let bench = Bench::without_ledger();
    let door = fail_together(&bench);
    bench.handler.on("a", [Step::status(503), Step::status(503)]);
    let flow = bench.start(bench.spec("10s x2")).await;
    bench.called(4).await;
    door.open();
    bench.empty(&flow).await;
    let settled = bench.partitions.settled();
    assert_eq!((&*settled[0].id, &settled[0].outcome, settled[0].attempts), ("a", &Outcome::DeadLetter, 3));
    assert!(settled[1..].iter().all(|ended| ended.outcome == Outcome::Ack), "{settled:?}");
    assert_eq!(attempts(&bench), [[1, 2, 3]; 4]);
    flow.stop().await;
}

/// What stands in hand is what was being handled: all else goes back to its place, and other partitions go on.
#[tokio::test(start_paused = true)]
async fn no_more_is_kept_in_hand_than_was_being_handled() {
    let bench = Bench::without_ledger();
    bench.partitions.assign(1);
    let door = fail_together(&bench);
    let later: Vec<String> = (0..100).map(|n| format!("later-{n}")).collect();
    bench.partitions.publish(0, &later.iter().map(String::as_str).collect::<Vec<_>>());
    let mut spec = bench.spec("1m forever");
    (spec.concurrency, spec.prefetch) = (4, 50);
    let flow = bench.start(spec).await;
    bench.called(4).await;
    door.open();
    bench.comes("in hand", 4, || flow.in_hand()).await;
    assert!(flow.is_blocked());
    bench.partitions.publish(1, &["other"]);
    bench.within(SECOND, bench.called(5)).await;
    bench.empty(&flow).await;
    assert_eq!(done(&bench)[..5], ["other", "a", "b", "c", "d"]);
    assert_eq!(bench.handler.calls().len(), 4 * 3 + 1 + 100);
    flow.stop().await;
}

/// With a ledger they go back to their places, and go on with their counts.
#[tokio::test(start_paused = true)]
async fn a_stop_gives_all_of_them_back() {
    let bench = Bench::with_ledger();
    let flow = until_the_first_is_tried_again(&bench).await;
    flow.stop().await;
    assert_eq!((done(&bench).len(), bench.partitions.unsettled()), (0, 4));
    let flow = bench.start(bench.spec("10s forever")).await;
    bench.empty(&flow).await;
    assert_eq!(done(&bench), ["a", "b", "c", "d"]);
    assert_eq!(attempts(&bench), [[1, 2, 3]; 4]);
    flow.stop().await;
}

/// Without one each is written down with its own attempts.
#[tokio::test(start_paused = true)]
async fn a_stop_writes_all_of_them_down() {
    let bench = Bench::without_ledger();
    let flow = until_the_first_is_tried_again(&bench).await;
    assert_eq!(done(&bench).len(), 0);
    flow.stop().await;
    written_down(&bench);
}

fn written_down(bench: &Bench) {
    let mut settled = bench.partitions.settled();
    settled.sort_by(|one, other| one.id.cmp(&other.id));
    assert!(settled.iter().all(|ended| matches!(ended.outcome, Outcome::Delay { .. })), "{settled:?}");
    let attempts: Vec<_> = settled.iter().map(|ended| (&*ended.id, ended.attempts)).collect();
    assert_eq!(attempts, [("a", 2), ("b", 1), ("c", 1), ("d", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_gives_all_of_them_back() {
    let bench = Bench::with_ledger();
    let flow = until_the_first_is_tried_again(&bench).await;
    // The first waits once more, the others stand behind it.
    bench.comes("in hand", 4, || flow.in_hand()).await;
    tokio::time::sleep(SECOND).await;
    bench.partitions.revoke(0);
    bench.within(SECOND, bench.comes("in hand", 0, || flow.in_hand())).await;
    assert!(!flow.is_blocked());
    assert_eq!(flow.alarms(), []);
    assert_eq!((done(&bench).len(), bench.partitions.unsettled()), (0, 4));
    bench.partitions.assign(0);
    bench.empty(&flow).await;
    assert_eq!(done(&bench), ["a", "b", "c", "d"]);
    assert_eq!(attempts(&bench), [[1, 2, 3]; 4]);
    flow.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_writes_all_of_them_down() {
    let bench = Bench::without_ledger();
    let flow = until_the_first_is_tried_again(&bench).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(done(&bench).len(), 0);
    bench.partitions.revoke(0);
    bench.within(SECOND, bench.comes("in hand", 0, || flow.in_hand())).await;
    written_down(&bench);
    flow.stop().await;
}

/// With a breaker they wait for the endpoint in their places: what finds out whether it is back goes nowhere.
async fn wait_for_the_endpoint(bench: &Bench) {
    let ids: Vec<String> = (0..20).map(|n| format!("m{n:02}")).collect();
    bench.handler.otherwise(Step::Take(SECOND / 10, Box::new(Step::status(503))));
    bench.partitions.publish(0, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    let mut spec = bench.spec("1s forever");
    spec.breaker = Some(BreakerConfig::default());
    let flow = bench.start(spec).await;
    bench.comes("breaker", Some(BreakerState::Open), || flow.breaker()).await;
    tokio::time::sleep(SECOND * 25).await;
    assert!(bench.handler.calls().len() > 20, "somebody looks whether it is back");
    bench.handler.otherwise(Step::Succeed);
    bench.empty(&flow).await;
    assert_eq!(done(bench), ids);
    let last = bench.handler.calls().into_iter().skip(20).map(|call| call.context.attempt).max();
    assert_eq!(last, Some(2), "only what was under way was charged");
    flow.stop().await;
}

#[tokio::test(start_paused = true)]
async fn those_that_fail_together_wait_for_the_endpoint_in_their_places() {
    wait_for_the_endpoint(&Bench::without_ledger()).await;
    wait_for_the_endpoint(&Bench::with_ledger()).await;
    wait_for_the_endpoint(&Bench::with_a_queue()).await;
}
