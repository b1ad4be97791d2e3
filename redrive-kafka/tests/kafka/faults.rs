//! Brokers that are killed, and come back.

use std::net::TcpStream;

use redrive_engine::port::{Broker as _, Outcome, PortError, Refusal};
use redrive_kafka::{KafkaFlow, SettleMode};
use testkit::Server;
use tokio::sync::watch;

use crate::groups::Tally;
use crate::stage::{PATIENCE, Seat, Stage, eventually, numbers, sorted};

/// The only broker is killed with records in hand, some of which are settled while it is away, until its member has heard that
/// its session has run out: that costs it what it has in hand, which comes again with no attempt charged. Everything goes on by
/// itself, nothing is lost, and with transactions no dead letter is there twice.
///
/// It is not killed between the two halves of a commit of its own: when it comes back, and partitions have no leader for a
/// moment, it takes them for deleted and never ends the transaction there, which stops every reader until a person does.
async fn the_only_broker_is_killed(mode: SettleMode) {
    const ALL: usize = 2_000;
    const BATCH: usize = 5;
    let Some(stage) = Stage::own("killed") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..ALL / 2).await;
    stage.produce(&stage.name, 1, ALL / 2..ALL).await;
    let mut flow = KafkaFlow { settle: mode, ..stage.flow() };
    flow.client.options.insert("session.timeout.ms".to_owned(), "6000".to_owned());
    let mut seat = Seat::new(flow).await;
    let mut revoked = seat.source.revoked().unwrap();
    let mut tally = Tally::of_dead();
    let taken = seat.take(ALL / 2).await;
    // Some are never given to settle before the broker is back.
    let (busy, held) = taken.split_at(ALL / 2 - 100);

    let (before, after) = busy.split_at(5 * BATCH);
    for some in before.chunks(BATCH) {
        tally.settle(&seat, some).await;
    }
    eventually("what was settled is there for everyone", async || {
        let mut committed = 0;
        for partition in 0..2 {
            let found = stage.committed(&stage.name, &stage.name, partition).await;
            committed += found.map_or(0, |(offset, _)| offset);
        }
        let dead = stage.read(&format!("{}.dlq", stage.name)).await.len();
        (dead == before.len() && usize::try_from(committed) == Ok(before.len())).then_some(())
    })
    .await;
    stage.order(Server::kill).await;
    let (begun, mut seen) = watch::channel(false);
    let settling = async {
        for some in after.chunks(BATCH) {
            begun.send_replace(true);
            tally.settle(&seat, some).await;
        }
    };
    let killing = async {
        seen.wait_for(|begun| *begun).await.unwrap();
        for _ in 0..2 {
            tokio::time::timeout(PATIENCE, revoked.recv()).await.expect("its session runs out").unwrap();
        }
        stage.order(Server::start).await;
        stage.answers().await;
    };
    tokio::join!(killing, settling);

    // What was settled is for Kafka to say: an answer may have been lost with the broker.
    let each = Some((i64::try_from(ALL / 2).unwrap(), String::new()));
    let mut came = Vec::new();
    eventually("everything is committed", async || {
        let some = seat.take_now(200).await;
        assert!(some.iter().all(|one| one.trail.attempt == 0), "no attempt is charged");
        came.extend(numbers(&some));
        tally.settle(&seat, &some).await;
        let all = some.is_empty()
            && stage.committed(&stage.name, &stage.name, 0).await == each
            && stage.committed(&stage.name, &stage.name, 1).await == each;
        all.then_some(())
    })
    .await;
    came.sort_unstable();
    let mut again = numbers(held);
    again.retain(|number| came.binary_search(number).is_err());
    assert!(again.is_empty(), "{again:?} were in hand, and did not come again");
    for answer in seat.settle(held, &Outcome::DeadLetter).await {
        assert!(
            matches!(answer, Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. }))),
            "{answer:?}"
        );
    }
    tally.none_was_settled_twice();
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    let mut once = dead.clone();
    once.dedup();
    assert_eq!(once, (0..ALL).collect::<Vec<_>>(), "nothing is lost");
    if mode == SettleMode::Transactional {
        assert_eq!(dead.len(), ALL, "nothing is there twice");
    }
    eventually("it takes writes again", async || seat.broker.ready().await.ok()).await;
    tokio::time::timeout(PATIENCE, seat.leave()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_broker_is_killed_with_transactions() {
    the_only_broker_is_killed(SettleMode::Transactional).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_broker_is_killed_plainly() {
    the_only_broker_is_killed(SettleMode::Plain).await;
}

/// Of three brokers each is killed in its turn, and with it whoever leads partitions, coordinates groups and transactions,
/// or controls the cluster. Records are being settled when it dies, and with two brokers alone a whole wave is written, read,
/// settled and committed: nothing is lost, and nothing is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_three_brokers_is_killed() {
    const STEP: usize = 30;
    const PARTITIONS: i32 = 3;
    let Some(stage) = Stage::cluster("three") else { return };
    stage.topics(PARTITIONS).await;
    let mut seat = Seat::new(stage.flow()).await;
    let (mut tally, mut written) = (Tally::of_thirds(), 0);
    for node in 0..3 {
        written = wave(&stage, written, STEP).await;
        let killing = stage.order(move |server| server.kill_node(node));
        tokio::join!(killing, settle_all(&mut seat, &mut tally, written));

        written = wave(&stage, written, STEP).await;
        settle_all(&mut seat, &mut tally, written).await;
        let per_partition = i64::try_from(written).unwrap() / i64::from(PARTITIONS);
        for partition in 0..PARTITIONS {
            let committed = stage.committed(&stage.name, &stage.name, partition).await;
            assert_eq!(committed, Some((per_partition, String::new())), "without the broker {node}");
        }
        let address = stage.server.address().split(',').nth(node).unwrap();
        assert!(TcpStream::connect(address).is_err(), "the broker {node} is away");
        stage.order(move |server| server.start_node(node)).await;
        stage.answers().await;
    }
    assert_eq!(tally.settled(), written);
    tally.each_was_settled_once();
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    assert_eq!(dead, tally.dead(), "each dead letter once");
    tokio::time::timeout(PATIENCE, seat.leave()).await.unwrap();
}

/// Writes so many records to each of the three partitions. Answers with how many there are now.
async fn wave(stage: &Stage, written: usize, step: usize) -> usize {
    let part = |partition: usize| {
        let from = written + partition * step;
        stage.produce(&stage.name, i32::try_from(partition).unwrap(), from..from + step)
    };
    tokio::join!(part(0), part(1), part(2));
    written + 3 * step
}

/// Reads and settles until so many are settled, in small batches.
async fn settle_all(seat: &mut Seat, tally: &mut Tally, written: usize) {
    while tally.settled() < written {
        let some = seat.take(1).await;
        tally.settle(seat, &some).await;
        let more = seat.take_now(10).await;
        tally.settle(seat, &more).await;
    }
}
