//! Bodies that a ledger left to Kafka: read again by their place, and which of them Kafka will not keep for much longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::Offset;
use redrive_core::{Message, Timestamp};
use redrive_engine::adapter::unwrap_envelope;
use redrive_engine::port::{PortError, SourceRef, Tag};

use crate::look::{self, Look, Onlooker};
use crate::record::{Carver, KIND, Spot};
use crate::replay::at_time;
use crate::topology::{self, Kept};
use crate::{DeadLetterFormat, client};

/// How long nothing may come of a partition.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long what was committed may take to be readable, and how often that is looked at: a commit is answered before its
/// end is written everywhere.
const WRITTEN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Records that are read over on the way to the next one that is wanted; a longer way is jumped.
const STRIDE: i64 = 200;
/// How long before its end a body is copied: a tenth of its time, and no less than this.
const MARGIN: Duration = Duration::from_secs(60);

/// Offsets of one partition, each with where it stands in the answer.
type Offsets = Vec<(i64, usize)>;

/// The messages at these places, in their order; nothing for one that is gone. What is there and cannot be read yet, because
/// a transaction before it is open, is an error.
pub(crate) async fn fetch_all(
    look: &Arc<Look>,
    places: &[SourceRef],
) -> Result<Vec<Option<Message>>, PortError> {
    let mut wanted: BTreeMap<(Arc<str>, i32), Offsets> = BTreeMap::new();
    for (place, at) in places.iter().enumerate() {
        if let (KIND, Some(partition), Some(offset @ 0..)) = (&*at.kind, at.partition, at.offset) {
            wanted.entry((Arc::clone(&at.name), partition)).or_default().push((offset, place));
        }
    }
    let mut found = vec![None; places.len()];
    for ((topic, partition), mut offsets) in wanted {
        offsets.sort_unstable();
        let (reader, count) = (Arc::clone(look), places.len());
        let read = move |consumer: &Onlooker| {
            let mut found = vec![None; count];
            let all = Wanted { topic: &topic, partition, offsets: &offsets };
            all.read(&reader, consumer, &mut found)?;
            Ok(found)
        };
        for (slot, one) in found.iter_mut().zip(look.ask(read).await?) {
            *slot = slot.take().or(one);
        }
    }
    Ok(found)
}

/// Records of one partition, lowest first: each by its offset, with where it stands in the answer.
struct Wanted<'a> {
    topic: &'a Arc<str>,
    partition: i32,
    offsets: &'a [(i64, usize)],
}

impl Wanted<'_> {
    fn read(&self, look: &Look, consumer: &Onlooker, found: &mut [Option<Message>]) -> Result<(), PortError> {
        let Self { topic, partition, .. } = *self;
        // No partition, no records.
        let Some((low, mut high)) = look::ends(consumer, topic, partition)? else { return Ok(()) };
        let written = Instant::now() + WRITTEN;
        let mut carver = Carver::new(look.rules(), look.flow());
        let mut rest = self.offsets.iter().copied().filter(|(offset, _)| *offset >= low).peekable();
        let mut next = None;
        let mut deadline = Instant::now() + PATIENCE;
        while let Some((offset, _)) = rest.peek().copied() {
            let doing = || format!("cannot read {topic}/{partition}/{offset}");
            if offset >= high && Instant::now() < written {
                std::thread::sleep(LOOK_AGAIN);
                let Some(ends) = look::ends(consumer, topic, partition)? else { return Ok(()) };
                high = ends.1;
                continue;
            }
            if offset >= high {
                let why = format!("{}: what can be read there ends at {high}", doing());
                return Err(PortError::Unavailable(why));
            }
            if next.is_none_or(|next| next > offset || offset - next > STRIDE) {
                self.go_to(consumer, offset).map_err(|error| client::away(&doing(), &error))?;
                next = Some(offset);
            }
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(record)) if record.partition() == partition => {
                    let came = record.offset();
                    next = Some(came + 1);
                    deadline = Instant::now() + PATIENCE;
                    let mut message = None;
                    // What lies before one that came, and did not come itself, was compacted away.
                    while let Some((wanted, place)) = rest.next_if(|(wanted, _)| *wanted <= came) {
                        if wanted == came {
                            let read = || self.message(look, &mut carver, &record);
                            found[place] = Some(message.get_or_insert_with(read).clone());
                        }
                    }
                }
                Some(Err(error)) if Instant::now() >= deadline => return Err(client::away(&doing(), &error)),
                None if Instant::now() >= deadline => return Err(PortError::Unavailable(doing())),
                // The end of the partition is one for now: what is before it comes.
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn message(&self, look: &Look, carver: &mut Carver, record: &BorrowedMessage<'_>) -> Message {
        let (topic, partition) = (Arc::clone(self.topic), self.partition);
        // It is read beside the groups, so it keeps the entry that it names: by that an envelope of ours is known.
        let Tag { stream, epoch, .. } = Tag::APART;
        let spot = Spot { stream, epoch, topic, partition, waits: false };
        let at = Timestamp::from_millis(record.timestamp().to_millis().unwrap_or(0));
        let mut delivery = carver.delivery(record, &spot, at);
        if look.flow().dead_letter.format == DeadLetterFormat::Envelope {
            let parts = &mut *delivery;
            unwrap_envelope(&mut parts.message, &parts.trail, &look.rules());
        }
        delivery.into_parts().message
    }

    fn go_to(&self, consumer: &Onlooker, offset: i64) -> Result<(), rdkafka::error::KafkaError> {
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(self.topic, self.partition, Offset::Offset(offset))?;
        consumer.assign(&place)
    }
}

/// Of the partition of each of these places, the offset before which records expire within the margin. Where Kafka goes by
/// size, compacts, or does not say how long it keeps records, that can be any moment: then all of them do.
pub(crate) async fn expiring(
    look: &Arc<Look>,
    places: &[SourceRef],
    now: Timestamp,
) -> Result<Vec<Option<i64>>, PortError> {
    let mut topics: Vec<String> = places.iter().map(|place| place.name.to_string()).collect();
    topics.sort_unstable();
    topics.dedup();
    let kept = topology::kept(look, &topics).await?;
    let mut limits: BTreeMap<String, Vec<Option<i64>>> = BTreeMap::new();
    for (topic, kept) in topics.into_iter().zip(kept) {
        let Some((partitions, kept)) = kept else { continue };
        let of_topic = match kept {
            Kept::Always => continue,
            Kept::Unknown => vec![None; usize::try_from(partitions).unwrap_or_default()],
            Kept::For(time) => {
                let since = oldest(now, time);
                let asked = topic.clone();
                look.ask(move |consumer| at_time(consumer, &asked, partitions, since)).await?
            }
        };
        limits.insert(topic, of_topic);
    }
    let limit = |place: &SourceRef| {
        let partition = usize::try_from(place.partition?).ok()?;
        let of_partition = limits.get(&*place.name)?.get(partition)?;
        // Nothing is that young: all of it is old.
        Some(of_partition.unwrap_or(i64::MAX))
    };
    Ok(places.iter().map(limit).collect())
}

/// The time of the oldest record that is left alone, where records are kept for so long.
fn oldest(now: Timestamp, kept: Duration) -> Timestamp {
    let left_alone = kept.saturating_sub((kept / 10).max(MARGIN));
    let millis = i64::try_from(left_alone.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

#[cfg(test)]
mod tests;
