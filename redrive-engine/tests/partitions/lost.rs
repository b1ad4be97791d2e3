//! A partition is taken away while a message of it is being handled, and that call fails.

use redrive_core::OrderBy;
use redrive_engine::port::Outcome;
use testkit::handler::{Door, Step};

use super::{Bench, SECOND};

/// It is put down with its attempt at once, not after its wait.
#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_its_partition_is_put_down_when_it_fails() {
    let bench = Bench::without_ledger();
    let door = Door::closed();
    bench.handler.on("a", [Step::Wait(door.clone(), Box::new(Step::status(503)))]);
    bench.partitions.publish(0, &["a", "b"]);
    let flow = bench.start(bench.spec("1m forever")).await;
    bench.called(2).await;
    bench.partitions.revoke(0);
    tokio::time::sleep(SECOND * 10).await;
    door.open();
    bench.within(SECOND, bench.comes("in hand", 0, || flow.in_hand())).await;
    let ended: Vec<_> = bench.partitions.settled().into_iter().filter(|ended| ended.id == "a").collect();
    assert!(matches!(ended[0].outcome, Outcome::Delay { .. }), "{ended:?}");
    assert_eq!((ended.len(), ended[0].attempts, ended[0].taken), (1, 1, true));
    assert!(!flow.is_blocked());
    flow.stop().await;
}

/// A ledger has its count: it goes back to its place, and goes on there.
#[tokio::test(start_paused = true)]
async fn it_keeps_its_place_where_a_ledger_has_its_count() {
    let bench = Bench::with_ledger();
    let door = Door::closed();
    bench.handler.on("a", [Step::Wait(door.clone(), Box::new(Step::status(503)))]);
    bench.partitions.publish(0, &["a"]);
    let flow = bench.start(bench.spec("1m forever")).await;
    bench.called(1).await;
    bench.partitions.revoke(0);
    bench.partitions.publish(0, &["b"]);
    tokio::time::sleep(SECOND * 10).await;
    door.open();
    bench.within(SECOND, bench.comes("in hand", 0, || flow.in_hand())).await;
    assert_eq!(bench.partitions.settled(), [], "it goes back");
    bench.partitions.assign(0);
    bench.empty(&flow).await;
    assert_eq!(bench.handler.order(), ["a", "a", "b"]);
    assert_eq!(bench.handler.attempts_of("a"), [1, 2]);
    assert!(!flow.is_blocked());
    flow.stop().await;
}

/// The partition is back before the call has ended that held it: nobody stands behind that.
#[tokio::test(start_paused = true)]
async fn nothing_stands_behind_a_call_of_a_partition_that_was_lost() {
    let bench = Bench::without_ledger();
    let door = Door::closed();
    let hangs = Step::Wait(door.clone(), Box::new(Step::status(503)));
    bench.handler.on("a", [Step::status(503), hangs]);
    bench.partitions.publish(0, &["a"]);
    let flow = bench.start(bench.spec("1m forever")).await;
    bench.called(2).await;
    assert!(flow.is_blocked());
    bench.partitions.publish(0, &["b"]);
    bench.partitions.revoke(0);
    bench.partitions.assign(0);
    bench.within(SECOND, bench.called(4)).await;
    assert_eq!(bench.handler.order(), ["a", "a", "a", "b"], "called again at once");
    assert!(!flow.is_blocked());
    assert_eq!(flow.alarms(), []);
    bench.comes("unsettled", 0, || bench.partitions.unsettled()).await;

    door.open();
    bench.within(SECOND, bench.comes("in hand", 0, || flow.in_hand())).await;
    assert!(!flow.is_blocked());
    let ended: Vec<_> = bench.partitions.ended().into_iter().map(|one| (one.epoch, one.taken)).collect();
    assert_eq!(ended, [(3, true), (3, true), (2, false)], "the source has seen it put down");
    flow.stop().await;
}

/// The same message can hold the partition that is back, in its own right and in its place.
#[tokio::test(start_paused = true)]
async fn it_holds_the_partition_that_is_back_in_its_own_right() {
    let bench = Bench::without_ledger();
    let door = Door::closed();
    let hangs = Step::Wait(door.clone(), Box::new(Step::status(503)));
    bench.handler.on("a", [Step::status(503), hangs, Step::status(503), Step::status(503)]);
    bench.partitions.publish(0, &["a"]);
    let flow = bench.start(bench.spec("1m forever")).await;
    bench.called(2).await;
    bench.partitions.revoke(0);
    bench.partitions.assign(0);
    bench.called(3).await;
    bench.comes("blocked", true, || flow.is_blocked()).await;
    bench.partitions.publish(0, &["b"]);
    door.open();
    bench.comes("in hand", 1, || flow.in_hand()).await;
    assert!(flow.is_blocked() && bench.partitions.is_gated(0), "for the one that is here");
    bench.empty(&flow).await;
    assert_eq!(bench.handler.order(), ["a", "a", "a", "a", "a", "b"]);
    assert_eq!(bench.handler.attempts_of("a"), [1, 2, 1, 2, 3]);
    let diverted = bench.partitions.settled().into_iter().find(|ended| ended.outcome != Outcome::Ack);
    assert_eq!(diverted, None);
    flow.stop().await;
}

/// Where the whole flow stands for a message, that waits in a worker's hand; it is put down there too.
#[tokio::test(start_paused = true)]
async fn a_wait_in_a_workers_hand_ends_with_the_loss() {
    let bench = Bench::with_a_queue();
    bench.handler.on("a", [Step::status(503)]);
    bench.partitions.publish(0, &["a", "b"]);
    let mut spec = bench.spec("1m forever");
    spec.concurrency = 1;
    let flow = bench.start(spec).await;
    bench.called(1).await;
    tokio::time::sleep(SECOND * 10).await;
    bench.partitions.revoke(0);
    bench.partitions.assign(0);
    bench.within(SECOND, bench.empty(&flow)).await;
    assert_eq!(bench.handler.order(), ["a", "a", "b"]);
    assert!(!flow.is_blocked());
    flow.stop().await;
}

/// A lane goes on with what has come again, not behind what is lost.
#[tokio::test(start_paused = true)]
async fn a_lane_does_not_wait_for_a_message_that_is_lost() {
    let bench = Bench::with_ledger();
    let door = Door::closed();
    bench.handler.on("a", [Step::Wait(door.clone(), Box::new(Step::status(503)))]);
    bench.partitions.publish(0, &["a", "b"]);
    let mut spec = bench.spec("1m forever");
    spec.order_by = OrderBy::Key;
    let flow = bench.start(spec).await;
    bench.called(1).await;
    bench.partitions.revoke(0);
    bench.partitions.assign(0);
    bench.comes("in hand", 4, || flow.in_hand()).await;
    door.open();
    bench.within(SECOND, bench.empty(&flow)).await;
    assert_eq!(bench.handler.order(), ["a", "a", "b"]);
    let ended = bench.partitions.settled();
    assert!(ended.iter().all(|ended| ended.outcome == Outcome::Ack && ended.epoch == 3), "{ended:?}");
    flow.stop().await;
}
