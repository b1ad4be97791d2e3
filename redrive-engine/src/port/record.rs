//! What the engine tells the ledger when a message leaves its usual way.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::fingerprint::Fingerprint;
use redrive_core::{Class, ErrorLink, Reason, Timestamp};

use super::{EntryId, EntryState, ErrorShown, HistoryLine};

/// A change of one message's place. The ledger makes the entry at the first and brings it up to date at the later
/// ones; what a record leaves out stays as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The entry.
    pub entry: EntryId,
    /// The flow.
    pub flow: Arc<str>,
    /// Where the message stands now.
    pub state: EntryState,
    /// When.
    pub at: Timestamp,
    /// When the next attempt is due.
    pub due_at: Option<Timestamp>,
    /// The failed attempt behind it; nothing when it succeeded or when nothing was tried.
    pub attempt: Option<AttemptRecord>,
    /// The attempt that succeeded, when one did.
    pub succeeded: Option<Box<SucceededRecord>>,
    /// Failed attempts since the last record that stayed in hand, in place or blocking, oldest first. The first and the
    /// last ones, shortened; their numbers show what is left out.
    pub earlier: Vec<AttemptRecord>,
    /// Attempts made so far.
    pub attempts: u32,
    /// The message's type.
    pub message_type: Option<String>,
    /// The business entity.
    pub entity: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// The causation id.
    pub causation_id: Option<String>,
    /// Who owns the flow.
    pub owner: Option<Arc<str>>,
    /// Why it is kept without having been tried.
    pub held: Option<Box<HeldRecord>>,
    /// The replay that sent it, when one did.
    pub replay: Option<EntryId>,
}

/// A message that is kept without having been tried.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldRecord {
    /// The id of the message in front, when there is one.
    pub behind: Option<String>,
    /// The reason.
    pub reason: Reason,
    /// Why, for people.
    pub because: String,
}

/// The attempt that a message recovered by.
#[derive(Debug, Clone, PartialEq)]
pub struct SucceededRecord {
    /// Its number, from 1.
    pub number: u32,
    /// How long it took.
    pub took: Duration,
    /// The downstream calls that it made, at least 1.
    pub calls: u32,
    /// The version of the handler.
    pub handler_version: Option<Arc<str>>,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// Its number, from 1; 0 when the handler was not called.
    pub number: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The downstream calls that it was charged with, at least 1.
    pub calls: u32,
    /// The class.
    pub class: Class,
    /// The reason.
    pub reason: Reason,
    /// The failure group.
    pub group: Fingerprint,
    /// The cause chain, outermost first, bounded.
    pub chain: Vec<ErrorLink>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// An excerpt of the answer, redacted.
    pub response: Option<String>,
    /// What was decided: the action's name.
    pub decision: &'static str,
    /// Why, for people.
    pub because: String,
    /// The version of the handler.
    pub handler_version: Option<Arc<str>>,
}

impl Record {
    /// Its line in the entry's history.
    pub fn line(&self) -> HistoryLine {
        if let Some(attempt) = &self.attempt {
            return attempt.line(self.at, self.due_at);
        }
        let mut line = HistoryLine { due_at: self.due_at, ..HistoryLine::new(self.at, self.state.as_str()) };
        if let Some(held) = &self.held {
            line.reason = Some(held.reason.clone());
            line.because = Some(held.because.clone());
        }
        if let Some(succeeded) = &self.succeeded {
            line.attempt = Some(succeeded.number);
            line.took_ms = Some(succeeded.took.as_millis() as u64);
            line.calls = Some(succeeded.calls);
            line.handler_version = succeeded.handler_version.as_deref().map(str::to_owned);
        }
        line
    }
}

impl AttemptRecord {
    /// When it ended.
    pub fn ended_at(&self) -> Timestamp {
        self.started_at + self.took
    }

    /// Its line in an entry's history.
    pub fn line(&self, at: Timestamp, due_at: Option<Timestamp>) -> HistoryLine {
        let called = self.number > 0;
        HistoryLine {
            attempt: called.then_some(self.number),
            took_ms: called.then_some(self.took.as_millis() as u64),
            calls: called.then_some(self.calls),
            class: Some(self.class),
            reason: Some(self.reason.clone()),
            decision: Some(self.decision.to_owned()),
            because: Some(self.because.clone()),
            due_at,
            error: Some(self.error()),
            http_status: self.status,
            handler_version: self.handler_version.as_deref().map(str::to_owned),
            ..HistoryLine::new(at, if called { "attempt" } else { self.decision })
        }
    }

    /// Its error, as it is shown.
    pub fn error(&self) -> ErrorShown {
        let first = self.chain.first();
        ErrorShown {
            kind: first.map(|link| link.kind.clone()).filter(|kind| !kind.is_empty()),
            message: first.map(|link| link.message.clone()).unwrap_or_default(),
            chain: self.chain.clone(),
        }
    }
}
