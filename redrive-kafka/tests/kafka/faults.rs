//! Brokers that are killed, and come back.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_engine::port::Broker as _;
use redrive_kafka::{KafkaFlow, SettleMode};

use crate::groups::Tally;
use crate::stage::{PATIENCE, Seat, Stage, eventually, sorted};

/// The only broker is killed while records are read and settled, and is started again: everything goes on by itself,
/// nothing is lost, and with transactions no dead letter is there twice. That holds also when it is away for longer than
/// its members' sessions, which costs them what they have in hand.
async fn the_only_broker_is_killed(mode: SettleMode) {
    const ALL: usize = 2_000;
    let Some(stage) = Stage::own("killed") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..ALL / 2).await;
    stage.produce(&stage.name, 1, ALL / 2..ALL).await;
    let mut seat = Seat::new(KafkaFlow { settle: mode, ..stage.flow() }).await;
    let mut tally = Tally::of_dead();
    let taken = seat.take(ALL / 2).await;
    tally.settle(&seat, &taken[..100]).await;

    // Settling goes on while the broker dies and lives again.
    let settling = async {
        for some in taken[100..].chunks(90) {
            tally.settle(&seat, some).await;
        }
    };
    let killing = async {
        tokio::task::block_in_place(|| {
            stage.server.kill();
            stage.server.start();
        });
        stage.answers().await;
    };
    tokio::join!(killing, settling);

    // What was settled is for Kafka to say: an answer may have been lost with the broker.
    let each = Some((i64::try_from(ALL / 2).unwrap(), String::new()));
    eventually("everything is committed", async || {
        let some = seat.take_now(200).await;
        tally.settle(&seat, &some).await;
        let all = some.is_empty()
            && stage.committed(&stage.name, &stage.name, 0).await == each
            && stage.committed(&stage.name, &stage.name, 1).await == each;
        all.then_some(())
    })
    .await;
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
/// or controls the cluster. Records are written, read and settled all the while: nothing is lost, and nothing is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_three_brokers_is_killed() {
    const STEP: usize = 30;
    const PARTITIONS: i32 = 3;
    let Some(stage) = Stage::cluster("three") else { return };
    stage.topics(PARTITIONS).await;
    let mut seat = Seat::new(stage.flow()).await;
    let (mut tally, mut written) = (Tally::of_thirds(), 0);
    for node in 0..3 {
        let back = AtomicBool::new(false);
        let killing = async {
            tokio::task::block_in_place(|| stage.server.kill_node(node));
            tokio::task::block_in_place(|| stage.server.start_node(node));
            stage.answers().await;
            back.store(true, Ordering::SeqCst);
        };
        let settling = async {
            loop {
                if tally.settled() == written {
                    if back.load(Ordering::SeqCst) {
                        break;
                    }
                    for partition in 0..PARTITIONS {
                        stage.produce(&stage.name, partition, written..written + STEP).await;
                        written += STEP;
                    }
                }
                let some = seat.take(1).await;
                tally.settle(&seat, &some).await;
                let more = seat.take_now(STEP).await;
                tally.settle(&seat, &more).await;
            }
        };
        tokio::join!(killing, settling);
    }
    assert_eq!(tally.settled(), written);
    tally.each_was_settled_once();
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    assert_eq!(dead, tally.dead(), "each dead letter once");
    let per_partition = i64::try_from(written).unwrap() / i64::from(PARTITIONS);
    for partition in 0..PARTITIONS {
        let committed = stage.committed(&stage.name, &stage.name, partition).await;
        assert_eq!(committed, Some((per_partition, String::new())));
    }
    tokio::time::timeout(PATIENCE, seat.leave()).await.unwrap();
}
