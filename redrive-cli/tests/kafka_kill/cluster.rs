//! The side of Kafka: a source with messages in it, and what readers find in the topics of the flow.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::TopicPartitionList;
use testkit::Services;
pub(crate) use testkit::kafka::eventually;
use testkit::kafka::{Kafka, unique};
use testkit::services::{Kind, Server};

/// The limit of one question.
const ANSWER: Duration = Duration::from_secs(10);

/// A copy that waits, or has waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hop {
    pub(crate) id: String,
    /// How many attempts were made before it.
    pub(crate) attempt: String,
    pub(crate) topic: String,
    /// The topics that it still has to pass.
    pub(crate) rest: String,
}

/// A header's value; nothing where there is none.
fn header(record: &OwnedMessage, key: &str) -> String {
    let found = record.headers().and_then(|all| all.iter().find(|header| header.key == key));
    found
        .and_then(|header| header.value)
        .map_or_else(String::new, |value| String::from_utf8_lossy(value).into_owned())
}

/// A Kafka, and a name that no other test uses.
pub(crate) struct Cluster {
    pub(crate) name: String,
    server: Server,
    _services: Services,
}

impl Cluster {
    /// On the Kafka that all tests share. Nothing where a run does without faults, or there is no Kafka to be had.
    pub(crate) fn shared(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.kafka()?;
        Some(Self { name: unique(test), server, _services: services })
    }

    /// On a Kafka of its own, to be killed.
    pub(crate) fn own(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.own(Kind::Kafka)?;
        server.ours_to_break().then(|| Self { name: unique(test), server, _services: services })
    }

    pub(crate) fn bootstrap(&self) -> &str {
        self.server.address()
    }

    fn kafka(&self) -> Kafka {
        Kafka::at(self.bootstrap())
    }

    fn client(&self) -> ClientConfig {
        self.kafka().config()
    }

    /// Makes the source, and waits until it can be written to.
    pub(crate) fn make_source(&self, partitions: i32) {
        self.kafka().topic(&self.name, partitions, &[]);
    }

    /// Writes messages, each with its id and its body, to all partitions in turn.
    pub(crate) fn produce(&self, messages: &[(String, &str)], partitions: i32) {
        let place = |(place, (id, body))| (id, id, body, place % partitions);
        let all: Vec<_> =
            (0..).zip(messages.iter().map(|(id, body)| (id.as_str(), *body))).map(place).collect();
        self.produce_keyed(&all);
    }

    /// Writes messages: their ids, keys, bodies and partitions.
    pub(crate) fn produce_keyed(&self, messages: &[(&str, &str, &str, i32)]) {
        let mut config = self.client();
        config.set("enable.idempotence", "true").set("message.timeout.ms", "280000");
        let producer: FutureProducer = config.create().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut sent = Vec::new();
            for (id, key, body, partition) in messages {
                let headers = OwnedHeaders::new().insert(Header { key: "message-id", value: Some(*id) });
                let record = FutureRecord::to(&self.name)
                    .partition(*partition)
                    .key(*key)
                    .payload(*body)
                    .headers(headers);
                sent.push(producer.send_result(record).map_err(|(error, _)| error).unwrap());
            }
            for one in sent {
                one.await.unwrap().unwrap();
            }
        });
    }

    /// How often each message is found in a topic by a reader of committed records.
    pub(crate) fn found(&self, suffix: &str) -> BTreeMap<String, usize> {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.kafka().read(&format!("{}{suffix}", self.name)) {
            *found.entry(header(&record, "message-id")).or_default() += 1;
        }
        found
    }

    /// What a reader of committed records finds in the flow's delay topics.
    pub(crate) fn hops(&self) -> Vec<Hop> {
        let looking: BaseConsumer = self.client().create().unwrap();
        let (levels, single) = (format!("{}.retry.", self.name), format!("{}-retry", self.name));
        let all = eventually("the names of all topics", || {
            looking.fetch_metadata(None, ANSWER).map_err(|error| error.to_string())
        });
        let of_flow = all.topics().iter().filter(|topic| {
            let name = topic.name();
            name.starts_with(&levels) || name == single
        });
        let is_used = |topic: &str, partition: i32| {
            let ends = eventually("the ends of a partition", || {
                looking.fetch_watermarks(topic, partition, ANSWER).map_err(|error| error.to_string())
            });
            ends.0 < ends.1
        };
        // To read a topic takes a while, and most levels are for other waits.
        let used = of_flow
            .filter(|topic| topic.partitions().iter().any(|partition| is_used(topic.name(), partition.id())));
        let records = used.flat_map(|topic| self.kafka().read(topic.name()));
        records
            .map(|record| Hop {
                id: header(&record, "message-id"),
                attempt: header(&record, "x-retry-attempt"),
                topic: record.topic().to_owned(),
                rest: header(&record, "x-delay-route"),
            })
            .collect()
    }

    /// Kills the broker and starts it again; waits until it answers, and the coordinator of the flow's group with it.
    pub(crate) fn kill_and_start(&self) {
        self.server.kill();
        self.server.start();
        let consumer: BaseConsumer = self.client().set("group.id", &self.name).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.name, 0);
        eventually("the broker answers", || {
            consumer.fetch_metadata(Some(&self.name), ANSWER).map(drop).map_err(|error| error.to_string())
        });
        eventually("the coordinator of the group answers", || {
            let found =
                consumer.committed_offsets(list.clone(), ANSWER).map_err(|error| error.to_string())?;
            for one in found.elements() {
                one.error().map_err(|error| error.to_string())?;
            }
            Ok(())
        });
    }
}
