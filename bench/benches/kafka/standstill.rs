//! After kill -9 of a member in the middle of a transaction: how long others stand still, and how soon work goes on.
//!
//! The real binary has no points to die at. So it is made to stand still, and killed only when the broker then has records
//! of an open transaction in the DLQ: who reads what is committed does not get as far as who reads all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{Measured, Report, Unit};
use hyper::StatusCode;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster::{Cluster, PARTITIONS, PATIENCE};
use crate::endpoint::Endpoint;
use crate::member::{Member, Process};

/// Records that go to the DLQ one after the other; more than are handled before the kill.
const RECORDS: u64 = 200_000;
/// How long after the first call a process is made to stand still.
const LIVES: Duration = Duration::from_millis(700);
/// What a commit that is under way has to end in, while its process stands still.
const ENDS: Duration = Duration::from_millis(200);
/// How often a process is made to stand still until that is in a transaction, and how long it runs in between.
const TRIES: u32 = 200;
const RUNS: Duration = Duration::from_millis(7);
/// The longest that the reader is waited for.
const LIMIT: Duration = Duration::from_secs(180);
/// The key of a record that is written after the kill.
const MARK: &[u8] = b"mark";

pub(crate) async fn measure(
    arguments: &Arguments,
    cluster: &Arc<Cluster>,
    report: &mut Report,
) -> Measured<()> {
    let topic = cluster.filled("standstill", arguments.scaled(RECORDS).max(40_000)).await?;
    let (mut readers, mut calls) = (Vec::new(), Vec::new());
    let (still, call) = round(cluster, &topic, true).await?;
    readers.push(still);
    calls.extend(call);
    let what = "a reader of the DLQ stands still after kill -9 in an open transaction, restarted at once";
    report.tell("standstill_restarted", what, Unit::Millis, &readers, None);
    let what = "from the restart after kill -9 to the first call";
    report.tell("first_call", what, Unit::Millis, &calls, None);
    let (still, _) = round(cluster, &topic, false).await?;
    let what = "a reader of the DLQ stands still after kill -9 in an open transaction, nobody restarts";
    report.tell("standstill_alone", what, Unit::Millis, &[still], None);
    Ok(())
}

/// How long the reader stood still, and how long a restarted process took to its first call, in milliseconds.
async fn round(cluster: &Arc<Cluster>, topic: &str, restart: bool) -> Measured<(f64, Option<f64>)> {
    let endpoint = Endpoint::start(StatusCode::INTERNAL_SERVER_ERROR)?;
    let more = json!({ "retry": "1s", "budgets": { "attempts": 1 } });
    let member = Arc::new(Member::new(cluster, &format!("{topic}?"), &endpoint, more)?);
    let began = Instant::now();
    let process = started(&member).await?;
    let first = endpoint.called_since(began).await;
    let shelf = format!("{}.dlq", member.name);
    let (reading, of) = (Arc::clone(cluster), shelf.clone());
    let reading = tokio::task::spawn_blocking(move || until_marked(&reading, &of));
    tokio::time::sleep_until((first + LIVES).into()).await;
    let killed = killed_in_a_transaction(cluster, &shelf, process).await?;
    let (marking, of) = (Arc::clone(cluster), shelf.clone());
    let marking = tokio::task::spawn_blocking(move || mark(&marking, &of));
    let mut call = None;
    if restart {
        let again = started(&member).await?;
        let first = endpoint.called_since(killed).await;
        call = Some(first.saturating_duration_since(again.began).as_secs_f64() * 1e3);
        marking.await??;
        let still = reading.await??.saturating_duration_since(killed);
        return Ok((still.as_secs_f64() * 1e3, call));
    }
    marking.await??;
    let still = reading.await??.saturating_duration_since(killed);
    Ok((still.as_secs_f64() * 1e3, call))
}

/// Kills it once it stands still in a transaction; says when that was.
async fn killed_in_a_transaction(cluster: &Arc<Cluster>, shelf: &str, process: Process) -> Measured<Instant> {
    let ends = Arc::new(Ends::new(cluster, shelf)?);
    for _ in 0..TRIES {
        process.stand_still(true)?;
        if !open(&ends).await?.is_empty() {
            tokio::time::sleep(ENDS).await;
            let partitions = open(&ends).await?;
            if !partitions.is_empty() {
                let killed = process.kill()?;
                let (count, lengths) = (partitions.len(), partitions.iter().sum::<i64>());
                eprintln!("killed in a transaction with {lengths} records in {count} partitions of the DLQ");
                return Ok(killed);
            }
        }
        process.stand_still(false)?;
        tokio::time::sleep(RUNS).await;
    }
    Err(format!("of {TRIES} times it never stood still in a transaction").into())
}

/// How many records each partition has that who reads what is committed does not get to; those that have any.
async fn open(ends: &Arc<Ends>) -> Measured<Vec<i64>> {
    let ends = Arc::clone(ends);
    tokio::task::spawn_blocking(move || ends.open()).await?
}

/// Where a topic ends for who reads all, and for who reads what is committed.
struct Ends {
    topic: String,
    all: BaseConsumer,
    committed: BaseConsumer,
}

impl Ends {
    fn new(cluster: &Cluster, topic: &str) -> Measured<Self> {
        let reads = |isolation| cluster.client().set("isolation.level", isolation).create();
        let (all, committed) = (reads("read_uncommitted")?, reads("read_committed")?);
        Ok(Self { topic: topic.to_owned(), all, committed })
    }

    fn open(&self) -> Measured<Vec<i64>> {
        let mut open = Vec::new();
        for partition in 0..PARTITIONS {
            let (_, committed) = self.committed.fetch_watermarks(&self.topic, partition, PATIENCE)?;
            let (_, all) = self.all.fetch_watermarks(&self.topic, partition, PATIENCE)?;
            if all > committed {
                open.push(all - committed);
            }
        }
        Ok(open)
    }
}

async fn started(member: &Arc<Member>) -> Measured<Process> {
    let member = Arc::clone(member);
    tokio::task::spawn_blocking(move || member.start()).await?
}

/// Writes a mark into every partition, in no transaction.
fn mark(cluster: &Cluster, topic: &str) -> Measured<()> {
    let producer: BaseProducer = cluster.client().create()?;
    for partition in 0..PARTITIONS {
        let record = BaseRecord::to(topic).partition(partition).key(MARK).payload(MARK);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    Ok(producer.flush(PATIENCE)?)
}

/// Reads what is committed until every mark has been seen; says when that was.
fn until_marked(cluster: &Cluster, topic: &str) -> Measured<Instant> {
    let consumer: BaseConsumer = cluster.consumer(&cluster.name("onlooker")).create()?;
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&all)?;
    let mut marked = HashSet::new();
    let until = Instant::now() + LIMIT;
    while marked.len() < PARTITIONS as usize {
        if Instant::now() > until {
            return Err(format!("`{topic}` was not read to its marks within {LIMIT:?}").into());
        }
        let Some(record) = consumer.poll(Duration::from_millis(100)).transpose()? else { continue };
        if record.key() == Some(MARK) {
            marked.insert(record.partition());
        }
    }
    Ok(Instant::now())
}
