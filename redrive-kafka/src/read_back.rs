//! Reading topics from positions on, to where they ended when the reading began.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::Offset;
use redrive_core::Timestamp;
use redrive_engine::port::{Delivery, PortError, Tag};

use crate::client;
use crate::look::Onlooker;
use crate::record::{self, Carver, Spot};

/// How long nothing may come of a partition that is not at its end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much is read at a time, beside the one record that always is.
const BYTES: usize = 8 << 20;

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

impl ReadBack {
    /// Reads these topics in their order.
    pub(crate) fn new(consumer: Onlooker, carver: Carver, piles: Vec<Pile>) -> Self {
        Self { consumer, carver, piles: piles.into(), begun: false }
    }

    /// At most so many records, and about 8 MB of them; none when the end is reached. Waits: not for threads that others
    /// need. `advance` is told of each offset that is behind: the topic, the partition, the next one.
    pub(crate) fn next(
        &mut self,
        most: usize,
        advance: impl FnMut(&str, i32, i64),
    ) -> Result<Vec<Delivery>, PortError> {
        let mut read = Vec::new();
        self.walk(most, BYTES, advance, |carver, record, spot| {
            let at = record.timestamp().to_millis().map_or(Timestamp::from_millis(0), Timestamp::from_millis);
            let mut delivery = carver.delivery(record, spot, at);
            delivery.tag = Tag::APART;
            let size = record::size(&delivery.message);
            read.push(delivery);
            size
        })?;
        Ok(read)
    }

    /// Passes records and counts them, until about so many bytes of them have come or nothing is left; what is left of
    /// their spans then is uncounted. Keeps nothing.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<Counted, PortError> {
        let (mut records, mut read) = (0_u64, 0);
        while read < bytes {
            let before = records;
            self.walk(
                usize::MAX,
                bytes - read,
                |_, _, _| {},
                |_, record, _| {
                    let size = record.payload_len() + record.key_len();
                    records += 1;
                    read += size;
                    size
                },
            )?;
            if records == before {
                break;
            }
        }
        let left = self.piles.iter().flat_map(|pile| &pile.spans).cloned().collect();
        Ok(Counted { records, bytes: read, left })
    }

    /// Polls until so many records or bytes are taken, or the end is reached. `take` says how large what it took is.
    fn walk(
        &mut self,
        most: usize,
        bytes: usize,
        mut advance: impl FnMut(&str, i32, i64),
        mut take: impl FnMut(&mut Carver, &BorrowedMessage<'_>, &Spot) -> usize,
    ) -> Result<(), PortError> {
        let (mut taken, mut size) = (0, 0);
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
            if taken >= most || size >= bytes || (taken > 0 && Instant::now() >= patience) {
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
                Some(Err(_)) if taken > 0 => break,
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
                    size += take(&mut self.carver, &record, &spot);
                    taken += 1;
                    continue;
                }
            }
            if Instant::now() >= patience && taken == 0 {
                let text = format!("nothing more came of `{}` for {} s", pile.topic, PATIENCE.as_secs());
                return Err(PortError::Unavailable(text));
            }
        }
        Ok(())
    }
}

/// What was passed.
#[derive(Debug)]
pub(crate) struct Counted {
    /// How many records.
    pub(crate) records: u64,
    /// How large they were.
    pub(crate) bytes: usize,
    /// What was not come to.
    pub(crate) left: Vec<Span>,
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
