//! What ends a delivery.

use redrive_core::Timestamp;
use redrive_core::headers::Trail;

use super::{Delivery, LaneName, Record};

/// What becomes of a delivery. Whatever it is, the copy is durable before the original is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done: release it.
    Ack,
    /// Deliver it again when it is due.
    Delay {
        /// When.
        until: Timestamp,
    },
    /// Keep it in a lane: behind its failed head, behind a message it follows, or in quarantine. When the lane has
    /// opened meanwhile it goes on at once, and whatever is kept in that lane after it stays behind it; when its
    /// quarantine has ended meanwhile it comes again in a moment. When the message in front waits for this one in turn,
    /// it is parked. Only a lane's own head is given back as it was, without its record.
    Hold {
        /// The lane that keeps it.
        lane: LaneName,
    },
    /// To the dead letters.
    DeadLetter,
    /// To the parking lot.
    Park,
    /// Release it and publish the rejection event.
    Reject {
        /// The event, as JSON.
        event: bytes::Bytes,
        /// The address to publish it to.
        target: String,
    },
    /// Drop it; the record stays.
    Discard,
    /// Move it to another address of the same broker.
    Reroute {
        /// The address.
        target: String,
    },
    /// Give it back as it was: not attempted, not charged.
    Return,
}

/// One delivery, what becomes of it, and what is written down about it.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The delivery.
    pub delivery: Delivery,
    /// What becomes of it.
    pub outcome: Outcome,
    /// The message's own lane, in a flow that keeps order. A diversion holds it behind this message.
    pub lane: Option<LaneName>,
    /// What the copy carries; nothing where there is no copy.
    pub trail: Option<Box<Trail>>,
    /// What the ledger learns. A broker that shares the ledger's store writes it in the same transaction; else the
    /// engine hands it to the ledger afterwards.
    pub record: Option<Box<Record>>,
    /// Marks the message as processed by this handler, together with the release.
    pub processed_by: Option<std::sync::Arc<str>>,
}

impl Settlement {
    /// Ends a delivery without a word about it.
    pub const fn plain(delivery: Delivery, outcome: Outcome) -> Self {
        Self { delivery, outcome, lane: None, trail: None, record: None, processed_by: None }
    }
}
