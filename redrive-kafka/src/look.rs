//! Reading beside the groups: questions about topics, and records by their place. Nothing here commits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use rdkafka::{ClientContext, TopicPartitionList};
use redrive_engine::adapter::Rules;
use redrive_engine::port::{HeaderRules, PortError};

use crate::KafkaFlow;
use crate::client::{self, ANSWER};
use crate::delay::Delays;
use crate::position::Position;

/// How many consumers of a group's name wait for the next question.
const IDLE: usize = 4;
/// How long a coordinator that moves is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// A consumer that is no member of any group.
pub(crate) type Onlooker = BaseConsumer<Still>;

/// Says nothing by itself: whatever a consumer meets, also the end of a partition, is answered where it was asked for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Still;

impl ClientContext for Still {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "the client reports an error");
    }
}

impl ConsumerContext for Still {}

/// Looks into topics, without being a member of a group.
#[derive(Debug)]
pub(crate) struct Look {
    flow: KafkaFlow,
    rules: Arc<Rules>,
    delays: Arc<Delays>,
    idle: Mutex<HashMap<String, Vec<Quiet>>>,
}

/// A consumer that shows nothing of itself, and is dropped where waiting is allowed.
struct Quiet(Onlooker);

impl std::fmt::Debug for Quiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Quiet")
    }
}

/// What a topic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many partitions it has.
    pub(crate) partitions: i32,
    /// How many copies there are of each.
    pub(crate) replication: i32,
}

impl Look {
    /// Looks into the topics of a flow.
    pub(crate) fn new(flow: &KafkaFlow, rules: Arc<Rules>) -> Arc<Self> {
        let delays = Arc::new(Delays::new(flow));
        Arc::new(Self { flow: flow.clone(), rules, delays, idle: Mutex::default() })
    }

    /// How headers are read and written.
    pub(crate) fn rules(&self) -> HeaderRules {
        self.rules.get()
    }

    /// How its messages wait.
    pub(crate) const fn delays(&self) -> &Arc<Delays> {
        &self.delays
    }

    /// The flow.
    pub(crate) const fn flow(&self) -> &KafkaFlow {
        &self.flow
    }

    /// Asks with a consumer of the ledger's group.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Onlooker) -> Result<T, PortError> + Send + 'static,
    ) -> Result<T, PortError> {
        let group = self.flow.groups.ledger.clone();
        self.ask_as(group, question).await
    }

    /// Asks with a consumer that goes by a group's name, on a thread that may wait.
    pub(crate) async fn ask_as<T: Send + 'static>(
        self: &Arc<Self>,
        group: String,
        question: impl FnOnce(&Onlooker) -> Result<T, PortError> + Send + 'static,
    ) -> Result<T, PortError> {
        let look = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || look.ask_here(&group, question));
        asked.await.unwrap_or_else(|error| Err(PortError::Unavailable(format!("a look into Kafka: {error}"))))
    }

    /// Asks with a consumer that goes by a group's name, on a thread that may wait.
    pub(crate) fn ask_here<T>(
        &self,
        group: &str,
        question: impl FnOnce(&Onlooker) -> Result<T, PortError>,
    ) -> Result<T, PortError> {
        let consumer = self.take(group)?;
        let answer = question(&consumer.0);
        // One that could not answer may have lost its coordinator for long: the next question is asked by another.
        if answer.is_ok() {
            self.put_back(group.to_owned(), consumer);
        }
        answer
    }

    fn take(&self, group: &str) -> Result<Quiet, PortError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(group).and_then(Vec::pop);
        idle.map_or_else(|| self.consumer(group).map(Quiet), Ok)
    }

    fn put_back(&self, group: String, consumer: Quiet) {
        if consumer.0.unassign().is_err() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.entry(group).or_default();
        if waiting.len() < IDLE {
            waiting.push(consumer);
        }
    }

    /// A consumer that is never a member: it is told what to read, and says when it is at the end.
    pub(crate) fn consumer(&self, group: &str) -> Result<Onlooker, PortError> {
        let mut config = client::consumer(&self.flow, group);
        config.remove("group.instance.id");
        config
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "10")
            // Nobody polls an idle one, so what it has to tell would pile up.
            .set("statistics.interval.ms", "0")
            // What a broker sends at once; one record is sent however large it is.
            .set("fetch.max.bytes", "8388608")
            .set("queued.min.messages", "1000");
        config.create_with_context(Still).map_err(|error| client::away("cannot look into Kafka", &error))
    }
}

/// Whether a broker answers at all.
pub(crate) fn answers(consumer: &Onlooker) -> Result<(), PortError> {
    let asked = consumer.fetch_metadata(None, ANSWER);
    asked.map(drop).map_err(|error| client::away("Kafka does not answer", &error))
}

/// What a topic is; nothing when there is none.
pub(crate) fn shape(consumer: &Onlooker, topic: &str) -> Result<Option<Shape>, PortError> {
    again(&format!("cannot read the metadata of `{topic}`"), || {
        let metadata = consumer.fetch_metadata(Some(topic), ANSWER)?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Ok(None);
        };
        match found.error().map(RDKafkaErrorCode::from) {
            None | Some(RDKafkaErrorCode::NoError) => {}
            Some(code) if client::is_missing(code) => return Ok(None),
            Some(code) => return Err(KafkaError::MetadataFetch(code)),
        }
        let partitions = found.partitions();
        if partitions.is_empty() {
            return Ok(None);
        }
        let replication = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or(1);
        Ok(Some(Shape {
            partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
            replication: i32::try_from(replication).unwrap_or(1),
        }))
    })
}

/// The first offset that is there, and the one behind the last; nothing when the partition is not there.
pub(crate) fn ends(
    consumer: &Onlooker,
    topic: &str,
    partition: i32,
) -> Result<Option<(i64, i64)>, PortError> {
    again(&format!("cannot read the ends of `{topic}`/{partition}"), || {
        match consumer.fetch_watermarks(topic, partition, ANSWER) {
            Ok(ends) => Ok(Some(ends)),
            Err(KafkaError::MetadataFetch(code)) if client::is_missing(code) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// The text of a commit by which a group was ended: it has no part in anything any more.
pub(crate) const ENDED: &str = "R1x";

/// How far the consumer's group is in the partitions of a topic; nothing where it has committed nothing.
pub(crate) fn committed(
    consumer: &Onlooker,
    topic: &str,
    partitions: i32,
) -> Result<Vec<Option<Position>>, PortError> {
    committed_of(consumer, &(0..partitions).map(|partition| (topic, partition)).collect::<Vec<_>>())
}

/// How far the consumer's group is in these partitions; nothing where it has committed nothing, or was ended.
pub(crate) fn committed_of(
    consumer: &Onlooker,
    partitions: &[(&str, i32)],
) -> Result<Vec<Option<Position>>, PortError> {
    again("cannot read what a group has committed", || {
        let mut asked = TopicPartitionList::new();
        for (topic, partition) in partitions {
            asked.add_partition(topic, *partition);
        }
        let answer = consumer.committed_offsets(asked, ANSWER)?;
        let found = |(topic, partition): &(&str, i32)| {
            let Some(one) = answer.find_partition(topic, *partition) else { return Ok(None) };
            one.error()?;
            Ok(match (one.offset(), client::metadata(&one)) {
                (Offset::Offset(_), ENDED) => None,
                (Offset::Offset(lowest), text) => Some(Position::read(lowest, text)),
                _ => None,
            })
        };
        partitions.iter().map(found).collect()
    })
}

/// Asks again while a broker or a coordinator is on its way.
pub(crate) fn again<T>(doing: &str, ask: impl Fn() -> Result<T, KafkaError>) -> Result<T, PortError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                let for_good = error.rdkafka_error_code().is_some_and(client::is_for_good);
                if for_good || Instant::now() >= deadline {
                    return Err(client::away(doing, &error));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
