//! A Kafka for this run, its topics, and records in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench::{Measured, numbered};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use testkit::Services;
use testkit::services::{Kind, Server};

/// Partitions of every topic.
pub(crate) const PARTITIONS: i32 = 8;
/// Over so many keys the records are spread.
const KEYS: u64 = 1_000;
/// How long the broker may take over anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A broker of this run alone.
pub(crate) struct Cluster {
    pub(crate) bootstrap: String,
    names: AtomicU64,
    /// It ends with this; nothing when another process has started it.
    #[expect(dead_code, reason = "it is kept for its end")]
    server: Option<Server>,
}

/// Counts what the broker has taken.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) taken: AtomicU64,
    pub(crate) refused: AtomicU64,
}

#[derive(Clone, Default)]
pub(crate) struct Counting(pub(crate) Arc<Taken>);

impl rdkafka::ClientContext for Counting {}

impl ProducerContext for Counting {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let count = if result.is_ok() { &self.0.taken } else { &self.0.refused };
        count.fetch_add(1, Ordering::Release);
    }
}

impl Cluster {
    /// Starts it.
    pub(crate) fn start() -> Measured<Self> {
        let server = Services::connect().own(Kind::Kafka).ok_or("there is no Kafka to be had")?;
        let bootstrap = server.address().to_owned();
        Ok(Self { server: Some(server), ..Self::at(&bootstrap) })
    }

    /// One that another process has started.
    pub(crate) fn at(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned(), names: AtomicU64::new(1), server: None }
    }

    /// A name that nothing has yet.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}-{}-{}", std::process::id(), self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// What every client has.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("broker.address.family", "v4");
        config.set_log_level(RDKafkaLogLevel::Error);
        config
    }

    /// A member of a group that reads what is committed, from the beginning, and commits itself.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config
            .set("group.id", group)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest");
        config
    }

    /// Makes topics, and waits until they can be written to.
    pub(crate) async fn topics(&self, topics: &[&str]) -> Measured<()> {
        let admin: AdminClient<DefaultClientContext> = self.client().create()?;
        let new: Vec<NewTopic<'_>> =
            topics.iter().map(|topic| NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1))).collect();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        for made in admin.create_topics(&new, &options).await? {
            made.map_err(|(topic, error)| format!("cannot make the topic `{topic}`: {error}"))?;
        }
        for topic in topics {
            while admin.inner().fetch_metadata(Some(topic), PATIENCE)?.topics()[0].partitions().len()
                < PARTITIONS as usize
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// A topic with so many numbered records.
    pub(crate) async fn filled(&self, what: &str, records: u64) -> Measured<String> {
        let topic = self.name(what);
        self.topics(&[&topic]).await?;
        let writer = self.writer()?;
        let to = topic.clone();
        tokio::task::spawn_blocking(move || {
            for number in 0..records {
                writer.write(&to, number)?;
            }
            writer.end()
        })
        .await??;
        Ok(topic)
    }

    /// Writes numbered records.
    pub(crate) fn writer(&self) -> Measured<Writer> {
        let context = Counting::default();
        let taken = Arc::clone(&context.0);
        let producer = self
            .client()
            .set("linger.ms", "2")
            .set("batch.size", "500000")
            .set("queue.buffering.max.messages", "200000")
            .create_with_context(context)?;
        Ok(Writer { producer, taken })
    }
}

/// Writes records.
pub(crate) struct Writer {
    producer: ThreadedProducer<Counting>,
    taken: Arc<Taken>,
}

impl Writer {
    /// Writes one to its partition; waits while too many are under way.
    pub(crate) fn write(&self, topic: &str, number: u64) -> Measured<()> {
        let (value, key) = (numbered::body(number), (number % KEYS).to_string());
        // A key is always in the same partition.
        let partition = (number % KEYS) as i32 % PARTITIONS;
        loop {
            let record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value[..]);
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Waits until the broker has all.
    pub(crate) fn end(&self) -> Measured<()> {
        self.producer.flush(PATIENCE)?;
        match self.taken.refused.load(Ordering::Acquire) {
            0 => Ok(()),
            refused => Err(format!("{refused} records were not taken").into()),
        }
    }
}
