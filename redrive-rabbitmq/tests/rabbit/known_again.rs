//! Messages that whoever sent them gave no id.

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use redrive_engine::port::{Broker as _, Delivery};

use crate::stage::{Stage, publish, receive, subscription, table};

fn bodies_and<T>(read: &[Delivery], what: impl Fn(&Delivery) -> T) -> Vec<(Vec<u8>, T)> {
    let mut all: Vec<_> =
        read.iter().map(|one| (one.message.body.clone().unwrap().to_vec(), what(one))).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_id_is_known_again_by_what_it_is_like() {
    let Some(stage) = Stage::shared("like") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let channel = stage.channel().await;
    let sent = |n| BasicProperties::default().with_headers(table(vec![("n", AMQPValue::LongInt(n))]));
    for (body, n) in [("a", 1), ("a", 1), ("b", 1), ("c", 2)] {
        publish(&channel, &stage.name, body, sent(n)).await;
    }
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let read = receive(&mut source, 4).await;
    let mut ids: Vec<&str> = read.iter().map(|one| one.message.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each has an id of its own");
    let like = bodies_and(&read, Delivery::likeness);
    assert!(like.iter().all(|(_, like)| like.is_some()), "{like:?}");
    assert_eq!(like[0], like[1], "they are equal");
    assert!(like[1].1 != like[2].1 && like[2].1 != like[3].1, "{like:?}");
    // Another process has them, and the broker counts how often it delivered each.
    drop(source);
    drop(broker);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let again = receive(&mut source, 4).await;
    assert!(again.iter().all(|one| one.redelivered && !ids.contains(&one.message.id.as_str())));
    assert_eq!(bodies_and(&again, Delivery::likeness), like);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_an_id_is_known_by_that() {
    let Some(stage) = Stage::shared("named") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    stage.publish("a", crate::stage::named("m-1")).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    assert_eq!(receive(&mut source, 1).await[0].likeness(), None);
}
