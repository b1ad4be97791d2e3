//! Replays: audited jobs that send a frozen selection of entries back.

use redrive_core::Timestamp;
use redrive_core::guard::Rate;
use serde::{Deserialize, Serialize};

use super::{EntryId, EntryState, Filter};

/// What a replay would do. Nothing is changed by asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayPlan {
    /// How many entries the filter selects that can be sent.
    pub count: u64,
    /// How many it selects that cannot, by state.
    pub left_out: std::collections::BTreeMap<String, u64>,
    /// Some of them.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub sample: Vec<EntryId>,
    /// How many followers would be released.
    pub followers: u64,
    /// What to think about first.
    pub warnings: Vec<String>,
}

/// A replay to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReplay {
    /// Which entries. The selection is frozen when the replay is created.
    pub filter: Filter,
    /// Single entries instead of a filter.
    pub ids: Vec<String>,
    /// At most so many sends a second.
    pub rate: Option<Rate>,
    /// At most so many entries.
    pub max: Option<u64>,
    /// How many to send first and wait for; nothing means all at once.
    pub canary: Option<u64>,
}

/// Where a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReplayState {
    /// Created, and waits for approval.
    Planned,
    /// Sending.
    Running,
    /// Held by a person.
    Paused,
    /// Everything is sent and every outcome known.
    Done,
    /// Ended by a person; what was not sent stays where it was.
    Cancelled,
    /// Stopped itself: too many failed again.
    Stopped,
}

/// A replay and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Replay {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: EntryId,
    /// Where it stands.
    pub state: ReplayState,
    /// What was selected.
    pub filter: Filter,
    /// Who began it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// At most so many sends a second.
    pub rate: Option<Rate>,
    /// How many go first.
    pub canary: Option<u64>,
    /// Entries in the frozen selection.
    pub total: u64,
    /// Sent.
    pub sent: u64,
    /// Succeeded.
    pub recovered: u64,
    /// Failed again for good: dead or parked.
    pub failed: u64,
    /// Not sent, because they were no longer where they had been.
    pub skipped: u64,
}

/// What became of one entry of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReplayOutcome {
    /// Not sent yet.
    Pending,
    /// Sent; its outcome is open.
    Sent,
    /// Succeeded.
    Recovered,
    /// Failed again for good.
    Failed,
    /// No longer where it had been.
    Skipped,
}

/// One entry of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayItem {
    /// The entry.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub entry: EntryId,
    /// What became of it.
    pub outcome: ReplayOutcome,
    /// Where the entry stood when it was selected.
    pub was: EntryState,
}

/// How far one step of a replay came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayStep {
    /// Entries sent by this step.
    pub sent: u64,
    /// Where the replay stands after it.
    pub state: ReplayState,
}
