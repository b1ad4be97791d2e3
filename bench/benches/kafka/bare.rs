//! The floor: the same reads, writes and commits by nothing but the client library.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::Measured;
use bench::numbered::number_of;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::cluster::{Cluster, Counting, PARTITIONS, PATIENCE, Taken};

/// Records of one commit: as many as a flow settles at once.
const BATCH: usize = 1_000;
/// How long a poll waits.
const POLL: Duration = Duration::from_millis(100);

/// Reads a topic as a group and knows how far it is.
struct Reader {
    consumer: BaseConsumer,
    topic: String,
    next: [Option<i64>; PARTITIONS as usize],
}

impl Reader {
    fn new(cluster: &Cluster, topic: &str, group: &str) -> Measured<Self> {
        let consumer: BaseConsumer = cluster.consumer(group).create()?;
        consumer.subscribe(&[topic])?;
        Ok(Self { consumer, topic: topic.to_owned(), next: Default::default() })
    }

    fn poll(&self, wait: Duration) -> Measured<Option<BorrowedMessage<'_>>> {
        Ok(self.consumer.poll(wait).transpose()?)
    }

    /// What to commit, once.
    fn positions(&mut self) -> Measured<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, next) in (0..).zip(&mut self.next) {
            if let Some(next) = next.take() {
                list.add_partition_offset(&self.topic, partition, Offset::Offset(next))?;
            }
        }
        Ok(list)
    }

    fn commit(&mut self, mode: CommitMode) -> Measured<()> {
        let positions = self.positions()?;
        Ok(self.consumer.commit(&positions, mode)?)
    }

    /// Commits the rest.
    fn end(&mut self) -> Measured<()> {
        if self.next.iter().any(Option::is_some) { self.commit(CommitMode::Sync) } else { Ok(()) }
    }
}

/// Reads so many records and commits after each thousand, without waiting for that.
pub(crate) fn read(cluster: &Cluster, topic: &str, records: u64) -> Measured<Duration> {
    let mut reader = Reader::new(cluster, topic, &cluster.name("bare"))?;
    let mut began = None;
    let mut seen = 0;
    while seen < records {
        let Some(record) = reader.poll(POLL)? else { continue };
        began.get_or_insert_with(Instant::now);
        black_box(record.payload());
        let (partition, offset) = (record.partition(), record.offset());
        drop(record);
        reader.next[partition as usize] = Some(offset + 1);
        seen += 1;
        if seen % BATCH as u64 == 0 {
            reader.commit(CommitMode::Async)?;
        }
    }
    reader.end()?;
    Ok(began.map_or(Duration::ZERO, |began| began.elapsed()))
}

/// What the bare loop of retries does.
#[derive(Clone)]
pub(crate) struct Settling {
    pub(crate) topic: String,
    /// Where what fails goes.
    pub(crate) target: String,
    pub(crate) records: u64,
    /// One in how many fails.
    pub(crate) every: u64,
    /// After how long what has failed is read again; nothing when it is not.
    pub(crate) delay: Option<Duration>,
}

/// Reads all, diverts what fails in transactions with the offsets of its batch, and reads that again when its time comes.
pub(crate) fn settle(cluster: &Arc<Cluster>, work: &Settling) -> Measured<Duration> {
    let again = work.delay.map(|delay| {
        let (cluster, work) = (Arc::clone(cluster), work.clone());
        std::thread::spawn(move || read_again(&cluster, &work, delay))
    });
    let began = divert(cluster, work)?;
    if let Some(again) = again {
        again.join().map_err(|_| "the bare loop has panicked")??;
    }
    Ok(began.elapsed())
}

fn divert(cluster: &Cluster, work: &Settling) -> Measured<Instant> {
    let name = cluster.name("bare");
    let mut reader = Reader::new(cluster, &work.topic, &name)?;
    let context = Counting::default();
    let taken = Arc::clone(&context.0);
    let producer: ThreadedProducer<Counting> = cluster
        .client()
        .set("transactional.id", &name)
        .set("linger.ms", "0")
        .set("retry.backoff.ms", "2")
        .create_with_context(context)?;
    producer.init_transactions(PATIENCE)?;
    let mut began = None;
    let (mut seen, mut sent) = (0, 0);
    while seen < work.records {
        let end = (seen + BATCH as u64).min(work.records);
        let mut failed: Vec<(i32, Option<Vec<u8>>, Vec<u8>)> = Vec::new();
        while seen < end {
            let Some(record) = reader.poll(POLL)? else { continue };
            began.get_or_insert_with(Instant::now);
            let value = record.payload();
            if number_of(value).is_some_and(|number| number.is_multiple_of(work.every)) {
                let key = record.key().map(<[u8]>::to_vec);
                failed.push((record.partition(), key, value.unwrap_or_default().to_vec()));
            }
            let (partition, offset) = (record.partition(), record.offset());
            drop(record);
            reader.next[partition as usize] = Some(offset + 1);
            seen += 1;
        }
        if failed.is_empty() {
            reader.commit(CommitMode::Sync)?;
            continue;
        }
        producer.begin_transaction()?;
        for (partition, key, value) in &failed {
            let record = BaseRecord::to(&work.target).partition(*partition).payload(value);
            let record = if let Some(key) = key { record.key(key) } else { record };
            producer.send(record).map_err(|(error, _)| error)?;
        }
        sent += failed.len() as u64;
        deliveries(&taken, sent)?;
        let positions = reader.positions()?;
        let group = reader.consumer.group_metadata().ok_or("the bare loop is in no group")?;
        producer.send_offsets_to_transaction(&positions, &group, PATIENCE)?;
        producer.commit_transaction(PATIENCE)?;
    }
    Ok(began.unwrap_or_else(Instant::now))
}

fn deliveries(taken: &Taken, sent: u64) -> Measured<()> {
    while taken.taken.load(Ordering::Acquire) < sent {
        if taken.refused.load(Ordering::Acquire) > 0 {
            return Err("a record of the bare loop was refused".into());
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn read_again(cluster: &Cluster, work: &Settling, delay: Duration) -> Measured<()> {
    let mut reader = Reader::new(cluster, &work.target, &cluster.name("bare"))?;
    let (mut seen, expected) = (0, work.records.div_ceil(work.every));
    while seen < expected {
        let Some(record) = reader.poll(POLL)? else { continue };
        let due = record.timestamp().to_millis().unwrap_or_default() + i64::try_from(delay.as_millis())?;
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let wait = u64::try_from(due.saturating_sub(now)).unwrap_or_default();
        if wait > 0 {
            std::thread::sleep(Duration::from_millis(wait));
        }
        black_box(record.payload());
        let (partition, offset) = (record.partition(), record.offset());
        drop(record);
        reader.next[partition as usize] = Some(offset + 1);
        seen += 1;
        if seen % BATCH as u64 == 0 {
            reader.commit(CommitMode::Async)?;
        }
    }
    reader.end()
}
