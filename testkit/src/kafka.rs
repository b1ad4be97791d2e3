//! A client of Kafka for tests: topics, and what a reader finds in them. It blocks; from async code it is called where that
//! is allowed.

#![expect(clippy::missing_panics_doc, reason = "a test that cannot have its topic fails, and says why")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// The limit of every wait: the machine may be busy, and a broker may be coming back.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// The limit of one question.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a transaction is left open at most.
const OPEN: Duration = Duration::from_secs(12);

/// Asks again and again until there is an answer.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(found) if Instant::now() >= until => panic!("waited in vain for {what}; found {found}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A name that no other test uses.
pub fn unique(test: &str) -> String {
    format!("{test}-{}", uuid::Uuid::now_v7().simple())
}

/// A Kafka, by its address.
#[derive(Debug, Clone)]
pub struct Kafka {
    address: String,
    copies: i32,
}

impl Kafka {
    /// The one at an address; its topics have one copy.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), copies: 1 }
    }

    /// The same with so many copies of each new topic.
    #[must_use]
    pub fn with_copies(self, copies: i32) -> Self {
        Self { copies, ..self }
    }

    /// What every client of it is made with.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("broker.address.family", "v4");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// Makes a topic, and waits until it can be written to.
    pub fn topic(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin = self.admin();
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(self.copies));
        for (name, value) in settings {
            new = new.set(name, value);
        }
        eventually(&format!("the topic {topic}"), || {
            match block_on(admin.create_topics([&new], &options())).map_err(shown)?.first() {
                Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => {
                    let found = admin.inner().fetch_metadata(Some(topic), ANSWER).map_err(shown)?;
                    let there = found.topics().first().map_or(0, |topic| topic.partitions().len());
                    if i32::try_from(there) == Ok(partitions) {
                        Ok(())
                    } else {
                        Err(format!("{there} partitions"))
                    }
                }
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Deletes the topics whose names begin so, as far as that can be done: a broker with thousands of them is slow for all
    /// others.
    pub fn delete_all(&self, prefix: &str) {
        let admin = self.admin();
        let Ok(found) = admin.inner().fetch_metadata(None, ANSWER) else { return };
        let topics = found.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
        let names: Vec<&str> = topics.filter(|name| name.starts_with(prefix)).collect();
        if !names.is_empty() {
            // Nobody waits for it.
            let _ = block_on(admin.delete_topics(&names, &AdminOptions::new()));
        }
    }

    /// Drops what lies before an offset of a partition, as retention does; all of it at [`Offset::End`].
    pub fn drop_before(&self, topic: &str, partition: i32, offset: Offset) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, offset).unwrap();
        block_on(self.admin().delete_records(&list, &options())).unwrap();
    }

    /// What a reader of committed records finds in a topic now.
    pub fn read(&self, topic: &str) -> Vec<OwnedMessage> {
        self.read_as(topic, "read_committed")
    }

    /// What a reader finds in a topic now, by its isolation level. A topic that is not there yet is waited for.
    pub fn read_as(&self, topic: &str, isolation: &str) -> Vec<OwnedMessage> {
        let consumer: BaseConsumer = self
            .config()
            .set("group.id", "onlooker")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .set("fetch.message.max.bytes", "8000000")
            .create()
            .unwrap();
        let partitions = eventually(&format!("the topic {topic}"), || {
            let found = consumer.fetch_metadata(Some(topic), ANSWER).map_err(shown)?;
            let partitions = found.topics().first().map_or(0, |topic| topic.partitions().len());
            if partitions > 0 { Ok(partitions) } else { Err("no partitions".to_owned()) }
        });
        let mut all = TopicPartitionList::new();
        for partition in 0..i32::try_from(partitions).unwrap() {
            all.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        if isolation == "read_committed" {
            self.until_readable(&consumer, topic, partitions);
        }
        consumer.assign(&all).unwrap();
        let (mut ends, mut found) = (BTreeSet::new(), Vec::new());
        let until = Instant::now() + PATIENCE;
        while ends.len() < partitions {
            assert!(Instant::now() < until, "{topic} cannot be read to its end");
            match consumer.poll(Duration::from_millis(200)) {
                Some(Ok(record)) => found.push(record.detach()),
                Some(Err(KafkaError::PartitionEOF(partition))) => _ = ends.insert(partition),
                // A broker that comes back is not there at once.
                Some(Err(_)) | None => {}
            }
        }
        consumer.unassign().unwrap();
        found
    }

    /// A commit is answered before its end is written everywhere: waits until this reader of committed records gets as far
    /// as anybody, or for as long as a transaction may be left open.
    fn until_readable(&self, committed: &BaseConsumer, topic: &str, partitions: usize) {
        let config = self.config();
        let any: BaseConsumer = config.clone().set("isolation.level", "read_uncommitted").create().unwrap();
        for partition in 0..i32::try_from(partitions).unwrap() {
            let end = |consumer: &BaseConsumer| {
                consumer.fetch_watermarks(topic, partition, ANSWER).map(|(_, end)| end).map_err(shown)
            };
            let written = eventually(&format!("the end of {topic}"), || end(&any));
            let until = Instant::now() + OPEN;
            while end(committed).is_ok_and(|readable| readable < written) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

fn shown(error: KafkaError) -> String {
    error.to_string()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
