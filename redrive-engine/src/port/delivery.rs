//! A message in hand.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redrive_core::headers::{Decoded, FieldSet, Trail};
use redrive_core::{Message, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::Doubt;

/// The broker's own name for one delivery, given back when it is settled. The engine never looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// A partition, a channel, a queue.
    pub stream: u32,
    /// A number that is valid only within the same epoch: an assignment, a connection, an opening of the file.
    pub epoch: u32,
    /// An offset, a delivery tag, a row.
    pub number: u64,
}

impl Tag {
    /// Of a message that was not read from the broker it is given to: only its copy is wanted.
    pub const APART: Self = Self { stream: u32::MAX, epoch: u32::MAX, number: u64::MAX };
}

/// Where a message was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRef {
    /// `embedded`, `kafka`, `rabbitmq`, `postgres`.
    pub kind: Arc<str>,
    /// The queue or topic.
    pub name: Arc<str>,
    /// The partition, where there are any.
    pub partition: Option<i32>,
    /// The offset, where there are any.
    pub offset: Option<i64>,
}

impl std::fmt::Display for SourceRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.partition.map_or(Ok(()), |partition| write!(f, "/{partition}"))?;
        self.offset.map_or(Ok(()), |offset| write!(f, "/{offset}"))
    }
}

/// A message handed out by a broker, until it is settled. It goes through many hands, so it is moved by its address.
#[derive(Debug, Clone)]
pub struct Delivery(Box<Held>);

#[derive(Debug, Clone)]
struct Held {
    parts: DeliveryParts,
    likeness: Option<[u8; 16]>,
}

impl Delivery {
    /// What it is made of.
    pub fn into_parts(self) -> DeliveryParts {
        self.0.parts
    }

    /// Notes what a message that has no id of its own is like, since the id that it was given is another one each time it
    /// is delivered: the same each time, and the same for messages that are equal.
    #[must_use]
    pub fn with_likeness(mut self, likeness: [u8; 16]) -> Self {
        self.0.likeness = Some(likeness);
        self
    }

    /// What the message is like, when it has no id of its own.
    pub fn likeness(&self) -> Option<[u8; 16]> {
        self.0.likeness
    }
}

impl From<DeliveryParts> for Delivery {
    fn from(parts: DeliveryParts) -> Self {
        Self(Box::new(Held { parts, likeness: None }))
    }
}

impl Deref for Delivery {
    type Target = DeliveryParts;

    fn deref(&self) -> &DeliveryParts {
        &self.0.parts
    }
}

impl DerefMut for Delivery {
    fn deref_mut(&mut self) -> &mut DeliveryParts {
        &mut self.0.parts
    }
}

/// What a [`Delivery`] is made of.
#[derive(Debug, Clone)]
pub struct DeliveryParts {
    /// The broker's name for it.
    pub tag: Tag,
    /// The message as it was published; Redrive's own headers are in it and decoded in `trail`.
    pub message: Message,
    /// What Redrive knows of its past, bounded; empty on a first delivery.
    pub trail: Carried,
    /// Where it was read.
    pub source: SourceRef,
    /// When it was published or came due: what its lateness is measured against.
    pub ready_at: Timestamp,
    /// Whether it was handed out before and not settled: another process, or this one before a crash.
    pub redelivered: bool,
}

/// The trail that a message carries, as [`HeaderRules::read`](super::HeaderRules::read) found it. Most messages carry none,
/// and a trail is large: only one that says something takes room, so that a delivery can be handed from part to part.
#[derive(Debug, Clone, Default)]
pub struct Carried(Option<Box<Found>>);

#[derive(Debug, Clone, Default)]
struct Found {
    trail: Trail,
    doubt: Option<Doubt>,
    clamped: FieldSet,
    next_delay: Option<Duration>,
    body_is_gone: bool,
    left_to: Option<Text>,
}

impl Carried {
    /// Notes whose copy it is, unless the ledger knows it.
    pub fn leave_to(&mut self, another: Text) {
        self.0.get_or_insert_default().left_to = Some(another);
    }

    /// Whose copy it is, unless the ledger knows it; nothing when it is the flow's own.
    pub fn left_to(&self) -> Option<&Text> {
        self.0.as_ref().and_then(|found| found.left_to.as_ref())
    }

    /// Notes that the message's body lay elsewhere and is gone: it is no message without one, and is never handled.
    pub fn lose_body(&mut self) {
        self.0.get_or_insert_default().body_is_gone = true;
    }

    /// Notes that the body was found after all.
    pub fn find_body(&mut self) {
        if let Some(found) = &mut self.0 {
            found.body_is_gone = false;
        }
    }

    /// Whether the message's body is gone.
    pub fn body_is_gone(&self) -> bool {
        self.0.as_ref().is_some_and(|found| found.body_is_gone)
    }

    /// Takes another trail for the one that was carried; what was found beside it stays.
    pub(crate) fn replace(&mut self, trail: Trail) {
        self.0.get_or_insert_default().trail = trail;
    }

    /// A trail that starts over, since the message's headers were not signed by a key of the flow.
    pub(super) fn doubted(trail: Trail, doubt: Doubt) -> Self {
        Self(Some(Box::new(Found { trail, doubt: Some(doubt), ..Found::default() })))
    }

    /// Forgets the ledger entry that the headers name, and what hangs on it: for an adapter that knows it to be another
    /// message's.
    pub fn forget_entry(&mut self) {
        if let Some(found) = &mut self.0 {
            found.trail.entry_id = None;
            found.trail.wait_id = None;
            found.trail.replay = None;
        }
    }

    /// Why the message's own headers are not believed; nothing when they are.
    pub fn doubt(&self) -> Option<Doubt> {
        self.0.as_ref().and_then(|found| found.doubt)
    }

    /// Headers whose value was cut or held to its bound.
    pub fn clamped(&self) -> FieldSet {
        self.0.as_ref().map(|found| found.clamped).unwrap_or_default()
    }

    /// A delay that the `plain` spelling gave instead of a due time. It counts from the message's own timestamp, which
    /// only the broker knows.
    pub fn next_delay(&self) -> Option<Duration> {
        self.0.as_ref().and_then(|found| found.next_delay)
    }
}

impl From<Trail> for Carried {
    fn from(trail: Trail) -> Self {
        Self(Some(Box::new(Found { trail, ..Found::default() })))
    }
}

impl From<Decoded> for Carried {
    fn from(read: Decoded) -> Self {
        let Decoded { trail, next_delay, clamped, .. } = read;
        Self(Some(Box::new(Found { trail, clamped, next_delay, ..Found::default() })))
    }
}

impl Deref for Carried {
    type Target = Trail;

    fn deref(&self) -> &Trail {
        static FIRST: LazyLock<Trail> = LazyLock::new(Trail::default);
        self.0.as_ref().map_or_else(|| &*FIRST, |found| &found.trail)
    }
}
