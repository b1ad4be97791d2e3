//! RabbitMQ, as the tests get it: started, used, stopped, started again with its data.

use std::time::Duration;

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use testkit::Services;
use testkit::services::Kind;

const PERSISTENT: u8 = 2;

async fn channel(address: &str) -> (Connection, Channel) {
    let connection = Connection::connect(address, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    (connection, channel)
}

/// A quorum queue, the kind that a message may be entrusted to.
async fn declare(channel: &Channel, queue: &str) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, arguments).await.unwrap();
}

/// Publishes so that only a stored message counts: mandatory, persistent, confirmed.
async fn publish(channel: &Channel, queue: &str, body: &[u8]) {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let confirm = channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
    let confirmation = confirm.await.unwrap();
    assert!(matches!(confirmation, Confirmation::Ack(None)), "not stored: {confirmation:?}");
}

async fn take(channel: &Channel, queue: &str) -> Vec<u8> {
    // A quorum queue answers empty until its leader is elected anew, so the message is asked for again.
    let asked = tokio::time::timeout(Duration::from_mins(1), async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        loop {
            if let Some(message) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap()
            {
                return message;
            }
            pause.tick().await;
        }
    });
    let message = asked.await.expect("the message did not come back");
    message.delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
    message.delivery.data
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_message_outlives_a_restart() {
    let services = Services::connect();
    let Some(server) = services.own(Kind::Rabbitmq) else { return };
    let queue = format!("smoke-{}", std::process::id());

    let (connection, channel) = self::channel(server.address()).await;
    declare(&channel, &queue).await;
    publish(&channel, &queue, b"in and out").await;
    assert_eq!(take(&channel, &queue).await, b"in and out");

    if !server.ours_to_break() {
        channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        return;
    }
    publish(&channel, &queue, b"kept").await;
    drop((connection, channel));
    server.stop();
    let refused = Connection::connect(server.address(), ConnectionProperties::default()).await;
    assert!(refused.is_err(), "a stopped server must not answer");
    server.start();
    let (_connection, channel) = self::channel(server.address()).await;
    assert_eq!(take(&channel, &queue).await, b"kept");
}
