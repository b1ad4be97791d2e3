//! Reading topics from positions on, to where they ended when the reading began.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use redrive_core::Timestamp;
use redrive_engine::port::{Delivery, PortError, Tag};

use crate::client;
use crate::look::Onlooker;
use crate::record::{Carver, Spot};

/// How long nothing may come of a partition that is not at its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A partition to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// The partition.
    pub(crate) partition: i32,
    /// The next offset.
    pub(crate) next: i64,
    /// One behind the last.
    pub(crate) end: i64,
    /// Offsets that are left out: first and one behind the last.
    pub(crate) without: Vec<(i64, i64)>,
}

impl Span {
    fn is_done(&self) -> bool {
        self.next >= self.end
    }
}

/// A topic to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pile {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// Its partitions.
    pub(crate) spans: Vec<Span>,
    /// Whether its records wait for their time.
    pub(crate) waits: bool,
}

/// Reads topics, one after the other.
pub(crate) struct ReadBack {
    consumer: Onlooker,
    carver: Carver,
    piles: VecDeque<Pile>,
    /// Whether the first of them is assigned.
    begun: bool,
}

impl std::fmt::Debug for ReadBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadBack").field("piles", &self.piles).finish_non_exhaustive()
    }
}

/// What was read of a topic, and when it was appended there.
#[derive(Debug)]
pub(crate) struct Read {
    /// The record.
    pub(crate) delivery: Delivery,
    /// Its time.
    pub(crate) at: Timestamp,
}

impl ReadBack {
    /// Reads these topics in their order.
    pub(crate) fn new(consumer: Onlooker, carver: Carver, piles: Vec<Pile>) -> Self {
        Self { consumer, carver, piles: piles.into(), begun: false }
    }

    /// At most so many records; none when the end is reached. Waits: not for threads that others need. `advance` is told
    /// of each offset that is behind: the topic, the partition, the next one.
    pub(crate) fn next(
        &mut self,
        most: usize,
        mut advance: impl FnMut(&str, i32, i64),
    ) -> Result<Vec<Read>, PortError> {
        let mut read = Vec::new();
        let mut patience = Instant::now() + PATIENCE;
        while let Some(pile) = self.piles.front_mut() {
            if pile.spans.iter().all(Span::is_done) {
                for span in &pile.spans {
                    advance(&pile.topic, span.partition, span.next);
                }
                self.piles.pop_front();
                self.begun = false;
                continue;
            }
            if read.len() >= most || (!read.is_empty() && Instant::now() >= patience) {
                break;
            }
            if !self.begun {
                assign(&self.consumer, pile)?;
                self.begun = true;
            }
            match self.consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    // What is left are the marks of transactions, or was compacted away.
                    if let Some(span) = pile.spans.iter_mut().find(|span| span.partition == partition) {
                        span.next = span.next.max(span.end);
                        advance(&pile.topic, partition, span.next);
                    }
                }
                Some(Err(error)) if !error.rdkafka_error_code().is_some_and(client::is_for_good) => {}
                // What was read is handed out first.
                Some(Err(_)) if !read.is_empty() => break,
                Some(Err(error)) => {
                    return Err(client::away(&format!("cannot read `{}`", pile.topic), &error));
                }
                Some(Ok(record)) => {
                    let span = pile.spans.iter_mut().find(|span| span.partition == record.partition());
                    let Some(span) = span.filter(|span| !span.is_done()) else { continue };
                    patience = Instant::now() + PATIENCE;
                    let offset = record.offset();
                    let behind = offset >= span.end;
                    span.next = if behind { span.end } else { offset + 1 };
                    advance(&pile.topic, span.partition, span.next);
                    if behind || span.without.iter().any(|(first, end)| (*first..*end).contains(&offset)) {
                        continue;
                    }
                    let spot = Spot {
                        stream: u32::MAX,
                        epoch: u32::MAX,
                        topic: Arc::clone(&pile.topic),
                        partition: span.partition,
                        waits: pile.waits,
                    };
                    let at = record
                        .timestamp()
                        .to_millis()
                        .map_or(Timestamp::from_millis(0), Timestamp::from_millis);
                    let mut delivery = self.carver.delivery(&record, &spot, at);
                    delivery.tag = Tag::APART;
                    read.push(Read { delivery, at });
                    continue;
                }
            }
            if Instant::now() >= patience && read.is_empty() {
                let text = format!("nothing more came of `{}` for {} s", pile.topic, PATIENCE.as_secs());
                return Err(PortError::Unavailable(text));
            }
        }
        Ok(read)
    }
}

fn assign(consumer: &Onlooker, pile: &Pile) -> Result<(), PortError> {
    let mut places = TopicPartitionList::new();
    let assigned = pile
        .spans
        .iter()
        .filter(|span| !span.is_done())
        .try_for_each(|span| {
            places.add_partition_offset(&pile.topic, span.partition, Offset::Offset(span.next))
        })
        .and_then(|()| consumer.assign(&places));
    assigned.map_err(|error| client::away(&format!("cannot read `{}`", pile.topic), &error))
}
