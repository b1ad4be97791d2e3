//! What people hear of while a flow cannot read: each is made to happen, is said, and is over by itself.

use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, FutureRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use redrive_engine::port::{Broker as _, BrokerAlarm, Outcome};
use redrive_kafka::KafkaFlow;

use crate::stage::{PATIENCE, Seat, Stage, eventually, numbers, patiently};

fn alarm(seat: &Seat, name: &str) -> Option<BrokerAlarm> {
    seat.broker.alarms().into_iter().find(|alarm| alarm.name == name)
}

/// Waits until it is said, and answers with what is said.
async fn raised(seat: &Seat, name: &str) -> String {
    eventually(name, async || alarm(seat, name)).await.why
}

async fn is_over(seat: &Seat, name: &str) {
    eventually(&format!("{name} is over"), async || alarm(seat, name).is_none().then_some(())).await;
}

/// A transaction of somebody else that is about to move the group's position in the first partition. Until it ends the
/// coordinator does not say where the group is.
async fn open_transaction(stage: &Stage) -> BaseProducer {
    let (config, topic) = (stage.config(), stage.name.clone());
    let begun = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = config.clone().set("group.id", &topic).create().unwrap();
        let producer: BaseProducer = config
            .clone()
            .set("transactional.id", format!("{topic}-somebody"))
            .set("transaction.timeout.ms", "600000")
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(&topic, 0, Offset::Offset(0)).unwrap();
        let metadata = consumer.group_metadata().unwrap();
        producer.send_offsets_to_transaction(&place, &metadata, PATIENCE).unwrap();
        producer
    });
    begun.await.unwrap()
}

async fn abort(producer: BaseProducer) {
    tokio::task::spawn_blocking(move || producer.abort_transaction(PATIENCE).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_not_read_while_nobody_says_from_where() {
    let Some(stage) = Stage::shared("unstable") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..5).await;
    let somebody = open_transaction(&stage).await;
    let mut seat = Seat::new(stage.flow()).await;
    let why = raised(&seat, "positions_unknown").await;
    assert!(why.contains(&format!("`{}` does not say where to go on", stage.name)), "{why}");
    assert!(seat.take_now(5).await.is_empty(), "nothing is read before it is known");
    abort(somebody).await;
    let taken = seat.take(5).await;
    assert_eq!(numbers(&taken), (0..5).collect::<Vec<_>>());
    is_over(&seat, "positions_unknown").await;
    seat.end(&taken, &Outcome::Ack).await;
    seat.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_comes_while_others_are_in_the_group_is_not_read() {
    let Some(stage) = Stage::shared("joined") else { return };
    let second = format!("{}.second", stage.name);
    stage.topics(1).await;
    stage.topic(&second, 1, &[]).await;
    let flow = KafkaFlow { topics: vec![stage.name.clone(), second.clone()], alone: true, ..stage.flow() };
    stage.produce(&stage.name, 0, 0..1).await;
    stage.produce(&second, 0, 1..2).await;
    let mut seat = Seat::new(flow).await;
    let taken = seat.take(2).await;
    seat.end(&taken, &Outcome::Ack).await;
    // Somebody joins who reads the first topic alone, so that what is new of the second one comes here.
    let (mut config, topic) = (stage.config(), stage.name.clone());
    config.set("group.id", &stage.name).set("client.id", "somebody");
    config.set("partition.assignment.strategy", "cooperative-sticky");
    let other = tokio::task::spawn_blocking(move || {
        let other: BaseConsumer = config.create().unwrap();
        other.subscribe(&[&topic]).unwrap();
        patiently("somebody is in the group", || {
            _ = other.poll(Duration::from_millis(100));
            let found = other.fetch_group_list(Some(&topic), PATIENCE).ok()?;
            let members = found.groups().first()?.members();
            (members.len() == 2 && members.iter().all(|one| one.assignment().is_some())).then_some(())
        });
        other
    })
    .await
    .unwrap();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let grown = stage.admin().create_partitions(&[NewPartitions::new(&second, 2)], &options).await.unwrap();
    assert!(grown.iter().all(Result::is_ok), "{grown:?}");
    // A member that does not poll holds the others up.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let polling = tokio::task::spawn_blocking(move || {
        while let Err(std::sync::mpsc::TryRecvError::Empty) = stopped.try_recv() {
            _ = other.poll(Duration::from_millis(100));
        }
        other.unsubscribe();
        drop(other);
    });
    let why = raised(&seat, "not_alone").await;
    assert!(why.contains("somebody at") && why.contains("nothing is read until then"), "{why}");
    stage.produce(&second, 1, 2..3).await;
    assert!(seat.take_now(5).await.is_empty(), "what came meanwhile is not read");
    stop.send(()).unwrap();
    polling.await.unwrap();
    let taken = seat.take(1).await;
    assert_eq!(numbers(&taken), [2]);
    is_over(&seat, "not_alone").await;
    seat.end(&taken, &Outcome::Ack).await;
    seat.leave().await;
}

/// Where `auto.offset.reset` says that no position is to be chosen, what has none is not read. That stays said while the
/// other partitions are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_a_position_is_named_where_none_is_to_be_chosen() {
    let Some(stage) = Stage::shared("nowhere") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 1, 0..5).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(5).await;
    seat.end(&taken, &Outcome::Ack).await;
    seat.leave().await;

    let mut flow = stage.flow();
    flow.client.options.insert("auto.offset.reset".to_owned(), "error".to_owned());
    let mut seat = Seat::new(flow).await;
    let why = raised(&seat, "cannot_read").await;
    assert!(why.contains(&format!("`{name}` does not read {name}/0", name = stage.name)), "{why}");
    assert!(why.contains("`auto.offset.reset`") && why.contains("--reset-offsets"), "{why}");
    stage.produce(&stage.name, 0, 5..10).await;
    stage.produce(&stage.name, 1, 10..15).await;
    let taken = seat.take(5).await;
    assert_eq!(numbers(&taken), (10..15).collect::<Vec<_>>());
    seat.end(&taken, &Outcome::Ack).await;
    assert!(alarm(&seat, "cannot_read").is_some(), "the others being read is no news of this one");
    seat.leave().await;

    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(5).await;
    assert_eq!(numbers(&taken), (5..10).collect::<Vec<_>>());
    assert_eq!(seat.broker.alarms(), []);
    seat.end(&taken, &Outcome::Ack).await;
    seat.leave().await;
}

/// A right that is missing cannot be had from the Kafka of the tests, which asks nobody for rights: it is librdkafka's own
/// imitation of a cluster that refuses here.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_said_and_read_once_it_may() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", 1, 1).unwrap();
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    let errors = vec![refused; 1_000];
    cluster.request_errors(RDKafkaApiKey::Fetch, &errors);
    let mut flow = KafkaFlow::new("orders", &cluster.bootstrap_servers(), "orders", "worker");
    flow.delay = redrive_kafka::DelayMode::Ledger;
    flow.settle = redrive_kafka::SettleMode::Plain;
    let mut seat = Seat::new(flow).await;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    let producer: rdkafka::producer::FutureProducer = config.create().unwrap();
    let record = FutureRecord::to("orders").partition(0).key("7").payload("7");
    producer.send(record, PATIENCE).await.unwrap();
    let why = raised(&seat, "cannot_read").await;
    assert!(why.contains("`worker` cannot read, and reads nothing past it"), "{why}");
    cluster.clear_request_errors(RDKafkaApiKey::Fetch);
    let taken = seat.take(1).await;
    assert_eq!(numbers(&taken), [7]);
    is_over(&seat, "cannot_read").await;
    seat.leave().await;
}
