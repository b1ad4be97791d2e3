//! A real Kafka for the tests of this crate's inside, and what they put into it.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::CommitMode;
use rdkafka::producer::{BaseProducer, BaseRecord, FutureProducer, FutureRecord, Producer as _};
use redrive_core::Headers;
use testkit::Services;
use testkit::services::Server;

use super::*;
use crate::record;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A Kafka, and a flow of its own on it.
pub(crate) struct Place {
    _services: Services,
    server: Server,
    pub(crate) flow: KafkaFlow,
}

impl Place {
    /// None, and reported, when no Kafka can be had.
    pub(crate) fn new() -> Option<Self> {
        let services = Services::connect();
        let server = services.kafka()?;
        let name = format!("f{}", uuid::Uuid::now_v7().simple());
        let mut flow = KafkaFlow::new(&name, server.address(), &format!("{name}.source"), &name);
        flow.steps = vec![Duration::from_secs(10)];
        flow.longest_delay = Duration::from_secs(60);
        Some(Self { _services: services, server, flow })
    }

    pub(crate) fn look(&self) -> Arc<Look> {
        Look::new(&self.flow, Arc::default())
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.server.address()).set("broker.address.family", "v4");
        config.set("message.timeout.ms", "120000").set("message.max.bytes", "20000000");
        config
    }

    pub(crate) async fn topic(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = client::admin(&self.flow.client).unwrap();
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        let options = AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT));
        let made = admin.create_topics([&new], &options).await.unwrap();
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        let (look, name) = (self.look(), topic.to_owned());
        let deadline = Instant::now() + LIMIT;
        // It is there when every partition can be asked for its ends.
        loop {
            let name = name.clone();
            let known = look.ask(move |consumer| {
                (0..partitions)
                    .map(|partition| ends(consumer, &name, partition))
                    .collect::<Result<Vec<_>, _>>()
            });
            if known.await.is_ok_and(|ends| ends.iter().all(Option::is_some)) {
                break;
            }
            assert!(Instant::now() < deadline, "the topic {topic} does not come");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::task::spawn_blocking(move || drop(admin)).await.unwrap();
    }

    /// The flow's source, with so many partitions.
    pub(crate) async fn source(&self, partitions: i32) {
        self.topic(&self.flow.topics[0], partitions, &[]).await;
    }

    /// Writes records, and tells their offsets.
    pub(crate) async fn write(
        &self,
        topic: &str,
        partition: i32,
        records: Vec<(Option<&str>, Headers)>,
    ) -> Vec<i64> {
        let producer: FutureProducer = self.config().set("acks", "all").create().unwrap();
        let mut offsets = Vec::new();
        for (body, headers) in records {
            let record: FutureRecord<'_, str, str> =
                FutureRecord::to(topic).partition(partition).key("key").headers(record::to_kafka(&headers));
            let record = match body {
                Some(body) => record.payload(body),
                None => record,
            };
            offsets.push(producer.send(record, LIMIT).await.unwrap().offset);
        }
        tokio::task::spawn_blocking(move || drop(producer)).await.unwrap();
        offsets
    }

    /// Writes one record of a certain time.
    pub(crate) async fn write_at(&self, topic: &str, partition: i32, body: &str, at: i64) {
        let producer: FutureProducer = self.config().set("acks", "all").create().unwrap();
        let record = FutureRecord::to(topic).partition(partition).key("key").payload(body).timestamp(at);
        producer.send(record, LIMIT).await.unwrap();
        tokio::task::spawn_blocking(move || drop(producer)).await.unwrap();
    }

    /// Writes one record in a transaction of its own, which leaves a mark behind it.
    pub(crate) async fn write_in_transaction(&self, topic: &str, partition: i32, body: &str) {
        let mut config = self.config();
        config
            .set("message.timeout.ms", "60000")
            .set("transactional.id", format!("{}-{}", self.flow.flow, uuid::Uuid::now_v7()));
        let (topic, body) = (topic.to_owned(), body.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            let producer: BaseProducer = config.create().unwrap();
            producer.init_transactions(LIMIT).unwrap();
            producer.begin_transaction().unwrap();
            let record = BaseRecord::to(&topic).partition(partition).key("key").payload(&body);
            producer.send(record).unwrap();
            producer.commit_transaction(LIMIT).unwrap();
        });
        written.await.unwrap();
    }

    /// Commits a position for a group.
    pub(crate) async fn commit(&self, group: &str, topic: &str, partition: i32, position: &Position) {
        let (look, topic, position) = (self.look(), topic.to_owned(), position.clone());
        let committed = look.ask_as(group.to_owned(), move |consumer| {
            again("cannot commit", || {
                let mut places = TopicPartitionList::new();
                let mut place = places.add_partition(&topic, partition);
                place.set_offset(Offset::Offset(position.lowest))?;
                place.set_metadata(position.metadata());
                consumer.commit(&places, CommitMode::Sync)
            })
        });
        committed.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_told_from_none() {
    let Some(place) = Place::new() else { return };
    place.source(3).await;
    let (topic, other) = (place.flow.topics[0].clone(), format!("{}.none", place.flow.flow));
    let look = place.look();
    let found =
        look.ask(move |consumer| Ok((shape(consumer, &topic)?, shape(consumer, &other)?))).await.unwrap();
    assert_eq!(found, (Some(Shape { partitions: 3, replication: 1 }), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_group_committed_is_read_with_what_it_finished_beyond() {
    let Some(place) = Place::new() else { return };
    place.source(2).await;
    let topic = place.flow.topics[0].clone();
    let group = place.flow.groups.main.clone();
    place.write(&topic, 1, vec![(Some("x"), Headers::new()); 9]).await;
    let position = Position { lowest: 2, beyond: vec![(3, 5), (7, 8)] };
    place.commit(&group, &topic, 1, &position).await;
    let found = place.look().ask_as(group, move |consumer| committed(consumer, &topic, 2)).await.unwrap();
    assert_eq!(found, [None, Some(position)]);
}
