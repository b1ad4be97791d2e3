//! Lanes: the messages that have to be handled one after the other.
//!
//! A lane is open, or held behind its failed head. What holds it is written down in the ledger, in the transaction that
//! settles the head, so that no follower slips by and none is left behind:
//!
//! - A diversion whose settlement names the message's own lane holds that lane behind the message.
//! - [`Outcome::Hold`](super::Outcome::Hold) keeps a message in a lane, in the order of arrival. When the lane has opened
//!   meanwhile, the message goes on at once, and whoever is kept after it stays behind it: what was taken in meanwhile
//!   cannot overtake it.
//! - When the head's entry comes to an end (recovered, discarded, rejected, archived, rerouted or skipped), the next
//!   messages are let go, in order. Until they are all through, whoever arrives is kept behind them.

use std::fmt;
use std::sync::Arc;

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{EntryId, SourceRef};

/// The longest key that is kept as it is; a longer one is kept by its hash.
const LONGEST: usize = 300;

/// The name of a lane within its flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneName(Arc<str>);

impl LaneName {
    /// The lane of an order key.
    pub fn of_key(key: &[u8]) -> Self {
        match std::str::from_utf8(key) {
            Ok(text) if text.len() <= LONGEST => Self(format!("key:{text}").into()),
            _ => {
                let hash = Sha256::digest(key);
                let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                Self(format!("hash:{hex}").into())
            }
        }
    }

    /// The lane of those who follow one message by their own wish.
    pub fn after(entry: EntryId) -> Self {
        Self(format!("after:{entry}").into())
    }

    /// The lane of what a quarantine keeps.
    pub fn of_quarantine(quarantine: &str) -> Self {
        Self(format!("quarantine:{quarantine}").into())
    }

    /// The entry that a lane of followers was made for.
    pub fn followed(&self) -> Option<EntryId> {
        self.0.strip_prefix("after:").and_then(|id| EntryId::parse_str(id).ok())
    }

    /// Whether only a person opens it.
    pub fn is_quarantine(&self) -> bool {
        self.0.starts_with("quarantine:")
    }

    /// The name as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that was stored.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message asks how it stands in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The lane.
    pub lane: LaneName,
    /// The message's entry, when it has one.
    pub entry: Option<EntryId>,
    /// Where a message without an entry was read. A ledger that stands apart from the broker may have written it down
    /// from there already, when the broker did not learn of it.
    pub read_at: Option<ReadAt>,
}

/// Where a message was read, and when it was published there: a place can be used a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAt {
    /// The place.
    pub source: SourceRef,
    /// The time.
    pub published_at: Timestamp,
}

/// How a message stands in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody holds the lane.
    Open,
    /// The lane is held, and it is this message's turn: it is the head, or was let go.
    Turn {
        /// The ids of messages that a person took out of the lane before it; at most 16.
        skipped: Vec<String>,
        /// Its entry, when it does not carry the id itself: it was written down from the same place before.
        entry: Option<EntryId>,
    },
    /// The ledger has it already, from the same place: it is released without being tried.
    Known,
    /// It has to be kept behind others.
    Behind {
        /// The id of the message in front, as far as there is one.
        head: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_kind_and_stays_short() {
        let entry = EntryId::from_u128(7);
        assert_eq!(LaneName::of_key(b"customer-1").as_str(), "key:customer-1");
        assert_eq!(LaneName::after(entry).followed(), Some(entry));
        assert_eq!(LaneName::of_key(LaneName::after(entry).as_str().as_bytes()).followed(), None);
        assert!(LaneName::of_quarantine("tenant=acme").is_quarantine());
        assert!(!LaneName::of_key(b"quarantine:tenant=acme").is_quarantine());
        let long = LaneName::of_key(&[0xff; 5_000]);
        assert!(long.as_str().len() < 80);
        assert_ne!(long, LaneName::of_key(&[0xff; 5_001]));
    }
}
