//! One message by the place where it lies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::Message as _;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use redrive_core::dialect::{ForeignFailure, Writer};
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{BODY_AT, Delivery, DeliveryParts, PortError, SourceRef};

use crate::KafkaFlow;
use crate::client;
use crate::look::{self, Look, Onlooker};
use crate::record::{Carver, KIND, Spot};

const PATIENCE: Duration = Duration::from_secs(30);

/// Where the original of a record lies, and by what it is known there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Original {
    place: SourceRef,
    /// When it was published.
    at: Option<Timestamp>,
    /// Its key.
    key: Option<Bytes>,
    /// Whether none is its key too, or only not told.
    keyless: bool,
}

impl Original {
    /// The original of a record, where that leaves its body behind; nothing for a record that is complete.
    pub(crate) fn of(flow: &KafkaFlow, delivery: &Delivery) -> Option<Self> {
        let place = body_place(flow, delivery)?;
        // What another system says of a message may leave the key out.
        let keyless = delivery.trail.entry_id.is_some();
        let at = delivery.trail.origin.timestamp;
        Some(Self { place, at, key: delivery.message.key.clone(), keyless })
    }

    /// Whether what lies there is it: a topic that was made anew has another message at the same offset.
    fn is(&self, message: &Message, at: Option<Timestamp>) -> bool {
        let same_time = self.at.is_none() || at.is_none() || self.at == at;
        same_time && (self.key == message.key || (self.key.is_none() && !self.keyless))
    }
}

/// The original, as it lies in its topic; nothing when it is gone, or another message is in its place.
pub(crate) async fn fetch(look: &Arc<Look>, original: &Original) -> Result<Option<Message>, PortError> {
    let place = &original.place;
    let (Some(partition), Some(offset)) = (place.partition, place.offset) else { return Ok(None) };
    if &*place.kind != KIND || offset < 0 {
        return Ok(None);
    }
    let topic = Arc::clone(&place.name);
    let carver = Carver::new(look.rules(), look.flow());
    let found = look.ask(move |consumer| one(consumer, carver, &topic, partition, offset)).await?;
    let Some((message, at)) = found else { return Ok(None) };
    if original.is(&message, at) {
        return Ok(Some(message));
    }
    let (flow, topic) = (&*look.flow().flow, &*place.name);
    tracing::warn!(flow, topic, partition, offset, "another message lies where a body was left");
    Ok(None)
}

fn one(
    consumer: &Onlooker,
    mut carver: Carver,
    topic: &Arc<str>,
    partition: i32,
    offset: i64,
) -> Result<Option<(Message, Option<Timestamp>)>, PortError> {
    match look::ends(consumer, topic, partition)? {
        Some((low, high)) if (low..high).contains(&offset) => {}
        _ => return Ok(None),
    }
    let doing = format!("cannot read `{topic}`/{partition}/{offset}");
    let mut place = TopicPartitionList::new();
    place
        .add_partition_offset(topic, partition, Offset::Offset(offset))
        .and_then(|()| consumer.assign(&place))
        .map_err(|error| client::away(&doing, &error))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) if record.offset() == offset => {
                let spot = Spot { stream: 0, epoch: 0, topic: Arc::clone(topic), partition, waits: false };
                let at = record.timestamp().to_millis().map(Timestamp::from_millis);
                let delivery = carver.delivery(&record, &spot, at.unwrap_or_default());
                return Ok(Some((delivery.into_parts().message, at)));
            }
            // A later one: this one was compacted away, or is the mark of a transaction.
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(None),
            Some(Err(error)) if Instant::now() >= deadline => return Err(client::away(&doing, &error)),
            None if Instant::now() >= deadline => return Err(PortError::Unavailable(doing)),
            Some(Err(_)) | None => {}
        }
    }
}

/// Whether a record leaves its body where it was, so that one without a body is no tombstone: a pointer of ours, or the dead
/// letter of a share group.
pub(crate) fn leaves_body(flow: &KafkaFlow, delivery: &Delivery) -> bool {
    let message = &delivery.message;
    let of_share_group = || {
        let foreign = flow.foreign.iter().any(|other| **other == *delivery.source.name);
        let failure = ForeignFailure::read(&message.headers).filter(|_| foreign);
        failure.is_some_and(|failure| failure.writer == Writer::KafkaShareGroup)
    };
    message.body.is_none() && (message.headers.contains(BODY_AT) || of_share_group())
        || body_place(flow, delivery).is_some()
}

/// Where the body lies that a record does not carry itself; nothing for one that is complete.
///
/// A name in a header is followed only into topics of the flow.
fn body_place(flow: &KafkaFlow, delivery: &Delivery) -> Option<SourceRef> {
    let message = &delivery.message;
    let own = |topic: &str| flow.topics.iter().any(|own| own == topic);
    if message.body.is_none()
        && let Some(text) = message.headers.get_text(BODY_AT, 512)
    {
        let (rest, offset) = text.rsplit_once('/')?;
        let (topic, partition) = rest.rsplit_once('/')?;
        return Some(SourceRef {
            kind: KIND.into(),
            name: own(topic).then(|| topic.into())?,
            partition: Some(partition.parse().ok()?),
            offset: Some(offset.parse().ok()?),
        });
    }
    // A share group leaves the body where it was.
    let foreign = flow.foreign.iter().any(|other| **other == *delivery.source.name);
    if message.body.is_none() && foreign {
        let failure = ForeignFailure::read(&message.headers)?;
        let origin = failure.origin;
        let topic = origin.name.filter(|topic| failure.writer == Writer::KafkaShareGroup && own(topic))?;
        return Some(SourceRef {
            kind: KIND.into(),
            name: topic.as_str().into(),
            partition: Some(origin.partition?),
            offset: Some(origin.offset?),
        });
    }
    // A dead letter that was too large for its topic: an envelope of ours without a payload.
    let origin = &delivery.trail.origin;
    let shelf = *delivery.source.name == *flow.dead_letter.topic
        || *delivery.source.name == *crate::delay::names::parking(flow);
    let is_pointer = shelf
        && delivery.trail.entry_id.is_some()
        && message.content_type.as_deref() == Some("application/json")
        && message.body.as_deref().is_some_and(|body| {
            redrive_core::Envelope::from_json(body)
                .is_ok_and(|envelope| envelope.payload.is_none() && *envelope.consumer == *flow.flow)
        });
    let topic = origin.topic.as_deref().filter(|topic| is_pointer && own(topic))?;
    Some(SourceRef {
        kind: KIND.into(),
        name: topic.into(),
        partition: Some(origin.partition?),
        offset: Some(origin.offset?),
    })
}

/// Gives a delivery what its original has and itself has not.
pub(crate) fn fill(look: &Look, delivery: &mut Delivery, original: Message) {
    let DeliveryParts { message, trail, .. } = &mut **delivery;
    message.body = original.body;
    if message.headers.remove(BODY_AT) {
        return;
    }
    message.content_type = original.content_type;
    let own = std::mem::replace(&mut message.headers, original.headers);
    if trail.entry_id.is_some() {
        look.rules().write(trail, &mut message.headers, message.body.as_deref());
        return;
    }
    // Of another system's dead letter, what it says of the failure comes last, and so counts.
    message.key = message.key.take().or(original.key);
    for header in own {
        message.headers.push_header(header.name, header.value);
    }
}

#[cfg(test)]
mod tests;
