//! A message in hand.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use redrive_core::Message;
use redrive_core::Timestamp;
use redrive_core::headers::Trail;
use serde::{Deserialize, Serialize};

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

/// A message handed out by a broker, until it is settled.
#[derive(Debug, Clone)]
pub struct Delivery {
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

/// The trail that a message carries. Most messages carry none, and a trail is large: only one that says something
/// takes room, so that a delivery can be handed from part to part.
#[derive(Debug, Clone, Default)]
pub struct Carried(Option<Box<Trail>>);

impl From<Trail> for Carried {
    fn from(trail: Trail) -> Self {
        Self(Some(Box::new(trail)))
    }
}

impl Deref for Carried {
    type Target = Trail;

    fn deref(&self) -> &Trail {
        static FIRST: LazyLock<Trail> = LazyLock::new(Trail::default);
        self.0.as_deref().unwrap_or_else(|| &*FIRST)
    }
}
