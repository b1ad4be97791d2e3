//! A broker that dies while copies are written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{Broker as _, Outcome, PortError, Room, Settlement};

use crate::stage::{Stage, later, named, publish, settlement, subscription};

const MESSAGES: usize = 400;
/// A server that was killed twice takes its time on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_again_and_again_while_messages_are_delayed_loses_none() {
    let Some(stage) = Stage::own("killed") else { return };
    let mut flow = stage.flow();
    flow.confirm_timeout = Duration::from_secs(3);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let channel = stage.channel().await;
    for number in 0..MESSAGES {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut kills = 2;
    let mut begun = 0;
    let mut starting: Option<tokio::task::JoinHandle<()>> = None;
    let running = async {
        while done.len() < MESSAGES {
            let mut read = Vec::new();
            // It may be away, and be back: it is asked again.
            let _ = source.receive(Room::of(50), &mut read).await;
            begun += read.len();
            let mut batch: Vec<Settlement> = read
                .iter()
                .map(|delivery| {
                    let first = delivery.trail.attempt == 0;
                    let outcome = if first { later(Duration::from_millis(300)) } else { Outcome::Ack };
                    settlement(delivery, outcome)
                })
                .collect();
            while !batch.is_empty() {
                let answers = if kills > 0 && begun > 100 * (3 - kills) {
                    kills -= 1;
                    if let Some(starting) = starting.take() {
                        starting.await.unwrap();
                    }
                    // Some are being settled when it dies, the others while it is away.
                    let (before, after) = batch.split_at(batch.len() / 2);
                    let server = Arc::clone(&stage.server);
                    let killing = tokio::task::spawn_blocking(move || server.kill());
                    let (mut answers, killed) = tokio::join!(broker.settle(before), killing);
                    killed.unwrap();
                    let refused = broker.settle(after).await;
                    assert!(refused.iter().all(Result::is_err), "it is away: {refused:?}");
                    answers.extend(refused);
                    let server = Arc::clone(&stage.server);
                    starting = Some(tokio::task::spawn_blocking(move || server.start()));
                    answers
                } else {
                    broker.settle(&batch).await
                };
                let mut left = Vec::new();
                for (settlement, answer) in batch.into_iter().zip(answers) {
                    match answer {
                        Ok(_) if settlement.outcome == Outcome::Ack => {
                            done.insert(settlement.delivery.message.id.to_string());
                        }
                        // What is gone comes again.
                        Ok(_) | Err(PortError::Refused(_)) => {}
                        Err(_) => left.push(settlement),
                    }
                }
                batch = left;
                if !batch.is_empty() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    };
    tokio::time::timeout(LIMIT, running).await.expect("every message comes a second time");
    assert_eq!(kills, 0, "it was killed");
    assert_eq!(done.len(), MESSAGES);
}
