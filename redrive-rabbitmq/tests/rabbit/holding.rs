//! What nobody takes goes back.

use std::time::Duration;

use redrive_engine::port::{Broker as _, Outcome};

use crate::stage::{Stage, named, publish, receive, settle, subscription};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_nobody_takes_for_long_go_back_until_somebody_does() {
    let Some(stage) = Stage::shared("hold") else { return };
    let mut flow = stage.flow();
    flow.longest_hold = Duration::from_millis(200);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let channel = stage.channel().await;
    for number in 0..5 {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let first = receive(&mut source, 1).await.remove(0);
    settle(&broker, &first, Outcome::Ack).await.unwrap();
    stage.holds(&stage.name, 4).await;
    let rest = receive(&mut source, 4).await;
    let ids: Vec<&str> = rest.iter().map(|delivery| &*delivery.message.id).collect();
    assert_eq!(ids, ["1", "2", "3", "4"]);
    for delivery in &rest {
        settle(&broker, delivery, Outcome::Ack).await.expect("what is in hand is never taken away");
    }
}
