//! Topologies that stand already: what is to be tried again is rejected, and the queue's own dead-letter exchange takes it.

use std::time::Duration;

use lapin::types::AMQPValue;
use redrive_engine::port::{Broker as _, Outcome};
use redrive_rabbitmq::{RabbitFlow, SettleMode};

use crate::stage::{Stage, eventually, later, named, receive, settle, subscription};

/// The ring of the books: rejected messages wait in a queue of their own and come back by themselves. Answers with the queue
/// in which they wait.
async fn ring(stage: &Stage) -> String {
    let retry = format!("{}-own-retry", stage.name);
    let text = |text: &str| AMQPValue::LongString(text.into());
    stage
        .queue(
            &retry,
            vec![
                ("x-message-ttl", AMQPValue::LongInt(50)),
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text(&stage.name)),
            ],
        )
        .await;
    stage
        .queue(
            &stage.name,
            vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&retry))],
        )
        .await;
    retry
}

fn rejecting(stage: &Stage, settle: SettleMode) -> RabbitFlow {
    RabbitFlow { settle, owned: false, ..stage.flow() }
}

/// The attempts that a message is known to have had, each rejected in its turn.
async fn goes_round(stage: &Stage, flow: &RabbitFlow, times: u32, last: Outcome) {
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(flow)).await.unwrap();
    for attempts in 0..times {
        let delivery = receive(&mut source, 1).await.remove(0);
        assert_eq!(delivery.trail.attempt, attempts);
        assert_eq!(delivery.trail.first_failure_at.is_some(), attempts > 0, "the broker keeps the time");
        let outcome = if attempts + 1 == times { last.clone() } else { later(Duration::from_secs(60)) };
        settle(&broker, &delivery, outcome).await.unwrap();
    }
    source.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_ends_with_a_dead_letter_that_tells_of_its_attempts() {
    let Some(stage) = Stage::shared("nack") else { return };
    let retry = ring(&stage).await;
    let flow = rejecting(&stage, SettleMode::Nack);
    stage.publish("body", named("a")).await;
    goes_round(&stage, &flow, 4, Outcome::DeadLetter).await;
    let dead = format!("{}.dlq", stage.name);
    stage.holds(&dead, 1).await;
    for queue in [&stage.name, &retry] {
        stage.holds(queue, 0).await;
    }
    let letter = stage.get(&dead).await.expect("a dead letter");
    let headers = letter.properties.headers().clone().unwrap_or_default();
    let header = |name: &str| match headers.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        other => Some(format!("{other:?}")),
    };
    assert_eq!(header("x-retry-attempt").as_deref(), Some("4"));
    assert_eq!(header("x-death"), None, "it would count for the broker's search for cycles");
    assert!(header("x-redrive-death").is_some_and(|deaths| deaths.contains("rejected")), "{headers:?}");
    assert_eq!(letter.data, b"body");

    // Somebody sends the dead letter in again, as it is: it is counted on, and ends again.
    let sent = letter.properties.clone();
    stage.publish("body", sent).await;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for attempts in [4, 5] {
        let again = receive(&mut source, 1).await.remove(0);
        assert_eq!(
            again.trail.attempt, attempts,
            "none of the rejections is counted twice, none is forgotten"
        );
        settle(&broker, &again, later(Duration::from_secs(60))).await.unwrap();
    }
    let again = receive(&mut source, 1).await.remove(0);
    settle(&broker, &again, Outcome::Park).await.unwrap();
    stage.holds(&format!("{}.parking", stage.name), 1).await;
    drop((source, broker));
    for queue in [&stage.name, &retry] {
        stage.holds(queue, 0).await;
    }
    stage.delete(&retry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_ring_that_is_not_there_keeps_the_message() {
    let Some(stage) = Stage::shared("nack-gone") else { return };
    let retry = ring(&stage).await;
    let flow = rejecting(&stage, SettleMode::Nack);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let dead = format!("{}.dlq", stage.name);
    stage.delete(&dead).await;
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    assert!(settle(&broker, &delivery, Outcome::DeadLetter).await.is_err());
    assert_eq!(broker.alarms()[0].name, "queue_missing");
    drop((source, broker));
    stage.holds(&stage.name, 1).await;
    stage.delete(&retry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topology_with_an_end_of_its_own_gets_dead_letters_too() {
    let Some(stage) = Stage::shared("nack-all") else { return };
    let retry = ring(&stage).await;
    let flow = rejecting(&stage, SettleMode::NackAll);
    stage.publish("body", named("a")).await;
    goes_round(&stage, &flow, 3, Outcome::DeadLetter).await;
    let broker = stage.broker(flow.clone()).await;
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    assert_eq!(plan.len(), 1, "the flow makes nothing: {plan:?}");
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let back = receive(&mut source, 1).await.remove(0);
    assert_eq!(back.trail.attempt, 3, "the ring has it");
    settle(&broker, &back, Outcome::Ack).await.unwrap();
    eventually("nothing is left", async || (stage.ready(&retry).await == Some(0)).then_some(())).await;
    drop((source, broker));
    stage.delete(&retry).await;
}
