//! The port to a ledger: the searchable record of every message that failed.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive_core::{Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Actor, Asked, AuditLine, Broker, Control, Counts, Entry, EntryId, EntryState, Filter, Found, Group,
    HistoryLine, NewMessage, NewReplay, Order, Page, Payload, PortError, Replay, ReplayItem, ReplayPlan,
    ReplayState, ReplayStep, Resolved, Settlement, SourceRef, Standing,
};

/// The queue of the ledger's own store in which messages of a flow lie whose broker stands apart: followers, replays,
/// retries at once. The flow reads it beside its source.
pub fn home_of(flow: &str) -> String {
    format!("{flow}.ledger")
}

/// The header by which a message in [that queue](home_of) says that a person sends it to this address of the flow's broker.
pub const REROUTE_TO: &str = "x-reroute-to";

/// The header by which a waiting copy says that its body lies elsewhere, and where.
pub const BODY_AT: &str = "x-body-at";

/// A settlement of a broker that the ledger stands apart from.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The settlement, with its delivery, record and lane.
    pub settlement: Settlement,
    /// Where the broker keeps the copy, when it does and said so.
    pub copy: Option<SourceRef>,
    /// Who hands the message out next.
    pub keeper: Keeper,
    /// How the ledger comes to know of it.
    pub learned: Learned,
    /// Whether the body is left to the broker, whose copy carries it: the ledger keeps where that lies, and fetches the body
    /// when it is asked for. What the ledger hands out itself has its body there, whatever this says.
    pub by_pointer: bool,
}

/// An entry whose body lies at its broker alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// The entry.
    pub entry: EntryId,
    /// Its flow.
    pub flow: String,
    /// Where the copy lies that carries the body.
    pub place: SourceRef,
    /// The size of the body.
    pub size: u64,
}

/// What was found at the place of a [`Pointer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The entry.
    pub entry: EntryId,
    /// Where it was looked for.
    pub place: SourceRef,
    /// The body; nothing when there is none any more.
    pub body: Option<Bytes>,
}

/// How a ledger comes to know of what became of a message at a broker apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It was settled just now.
    Settled,
    /// It was read off the broker. It is taken where there is no such entry yet, or where it is newer than what is known
    /// of it: more attempts were made, the message waits elsewhere, or it came to an end where it was thought to wait or
    /// to have recovered. What people did, and what the ledger keeps itself, is never undone by it.
    Found {
        /// Whether its body could not be read: the entry is shown, and is not sent again.
        bodiless: bool,
    },
}

/// Who keeps a message that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The broker: the ledger has a copy to show, to replay and to hold a lane with.
    Broker,
    /// The ledger, in [its own queue](home_of).
    Ledger,
}

/// What the ledger did with one that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is written down, or was before.
    Taken,
    /// It is its lane's own head: nothing was written, and it is given back as it was.
    GiveBack,
}

/// A copy that came back from a broker apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its entry.
    pub entry: EntryId,
    /// The id of the message.
    pub message: Text,
    /// The attempts that it says were made.
    pub attempts: u32,
}

/// What a ledger says of a copy that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It is waited for.
    Yes,
    /// It went another way, or has come to an end: it is dropped.
    No,
    /// Its entry was only taken to have recovered ([`Ledger::passed`]), and here it is. It is told as
    /// [found](Learned::Found) before it is handed out, so that its entry and its lane are open again.
    AfterAll,
    /// There is no such entry. The ledger was not told yet, or was lost since.
    Unknown,
    /// The entry that it names is another message's, or another flow's.
    Anothers,
}

/// An entry that waits at a broker apart and should have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The entry.
    pub entry: EntryId,
    /// When it was due.
    pub due_at: Timestamp,
    /// Where its copy lies, as far as is known.
    pub copy: SourceRef,
}

impl Overdue {
    /// Where the next page begins.
    pub const fn cursor(&self) -> (Timestamp, EntryId) {
        (self.due_at, self.entry)
    }
}

/// What a person does to entries. Each is one transaction with its audit line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Try a waiting message at once, or a dead or parked one again, by its policy from the start.
    RetryNow,
    /// Take a waiting retry back: the message is parked.
    Cancel,
    /// Put aside for a person.
    Park,
    /// Drop; can be undone until retention takes it.
    Discard,
    /// Undo a discard or an archiving: back to where it was.
    Restore,
    /// Put away for good.
    Archive,
    /// Send to another address of the same broker.
    Reroute(String),
    /// Take out of its lane, which goes on without it: the message is parked, or stays where a person has to act.
    Skip,
}

impl Deed {
    /// The command's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RetryNow => "retry-now",
            Self::Cancel => "cancel",
            Self::Park => "park",
            Self::Discard => "discard",
            Self::Restore => "restore",
            Self::Archive => "archive",
            Self::Reroute(_) => "reroute",
            Self::Skip => "skip",
        }
    }
}

/// Which entries a deed is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each call of a person")]
pub enum Selection {
    /// These, by entry id or message id.
    Ids(Vec<String>),
    /// All that fit.
    Filter(Filter),
}

/// What a deed did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeedReport {
    /// Entries changed.
    pub done: u64,
    /// Entries whose state does not allow it, with the reason; at most 100 are named.
    pub refused: Vec<(String, String)>,
    /// Ids that are not there.
    pub missing: Vec<String>,
}

/// How long entries are kept, by state; nothing means for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Recovered, rejected.
    pub finished: Option<Duration>,
    /// Discarded.
    pub discarded: Option<Duration>,
    /// Archived.
    pub archived: Option<Duration>,
    /// Marks of processed messages.
    pub processed: Option<Duration>,
}

impl Default for Retention {
    /// Fourteen days for what is finished or discarded, for ever for the rest; marks seven days.
    fn default() -> Self {
        let days = |n: u64| Some(Duration::from_secs(n * 86_400));
        Self { finished: days(14), discarded: days(14), archived: None, processed: days(7) }
    }
}

/// Something in the ledger that cannot be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Which invariant.
    pub invariant: String,
    /// What was found.
    pub found: String,
}

/// The port to a ledger.
#[async_trait]
pub trait Ledger: std::fmt::Debug + Send + Sync + 'static {
    /// Writes down what a broker settles that this ledger stands apart from, with the bodies: entries, lanes and marks
    /// of processed messages, in one transaction. The same one given twice changes nothing.
    async fn record(&self, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError>;

    /// Which of these copies, that a broker apart hands out, are still expected, in their order.
    async fn expected(&self, flow: &str, copies: &[Copied]) -> Result<Vec<Expected>, PortError>;

    /// Entries of a flow that wait at a broker apart and should have come before `before`, with the place of their copy,
    /// by their due time, behind a [cursor](Overdue::cursor).
    async fn overdue(
        &self,
        flow: &str,
        before: Timestamp,
        after: Option<(Timestamp, EntryId)>,
        limit: usize,
    ) -> Result<Vec<Overdue>, PortError>;

    /// The broker has passed these copies, and keeps nothing else of their entries: those that still wait for that very
    /// copy are taken to have recovered. It is a presumption, which a copy that comes after all refutes.
    async fn passed(&self, copies: &[Overdue], now: Timestamp) -> Result<(), PortError>;

    /// What people brought to an end of a flow whose broker stands apart, opened again, or put aside while the broker had
    /// it, in the order in which they did, after a number.
    async fn resolved(&self, flow: &str, after: u64, limit: usize)
    -> Result<Vec<(u64, Resolved)>, PortError>;

    /// From now on this broker is asked for the bodies of the flow's entries that were [left to it](Recorded::by_pointer).
    fn fetches_from(&self, flow: &str, broker: Weak<dyn Broker>) {
        let _ = (flow, broker);
    }

    /// Of each partition in which bodies of the flow's entries lie that the ledger has not, the lowest place of one.
    async fn lowest_pointers(&self, flow: &str) -> Result<Vec<SourceRef>, PortError> {
        let _ = flow;
        Ok(Vec::new())
    }

    /// Entries of the flow whose bodies lie in the partition of this place and before it, the lowest first.
    async fn pointers_before(
        &self,
        flow: &str,
        place: &SourceRef,
        limit: usize,
    ) -> Result<Vec<Pointer>, PortError> {
        let _ = (flow, place, limit);
        Ok(Vec::new())
    }

    /// Keeps bodies that were fetched, durably. One that is not the entry's own, since the place was made anew, is as good as
    /// gone: the entry then says so, and where it was. Answers with how many are found to be gone.
    async fn keep_bodies(&self, fetched: Vec<Fetched>) -> Result<u64, PortError> {
        let _ = fetched;
        Ok(0)
    }

    /// A position that was kept under this name.
    async fn position(&self, name: &str) -> Result<Option<String>, PortError>;

    /// Keeps a position.
    async fn keep_position(&self, name: &str, position: &str) -> Result<(), PortError>;

    /// One entry, by its own id or its message's.
    async fn entry(&self, id: &str) -> Result<Option<Entry>, PortError>;

    /// Every kept attempt, decision and deed of an entry, oldest first. The first and the last are always kept.
    async fn history(&self, id: EntryId) -> Result<Vec<HistoryLine>, PortError>;

    /// The message's bytes, while they are kept. Those that lie at a broker are fetched there, and are refused by the name of
    /// their place when that cannot be.
    async fn payload(&self, id: EntryId) -> Result<Option<Payload>, PortError>;

    /// Entries that fit, the one that failed last first.
    async fn search(&self, filter: &Filter, page: &Page) -> Result<Found, PortError>;

    /// Failure groups with open entries, the largest first.
    async fn groups(&self, flow: Option<&str>, limit: usize) -> Result<Vec<Group>, PortError>;

    /// Kept counts.
    async fn counts(&self) -> Result<Counts, PortError>;

    /// How each of these messages of a flow stands in its lane, in their order.
    async fn standings(&self, flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError>;

    /// Lanes of a flow that are held.
    async fn held_lanes(&self, flow: &str) -> Result<u64, PortError>;

    /// The controls in force.
    async fn controls(&self) -> Result<Vec<Control>, PortError>;

    /// Puts an order in force, with its line in the audit; answers with how many messages it touched. An order that
    /// changes nothing is refused.
    async fn order(&self, flow: &str, order: &Order, actor: &Actor, now: Timestamp)
    -> Result<u64, PortError>;

    /// Does something to entries, in steps that do not stall the flow.
    async fn act(
        &self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DeedReport, PortError>;

    /// Publishes an edited copy as a new message with its parent's id; answers with the new message's id. What is not
    /// given is the parent's: see [`NewMessage::as_copy_of`].
    async fn copy(
        &self,
        id: &str,
        edited: NewMessage,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, PortError>;

    /// Adds a line to the audit.
    async fn note(
        &self,
        actor: &Actor,
        what: &str,
        subject: &str,
        count: u64,
        now: Timestamp,
    ) -> Result<(), PortError>;

    /// Lines of the audit, newest first, before the given number.
    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, PortError>;

    /// Which of these messages the handler has processed, in their order.
    async fn processed(&self, handler: &str, ids: &[&str]) -> Result<Vec<bool>, PortError>;

    /// Marks messages as processed by the handler.
    async fn mark_processed(&self, handler: &str, ids: &[&str], now: Timestamp) -> Result<(), PortError>;

    /// What a replay would do.
    async fn plan_replay(&self, replay: &NewReplay, now: Timestamp) -> Result<ReplayPlan, PortError>;

    /// Freezes the selection and begins.
    async fn begin_replay(
        &self,
        id: EntryId,
        replay: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError>;

    /// Sends at most `limit` of the replay's pending entries back, each in one transaction with its mark, so that
    /// none is sent twice however often this is called and wherever it is interrupted.
    async fn step_replay(&self, id: EntryId, limit: u64, now: Timestamp) -> Result<ReplayStep, PortError>;

    /// Pauses, resumes or cancels.
    async fn steer_replay(
        &self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError>;

    /// Replays, newest first.
    async fn replays(&self, limit: usize) -> Result<Vec<Replay>, PortError>;

    /// One replay.
    async fn replay(&self, id: EntryId) -> Result<Option<Replay>, PortError>;

    /// The entries of a replay, in the order in which they are sent.
    async fn replay_items(&self, id: EntryId, after: u64, limit: usize)
    -> Result<Vec<ReplayItem>, PortError>;

    /// Removes what retention no longer keeps, at most `limit` entries, and says how many were removed.
    async fn tidy(&self, retention: &Retention, limit: u64, now: Timestamp) -> Result<u64, PortError>;

    /// Looks for what cannot be right.
    async fn check(&self) -> Result<Vec<Problem>, PortError>;

    /// Entries that stand in a state, for a metric or a state line.
    async fn count(&self, flow: &str, state: EntryState) -> Result<u64, PortError>;
}
