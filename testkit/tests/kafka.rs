//! Kafka, as the tests get it: started, used, stopped, started again with its data.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use testkit::Services;
use testkit::services::Kind;

const PATIENCE: Duration = Duration::from_mins(1);

fn config(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("broker.address.family", "v4");
    config
}

async fn create_topic(address: &str, topic: &str, copies: i32) {
    let admin: AdminClient<DefaultClientContext> = config(address).create().unwrap();
    let topic = NewTopic::new(topic, 1, TopicReplication::Fixed(copies));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let created = admin.create_topics([&topic], &options).await.unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
}

async fn produce(address: &str, topic: &str, body: &str) {
    let producer: FutureProducer = config(address)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "60000")
        .create()
        .unwrap();
    producer.send(FutureRecord::to(topic).key("key").payload(body), PATIENCE).await.unwrap();
}

/// All bodies of the topic's only partition. Dropping a consumer blocks, so it lives off the async threads.
async fn read(address: &str, topic: &str, count: usize) -> Vec<String> {
    let (config, topic) = (config(address), topic.to_owned());
    tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer =
            config.clone().set("group.id", "smoke").set("enable.auto.commit", "false").create().unwrap();
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&place).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut bodies = Vec::new();
        while bodies.len() < count {
            assert!(Instant::now() < deadline, "only {bodies:?} came");
            // A broker that comes back is not there at once: errors are waited out.
            if let Some(Ok(message)) = consumer.poll(Duration::from_millis(200)) {
                bodies.push(String::from_utf8(message.payload().unwrap().to_vec()).unwrap());
            }
        }
        consumer.unassign().unwrap();
        bodies
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_outlives_a_restart() {
    let services = Services::connect();
    let Some(server) = services.own(Kind::Kafka) else { return };
    let topic = format!("smoke-{}", std::process::id());
    create_topic(server.address(), &topic, 1).await;
    produce(server.address(), &topic, "in and out").await;
    assert_eq!(read(server.address(), &topic, 1).await, ["in and out"]);

    if !server.ours_to_break() {
        let admin: AdminClient<DefaultClientContext> = config(server.address()).create().unwrap();
        admin.delete_topics(&[&topic], &AdminOptions::new()).await.unwrap();
        return;
    }
    server.stop();
    let address = server.address().to_owned();
    let refused = tokio::task::spawn_blocking(move || std::net::TcpStream::connect(address)).await.unwrap();
    assert!(refused.is_err(), "a stopped server must not answer");
    server.start();
    assert_eq!(read(server.address(), &topic, 1).await, ["in and out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_outlives_the_kill_of_one() {
    let services = Services::connect();
    if !services.faults() {
        return;
    }
    let Some(server) = services.kafka_cluster(3) else { return };
    if !server.ours_to_break() {
        return;
    }
    create_topic(server.address(), "smoke", 3).await;
    produce(server.address(), "smoke", "before").await;
    server.kill_node(0);
    produce(server.address(), "smoke", "while one is gone").await;
    server.start_node(0);
    assert_eq!(read(server.address(), "smoke", 2).await, ["before", "while one is gone"]);
}
