//! What the tests of this adapter share: topics, records, a reader, and patience.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message as _, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use redrive_core::Timestamp;
use redrive_engine::port::{
    Broker, Clock, Delivery, Outcome, PortError, Room, Settled, Settlement, Source, Subscription, SystemClock,
};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow};
use testkit::Services;
use testkit::kafka::{Kafka, unique};
use testkit::services::{Kind, Server};

/// The limit of every wait: the machine may be busy, and a broker may be coming back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A Kafka and a name that no other test uses.
pub(crate) struct Stage {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
    shared: bool,
    /// How many copies each topic has.
    copies: i32,
    #[allow(dead_code, reason = "kept, since the servers go with it; some tests ask it for more")]
    pub(crate) services: Services,
}

/// The topics of a test go with it, where the broker does not.
impl Drop for Stage {
    fn drop(&mut self) {
        if self.shared {
            let (kafka, name) = (self.kafka(), self.name.clone());
            // On a thread of its own: a test's runtime may be this one.
            let _ = std::thread::spawn(move || kafka.delete_all(&name)).join();
        }
    }
}

impl Stage {
    /// On the Kafka that all tests share.
    pub(crate) fn shared(test: &str) -> Option<Self> {
        let services = Services::connect();
        let server = Arc::new(services.kafka()?);
        Some(Self { server, name: unique(test), shared: true, copies: 1, services })
    }

    /// On a Kafka of its own, to be broken.
    pub(crate) fn own(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.own(Kind::Kafka)?;
        Self::ours(services, server, test, 1)
    }

    /// On a Kafka of its own with these settings; none where one was given, whose settings are its owner's.
    pub(crate) fn with_settings(test: &str, settings: &str) -> Option<Self> {
        let services = Services::connect();
        let server = services.kafka_with(settings)?;
        Self::ours(services, server, test, 1)
    }

    /// On three brokers of its own, to be broken; each topic is on all of them.
    pub(crate) fn cluster(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.kafka_cluster(3)?;
        Self::ours(services, server, test, 3)
    }

    /// On a server that goes with the test; none where it was given.
    fn ours(services: Services, server: Server, test: &str, copies: i32) -> Option<Self> {
        let ours = server.ours_to_break();
        ours.then(|| Self { server: Arc::new(server), name: unique(test), shared: false, copies, services })
    }

    /// Orders the server about. That takes its time, and everything else goes on meanwhile.
    pub(crate) async fn order(&self, order: impl FnOnce(&Server) + Send + 'static) {
        let server = Arc::clone(&self.server);
        tokio::task::spawn_blocking(move || order(&server)).await.unwrap();
    }

    pub(crate) fn config(&self) -> ClientConfig {
        self.kafka().config()
    }

    fn kafka(&self) -> Kafka {
        Kafka::at(self.server.address()).with_copies(self.copies)
    }

    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// Makes a topic, and waits until it can be written to.
    pub(crate) async fn topic(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let (kafka, topic) = (self.kafka(), topic.to_owned());
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let made = tokio::task::spawn_blocking(move || {
            let settings: Vec<(&str, &str)> =
                settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            kafka.topic(&topic, partitions, &settings);
        });
        made.await.unwrap();
    }

    /// Sets one setting of a topic, and waits until it holds.
    pub(crate) async fn alter(&self, topic: &str, name: &str, value: &str) {
        let admin = self.admin();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
        let altered = admin.alter_configs([&change], &options).await.unwrap();
        assert!(altered.iter().all(Result::is_ok), "{altered:?}");
        let asked = ResourceSpecifier::Topic(topic);
        eventually("a setting holds", async || {
            let found = admin.describe_configs([&asked], &options).await.ok()?;
            let found = found.into_iter().next()?.ok()?;
            (found.get(name)?.value.as_deref() == Some(value)).then_some(())
        })
        .await;
    }

    /// Deletes a topic and makes it anew, empty.
    pub(crate) async fn make_anew(&self, topic: &str, partitions: i32) {
        let admin = self.admin();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let deleted = admin.delete_topics(&[topic], &options).await.unwrap();
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
        eventually("a topic is made anew", async || {
            let made = NewTopic::new(topic, partitions, TopicReplication::Fixed(self.copies));
            let made = admin.create_topics([&made], &options).await.ok()?;
            made.first()?.is_ok().then_some(())
        })
        .await;
    }

    /// Drops what lies before an offset, as retention does.
    pub(crate) async fn drop_before(&self, topic: &str, partition: i32, offset: i64) {
        let (kafka, topic) = (self.kafka(), topic.to_owned());
        let dropped = tokio::task::spawn_blocking(move || {
            kafka.drop_before(&topic, partition, Offset::Offset(offset));
        });
        dropped.await.unwrap();
    }

    /// The source, dead letters and parking of a flow.
    pub(crate) async fn topics(&self, partitions: i32) {
        self.topic(&self.name, partitions, &[]).await;
        self.topic(&format!("{}.dlq", self.name), partitions, &[]).await;
        self.topic(&format!("{}.parking", self.name), partitions, &[]).await;
    }

    /// A flow on this stage that reads its source alone.
    pub(crate) fn flow(&self) -> KafkaFlow {
        let mut flow = KafkaFlow::new(&self.name, self.server.address(), &self.name, &self.name);
        flow.delay = DelayMode::Ledger;
        flow.client.options.insert("topic.metadata.refresh.interval.ms".to_owned(), "1000".to_owned());
        flow
    }

    pub(crate) fn producer(&self) -> FutureProducer {
        let mut config = self.config();
        config.set("message.max.bytes", "8000000").set("message.timeout.ms", "120000");
        config.set("enable.idempotence", "true").create().unwrap()
    }

    /// Writes numbered records to one partition: `<from>`, `<from + 1>`…
    pub(crate) async fn produce(&self, topic: &str, partition: i32, bodies: std::ops::Range<usize>) {
        let producer = self.producer();
        let bodies: Vec<String> = bodies.map(|number| number.to_string()).collect();
        let sent: Vec<_> = bodies
            .iter()
            .map(|body| {
                let record = FutureRecord::to(topic).partition(partition).key(body).payload(body);
                producer.send_result(record).map_err(|(error, _)| error).unwrap()
            })
            .collect();
        for one in sent {
            one.await.unwrap().unwrap();
        }
    }

    /// Everything that a reader of committed records finds in a topic now.
    pub(crate) async fn read(&self, topic: &str) -> Vec<OwnedMessage> {
        self.read_with(topic, "read_committed").await
    }

    /// Everything in a topic now, by isolation level.
    pub(crate) async fn read_with(&self, topic: &str, isolation: &'static str) -> Vec<OwnedMessage> {
        let (kafka, topic) = (self.kafka(), topic.to_owned());
        tokio::task::spawn_blocking(move || kafka.read_as(&topic, isolation)).await.unwrap()
    }

    /// Waits until the brokers answer, all copies are in step, and so do the coordinators of groups and of transactions.
    pub(crate) async fn answers(&self) {
        let (config, topic, copies) = (self.config(), self.name.clone(), self.copies as usize);
        tokio::task::spawn_blocking(move || {
            let limit = Duration::from_secs(10);
            let consumer: BaseConsumer = config.clone().set("group.id", &topic).create().unwrap();
            patiently("all copies are in step", || {
                let found = consumer.fetch_metadata(None, limit).ok()?;
                let in_step = |one: &rdkafka::metadata::MetadataPartition| {
                    one.leader() >= 0 && one.error().is_none() && one.isr().len() >= copies
                };
                let topics = found.topics();
                let known = topics.iter().any(|one| one.name() == topic);
                let all = topics.iter().all(|one| one.partitions().iter().all(in_step));
                (known && all).then_some(())
            });
            let mut list = TopicPartitionList::new();
            list.add_partition(&topic, 0);
            patiently("the coordinator of the group answers", || {
                let found = consumer.committed_offsets(list.clone(), limit).ok()?;
                found.elements().iter().all(|one| one.error().is_ok()).then_some(())
            });
            patiently("the coordinator of transactions answers", || {
                let id = format!("{topic}-{}", uuid::Uuid::now_v7().simple());
                let producer: BaseProducer = config.clone().set("transactional.id", id).create().ok()?;
                producer.init_transactions(limit).ok()
            });
        })
        .await
        .unwrap();
    }

    /// What a group has committed for a partition: the offset and its text.
    pub(crate) async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<(i64, String)> {
        let (mut config, topic) = (self.config(), topic.to_owned());
        config.set("group.id", group);
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let mut list = TopicPartitionList::new();
            list.add_partition(&topic, partition);
            let found = patiently("the group answers", || {
                consumer.committed_offsets(list.clone(), Duration::from_secs(10)).ok()
            });
            let one = found.find_partition(&topic, partition)?;
            match one.offset() {
                Offset::Offset(offset) => Some((offset, one.metadata().to_owned())),
                _ => None,
            }
        })
        .await
        .unwrap()
    }
}

impl Stage {
    /// Behind the last offset of a partition.
    pub(crate) async fn end(&self, topic: &str, partition: i32) -> i64 {
        let (mut config, topic) = (self.config(), topic.to_owned());
        config.set("group.id", "onlooker");
        tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            patiently("the end of a partition", || {
                let found = consumer.fetch_watermarks(&topic, partition, Duration::from_secs(10));
                found.ok().map(|(_, end)| end)
            })
        })
        .await
        .unwrap()
    }
}

/// Asks until there is an answer. Blocks.
pub(crate) fn patiently<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A clock at which the threads that read stand still on demand, as those of a process that gets no time.
#[derive(Debug, Default)]
pub(crate) struct StillClock {
    clock: SystemClock,
    still: Mutex<bool>,
    changed: Condvar,
}

impl StillClock {
    /// From now on they stand still, or go on.
    pub(crate) fn stand_still(&self, still: bool) {
        *self.still.lock().unwrap() = still;
        self.changed.notify_all();
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().name().is_some_and(|name| name.starts_with("read ")) {
            drop(self.changed.wait_while(self.still.lock().unwrap(), |still| *still).unwrap());
        }
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// A member of a flow: its broker and what it reads.
pub(crate) struct Seat {
    pub(crate) broker: Arc<KafkaBroker>,
    pub(crate) source: Box<dyn Source>,
}

impl Seat {
    pub(crate) async fn new(flow: KafkaFlow) -> Self {
        Self::with_clock(flow, Arc::new(SystemClock::default())).await
    }

    pub(crate) async fn with_clock(flow: KafkaFlow, clock: Arc<dyn Clock>) -> Self {
        let subscription = Subscription::new(flow.flow.clone(), flow.topics.first().unwrap().as_str());
        let broker = Arc::new(KafkaBroker::with_clock(flow, clock).unwrap());
        let source = broker.subscribe(&subscription).await.unwrap();
        Self { broker, source }
    }

    /// So many deliveries, in the order in which they come.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Delivery> {
        let deadline = Instant::now() + PATIENCE;
        let mut taken = Vec::new();
        while taken.len() < count {
            let room = Room::of(count - taken.len());
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.source.receive(room, &mut taken)).await {
                Ok(Ok(()) | Err(PortError::Unavailable(_))) => {}
                Ok(Err(error)) => panic!("{error}"),
                Err(late) => panic!("only {} of {count} came: {late}", taken.len()),
            }
        }
        taken
    }

    /// What comes within a moment.
    pub(crate) async fn take_now(&mut self, most: usize) -> Vec<Delivery> {
        let mut taken = Vec::new();
        let receive = self.source.receive(Room::of(most), &mut taken);
        let _ = tokio::time::timeout(Duration::from_millis(20), receive).await;
        taken
    }

    pub(crate) async fn settle(
        &self,
        deliveries: &[Delivery],
        outcome: &Outcome,
    ) -> Vec<Result<Settled, PortError>> {
        let batch: Vec<Settlement> =
            deliveries.iter().map(|one| Settlement::plain(one.clone(), outcome.clone())).collect();
        self.broker.settle(&batch).await
    }

    /// Ends them all, and again while Kafka does not answer, as the engine does.
    pub(crate) async fn end(&self, deliveries: &[Delivery], outcome: &Outcome) -> Vec<Settled> {
        let mut settled: Vec<Option<Settled>> = vec![None; deliveries.len()];
        eventually("everything is settled", async || {
            let open: Vec<usize> = (0..settled.len()).filter(|place| settled[*place].is_none()).collect();
            let batch: Vec<Delivery> = open.iter().map(|place| deliveries[*place].clone()).collect();
            for (place, answer) in open.iter().zip(self.settle(&batch, outcome).await) {
                match answer {
                    Ok(one) => settled[*place] = Some(one),
                    Err(PortError::Unavailable(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            settled.iter().all(Option::is_some).then_some(())
        })
        .await;
        settled.into_iter().flatten().collect()
    }

    /// Leaves in an orderly way.
    pub(crate) async fn leave(mut self) {
        self.source.close().await;
        drop(self.source);
        let broker = self.broker;
        tokio::task::spawn_blocking(move || drop(broker)).await.unwrap();
    }
}

/// The bodies of deliveries as numbers.
pub(crate) fn numbers(deliveries: &[Delivery]) -> Vec<usize> {
    let body = |one: &Delivery| String::from_utf8(one.message.body.clone().unwrap().to_vec()).unwrap();
    deliveries.iter().map(|one| body(one).parse().unwrap()).collect()
}

/// The bodies of records as numbers, sorted.
pub(crate) fn sorted(records: &[OwnedMessage]) -> Vec<usize> {
    let body = |one: &OwnedMessage| String::from_utf8(one.payload().unwrap().to_vec()).unwrap();
    let mut all: Vec<usize> = records.iter().map(|one| body(one).parse().unwrap()).collect();
    all.sort_unstable();
    all
}

/// Headers as Kafka has them.
pub(crate) fn headers(all: &[(&str, Option<&[u8]>)]) -> OwnedHeaders {
    all.iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: *value }))
}
