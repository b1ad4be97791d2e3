//! From a Kafka record to a message, and back, without changing a byte.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers as _, OwnedHeaders};
use redrive_core::headers;
use redrive_core::{HeaderName, Headers, Message, Text, Timestamp};
use redrive_engine::port::{Carried, Delivery, DeliveryParts, HeaderRules, SourceRef, Tag};

use crate::KafkaFlow;
use crate::copy::GROUP;
use crate::delay::Delays;

/// The kind of every place that this adapter names.
pub(crate) const KIND: &str = "kafka";
/// How many names of headers are remembered, so that each is stored once.
const NAMES: usize = 256;
/// The digits of a partition and an offset, and what stands between them.
const NUMBERS: usize = 1 + 11 + 1 + 20;
/// Kafka's own bound of a name.
const MOST_OF_A_GROUP: usize = 1 << 15;
/// What a record takes beside its bytes, roughly.
const OVERHEAD: usize = 200;

/// Where a record was read.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// The stream's number.
    pub(crate) stream: u32,
    /// Its assignment.
    pub(crate) epoch: u32,
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// The partition.
    pub(crate) partition: i32,
    /// Whether what is read there has waited for its time.
    pub(crate) waits: bool,
}

/// Makes messages of records.
#[derive(Debug)]
pub(crate) struct Carver {
    kind: Arc<str>,
    names: HashMap<Box<str>, HeaderName>,
    rules: HeaderRules,
    /// The group of the flow's source.
    group: Text,
}

impl Carver {
    /// Reads headers by these rules, for the flow of a group.
    pub(crate) fn new(rules: HeaderRules, flow: &KafkaFlow) -> Self {
        Self { kind: KIND.into(), names: HashMap::new(), rules, group: Text::from(flow.groups.main.as_str()) }
    }

    /// The delivery of a record. Its bytes are copied once, into one piece.
    pub(crate) fn delivery(&mut self, record: &BorrowedMessage<'_>, spot: &Spot, now: Timestamp) -> Delivery {
        let (key, body) = (record.key(), record.payload());
        let found = record.headers();
        let mut piece = BytesMut::with_capacity(
            key.map_or(0, <[u8]>::len)
                + body.map_or(0, <[u8]>::len)
                + found.map_or(0, values_len)
                + spot.topic.len()
                + NUMBERS,
        );
        let key = key.map(|bytes| cut_off(&mut piece, bytes));
        let body = body.map(|bytes| cut_off(&mut piece, bytes));
        let mut headers = found.map(|found| self.headers(found, &mut piece)).unwrap_or_default();
        let published = record.timestamp().to_millis().map_or(now, Timestamp::from_millis);
        let mut trail = self.rules.read(&headers, body.as_deref());
        // Most messages carry none, and what carries none takes no room.
        let bare = trail.doubt().is_none() && trail.clamped().is_empty() && trail.next_delay().is_none();
        if bare && *trail == headers::Trail::default() {
            trail = Carried::default();
        }
        // A message of the source is its own, also when it is a dead letter that somebody sent in again.
        let is_copy = spot.waits || spot.stream == Tag::APART.stream;
        if !is_copy {
            trail.forget_entry();
        } else if let Some(group) = headers.get_text(GROUP, MOST_OF_A_GROUP) {
            headers.remove(GROUP);
            if group != self.group {
                trail.leave_to(group);
            }
        }
        // A copy that waited goes by the name of what it is a copy of.
        let id = Message::id_of(&headers, None, &trail.origin)
            .unwrap_or_else(|| place_as_id(&mut piece, &spot.topic, spot.partition, record.offset()));
        let due = Delays::due(published, &trail).filter(|_| spot.waits);
        let content_type =
            headers.get_text("content-type", 256).or_else(|| headers.get_text("ce_datacontenttype", 256));
        Delivery::from(DeliveryParts {
            tag: Tag {
                stream: spot.stream,
                epoch: spot.epoch,
                number: u64::try_from(record.offset()).unwrap_or_default(),
            },
            message: Message { id, key, body, headers, content_type },
            trail,
            source: SourceRef {
                kind: Arc::clone(&self.kind),
                name: Arc::clone(&spot.topic),
                partition: Some(spot.partition),
                offset: Some(record.offset()),
            },
            ready_at: due.unwrap_or(published),
            redelivered: false,
        })
    }

    fn headers(&mut self, found: &BorrowedHeaders, piece: &mut BytesMut) -> Headers {
        let mut headers = Headers::with_capacity(found.count());
        for place in 0..found.count() {
            let Some(header) = one(found, place) else { continue };
            let value = header.value.map(|value| cut_off(piece, value));
            headers.push_header(self.name(header.key), value);
        }
        headers
    }

    fn name(&mut self, name: &str) -> HeaderName {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let new = HeaderName::from(name);
        if self.names.len() < NAMES {
            self.names.insert(name.into(), new.clone());
        }
        new
    }
}

/// One header. The client library gives up on a name that is not UTF-8, which Kafka's protocol rules out; such a header
/// is left behind, and said.
fn one(headers: &BorrowedHeaders, place: usize) -> Option<Header<'_, &[u8]>> {
    catch_unwind(AssertUnwindSafe(|| headers.try_get(place))).unwrap_or_else(|_| {
        tracing::warn!(place, "a header's name is not UTF-8; the header is left behind");
        None
    })
}

fn values_len(headers: &BorrowedHeaders) -> usize {
    (0..headers.count()).filter_map(|place| Some(one(headers, place)?.value?.len())).sum()
}

/// The place of a record as an id, in the piece that its bytes lie in.
fn place_as_id(piece: &mut BytesMut, topic: &str, partition: i32, offset: i64) -> Text {
    piece.extend_from_slice(topic.as_bytes());
    piece.extend_from_slice(b"/");
    piece.extend_from_slice(itoa::Buffer::new().format(partition).as_bytes());
    piece.extend_from_slice(b"/");
    piece.extend_from_slice(itoa::Buffer::new().format(offset).as_bytes());
    Text::from_utf8(piece.split().freeze()).unwrap_or_default()
}

fn cut_off(piece: &mut BytesMut, bytes: &[u8]) -> Bytes {
    piece.extend_from_slice(bytes);
    piece.split().freeze()
}

/// How much a delivery counts in a buffer.
pub(crate) fn size(message: &Message) -> usize {
    let headers: usize = message
        .headers
        .iter()
        .map(|header| header.name.as_str().len() + header.value.as_ref().map_or(0, Bytes::len) + 64)
        .sum();
    OVERHEAD
        + headers
        + message.key.as_ref().map_or(0, Bytes::len)
        + message.body.as_ref().map_or(0, Bytes::len)
}

/// Headers as the client library takes them.
pub(crate) fn to_kafka(headers: &Headers) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |all, header| {
        all.insert(Header { key: header.name.as_str(), value: header.value.as_deref() })
    })
}

/// A place as the ledger keeps it.
pub(crate) fn place(topic: &Arc<str>, partition: i32, offset: i64) -> SourceRef {
    SourceRef { kind: KIND.into(), name: Arc::clone(topic), partition: Some(partition), offset: Some(offset) }
}
