//! What the ledger shows of a message that failed.

use std::collections::BTreeMap;

use bytes::Bytes;
use redrive_core::{Class, ErrorLink, Reason, Timestamp};
use serde::{Deserialize, Serialize};

/// The id of an entry: a UUID of version 7, minted at the first durable diversion and carried in `x-entry-id`.
pub type EntryId = uuid::Uuid;

macro_rules! states {
    ($( $(#[$meta:meta])* $name:ident = $text:literal ),+ $(,)?) => {
        /// Where a message that failed stands.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum EntryState {
            $( $(#[$meta])* #[serde(rename = $text)] $name ),+
        }

        impl EntryState {
            /// Every state.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name as people write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }

        impl std::str::FromStr for EntryState {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = [$($text),+].join(", ");
                Self::ALL.iter().find(|state| state.as_str() == text).copied().ok_or_else(|| {
                    let found: String = text.chars().take(32).collect();
                    format!("`{found}` is not a state; expected one of {known}")
                })
            }
        }
    };
}

states! {
    /// A retry is due later.
    Waiting = "waiting",
    /// A follower in its lane, or quarantined.
    Held = "held",
    /// The machine gave up.
    Dead = "dead",
    /// A person is needed.
    Parked = "parked",
    /// Sent back by a replay, not finished yet.
    Replaying = "replaying",
    /// Succeeded after failing.
    Recovered = "recovered",
    /// Dropped on purpose.
    Discarded = "discarded",
    /// Rejected to the business.
    Rejected = "rejected",
    /// Put away by a person.
    Archived = "archived",
}

impl std::fmt::Display for EntryState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl EntryState {
    /// Whether somebody or something still has to act.
    pub const fn is_unresolved(self) -> bool {
        matches!(self, Self::Waiting | Self::Held | Self::Dead | Self::Parked | Self::Replaying)
    }

    /// Whether the message's body is still kept and can be sent again.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Recovered | Self::Rejected)
    }
}

/// An entry of the ledger, as JSON and in the console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// The entry's id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: EntryId,
    /// The flow.
    pub flow: String,
    /// Where it stands.
    pub state: EntryState,
    /// The message.
    pub message: MessageShown,
    /// Where it was read.
    pub source: SourceShown,
    /// Attempts made.
    pub attempts: u32,
    /// When it failed first.
    pub first_failed_at: Timestamp,
    /// When it failed last.
    pub last_failed_at: Timestamp,
    /// When the next attempt is due.
    pub due_at: Option<Timestamp>,
    /// The class of the last failure.
    pub class: Class,
    /// The reason of the last failure.
    pub reason: Reason,
    /// The failure group.
    pub group: String,
    /// The last error.
    pub error: ErrorShown,
    /// The HTTP status of the last answer.
    pub http_status: Option<u16>,
    /// Why it stands where it stands.
    pub because: String,
    /// The version of the handler that failed last.
    pub handler_version: Option<String>,
    /// Who owns the flow.
    pub owner: Option<String>,
    /// The business entity.
    pub entity: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// The causation id.
    pub causation_id: Option<String>,
    /// The entry that this is an edited copy of.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub parent_id: Option<EntryId>,
    /// How often it was replayed.
    pub replays: u32,
    /// The message it is held behind.
    pub held_behind: Option<String>,
    /// How many are held behind it.
    pub followers: u64,
    /// Whether sending it again is safe.
    pub safe_to_replay: SafeToReplay,
}

/// What is shown of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageShown {
    /// Its id.
    pub id: String,
    /// Its key; bytes that are no text are shown as `base64:…`.
    pub key: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its content type.
    pub content_type: Option<String>,
    /// The size of its body in bytes.
    pub size: u64,
    /// Its headers, without Redrive's own; the last value of each name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Where a message was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceShown {
    /// `embedded`, `kafka`, `rabbitmq`, `postgres`.
    pub kind: String,
    /// The queue or topic.
    pub name: String,
    /// The partition.
    pub partition: Option<i32>,
    /// The offset.
    pub offset: Option<i64>,
    /// The broker's name for the delivery, where it has one.
    pub delivery: Option<String>,
}

/// What is shown of an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorShown {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// What it said.
    pub message: String,
    /// Its causes, outermost first.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<BTreeMap<String, String>>"))]
    pub chain: Vec<ErrorLink>,
}

/// Whether sending a message again is safe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SafeToReplay {
    /// `yes`, `no` or `unknown`.
    pub verdict: String,
    /// Why.
    pub why: String,
}

/// One line of an entry's history: an attempt, a decision, what a person did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryLine {
    /// When.
    pub at: Timestamp,
    /// `attempt`, `replay`, `retry-now`, `discard` and so on.
    pub what: String,
    /// The number of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// The downstream calls that it was charged with: those that the handler said, or those of its retryers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// When the next attempt was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorShown>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// The version of the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_version: Option<String>,
    /// Who did it, when a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl HistoryLine {
    /// A line with nothing but a time and a name.
    pub fn new(at: Timestamp, what: impl Into<String>) -> Self {
        Self {
            at,
            what: what.into(),
            attempt: None,
            took_ms: None,
            calls: None,
            class: None,
            reason: None,
            decision: None,
            because: None,
            due_at: None,
            error: None,
            http_status: None,
            handler_version: None,
            by: None,
        }
    }
}

/// A message's bytes, as they were published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The body; nothing is a tombstone.
    pub body: Option<Bytes>,
    /// The content type.
    pub content_type: Option<String>,
}

/// A group of failures with one fingerprint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The fingerprint.
    pub id: String,
    /// The flow.
    pub flow: String,
    /// The class.
    pub class: Class,
    /// The reason.
    pub reason: Reason,
    /// The message type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// An error of the group, as it was said last.
    pub example: String,
    /// Entries by state; states without entries are left out.
    pub counts: BTreeMap<String, u64>,
    /// When one failed first.
    pub first_seen_at: Timestamp,
    /// When one failed last.
    pub last_seen_at: Timestamp,
}

/// How many entries of a flow stand in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateCount {
    /// The flow.
    pub flow: String,
    /// The state.
    pub state: EntryState,
    /// How many.
    pub count: u64,
    /// When the oldest of them failed first.
    pub oldest_at: Option<Timestamp>,
}

/// The ledger's counts: kept, not counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// By flow and state.
    pub states: Vec<StateCount>,
}
