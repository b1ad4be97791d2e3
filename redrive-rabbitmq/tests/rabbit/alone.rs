//! A flow that keeps order, and others that read its queue.

use std::sync::Arc;

use lapin::options::{BasicConsumeOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use redrive_engine::port::{Broker as _, Outcome, PortError, Refusal, Source};
use redrive_rabbitmq::{Login, QueueKind, RabbitBroker, RabbitFlow};

use crate::stage::{PATIENCE, Stage, eventually, named, receive, settle, subscription};

type Began = Result<Box<dyn Source>, PortError>;

/// A flow that keeps order, on a queue that is there.
async fn ordered(stage: &Stage, kind: QueueKind) -> RabbitFlow {
    let mut flow = stage.flow();
    flow.kind = kind;
    stage.broker(flow.clone()).await;
    flow.alone = true;
    flow
}

async fn begin(flow: &RabbitFlow) -> (Arc<RabbitBroker>, Began) {
    let broker = Arc::new(RabbitBroker::new(flow.clone()).unwrap());
    let began = broker.subscribe(&subscription(flow)).await;
    (broker, began)
}

fn refused(stage: &Stage, began: Began) {
    let refused = began.err().expect("a refusal");
    assert!(
        matches!(&refused, PortError::Refused(Refusal::State(why)) if why.contains(&format!("the queue `{}`", stage.name))),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_must_be_alone_is_told_of_others() {
    for kind in [QueueKind::Quorum, QueueKind::Classic] {
        let Some(stage) = Stage::shared("others") else { return };
        let flow = ordered(&stage, kind).await;
        let usual = RabbitFlow { alone: false, ..flow.clone() };
        let (other, source) = begin(&usual).await;
        other.alone().await.expect("nobody else reads");
        let (broker, began) = begin(&flow).await;
        refused(&stage, began);
        drop((source, other));
        let source =
            eventually("the place to be free", async || broker.subscribe(&subscription(&flow)).await.ok())
                .await;
        let (_second, began) = begin(&flow).await;
        refused(&stage, began);
        drop(source);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_that_begin_at_the_same_time_one_reads() {
    let Some(stage) = Stage::shared("same-time") else { return };
    let flow = ordered(&stage, QueueKind::Quorum).await;
    let all = futures_util::future::join_all((0..6).map(|_| begin(&flow))).await;
    let (reading, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, began)| began.is_ok());
    assert_eq!(reading.len(), 1, "one has the place");
    for (_, began) in rest {
        refused(&stage, began);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_waits_until_the_one_that_came_meanwhile_is_gone() {
    let Some(stage) = Stage::shared("came-back") else { return };
    let flow = ordered(&stage, QueueKind::Quorum).await;
    let (first, began) = begin(&flow).await;
    let mut source = began.unwrap();
    let connection = Connection::connect(stage.server.address(), ConnectionProperties::default());
    let connection = connection.await.unwrap();
    let place = format!("{}.alone", stage.name);
    // Somebody else asks for the place so often that it is there first when the connection is lost.
    let taking = {
        let place = place.clone();
        tokio::spawn(async move {
            let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            loop {
                let channel = connection.create_channel().await.unwrap();
                let asked =
                    channel.queue_declare(place.as_str().into(), options, FieldTable::default()).await;
                if asked.is_ok() {
                    return (connection, channel);
                }
            }
        })
    };
    if !tokio::task::block_in_place(|| stage.close_connections()) {
        taking.abort();
        return;
    }
    let (_connection, taken) = tokio::time::timeout(PATIENCE, taking).await.unwrap().unwrap();
    let alarm = || first.alarms().into_iter().find(|alarm| alarm.name == "not_alone");
    let told = eventually("the alarm", async || alarm()).await;
    assert!(told.why.contains(&stage.name), "{told:?}");
    stage.publish("body", named("a")).await;
    stage.holds(&stage.name, 1).await;
    taken.queue_delete(place.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    let read = receive(&mut source, 1).await.remove(0);
    assert_eq!(&*read.message.id, "a");
    settle(&first, &read, Outcome::Ack).await.unwrap();
    eventually("the end of the alarm", async || alarm().is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_makes_nothing_counts_who_reads() {
    let Some(stage) = Stage::shared("counts") else { return };
    let mut flow = ordered(&stage, QueueKind::Quorum).await;
    flow.makes = false;
    let channel = stage.channel().await;
    let (options, nothing) = (BasicConsumeOptions::default(), FieldTable::default());
    let stranger = channel.basic_consume(stage.name.as_str().into(), "".into(), options, nothing).await;
    let (_broker, began) = begin(&flow).await;
    refused(&stage, began);
    drop(stranger);
    channel.close(200, "".into()).await.unwrap();
    let (_broker, began) = begin(&flow).await;
    assert!(began.is_ok(), "{:?}", began.err());
    assert_eq!(stage.ready(&format!("{}.alone", stage.name)).await, None, "nothing is declared");
}

#[test]
fn the_right_to_the_place_is_among_those_that_are_printed() {
    let mut flow = RabbitFlow::new("orders", Login::new("localhost", 5672), "new-orders");
    let printed = |flow: &RabbitFlow| RabbitBroker::new(flow.clone()).unwrap().permissions().concat();
    assert!(!printed(&flow).contains("alone"), "nobody else needs it");
    flow.alone = true;
    let printed = printed(&flow);
    let configure = printed.split("' '").nth(2).unwrap();
    assert!(configure.contains(r"new-orders\.alone"), "{printed}");
}
