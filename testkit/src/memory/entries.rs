//! Entries: what the ledger knows of a message that failed.

use std::collections::BTreeMap;

use redrive_core::headers::Field;
use redrive_core::{Class, Message, Reason, Timestamp};
use redrive_engine::port::{
    AttemptRecord, Entry, EntryId, EntryState, ErrorShown, HeaderRules, HistoryLine, LaneName, MessageShown,
    Record, ReplayOutcome, SafeToReplay, SourceRef, SourceShown,
};

use super::queue::Row;
use super::shadow::Shadow;
use super::state::State;

/// Lines that are kept of a history: the first, and the last of the rest.
const LINES: usize = 32;
/// Records that are remembered.
const TOLD: usize = 8;

/// An entry with what is not shown of it.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) history: Vec<HistoryLine>,
    /// Where the message lies: the queue and the row.
    pub(super) row: Option<(String, u64)>,
    /// Where a restore goes back to.
    pub(super) earlier: Option<(EntryState, Option<Timestamp>)>,
    pub(super) changed: Timestamp,
    /// Of a held entry the lane that keeps it, of a waiting one the lane that let it go, of one that was put away while it
    /// was held the lane that it is restored to.
    pub(super) lane: Option<LaneName>,
    /// The replay whose outcome is open.
    pub(super) replay: Option<EntryId>,
    /// What it was told last, so that the same told twice changes nothing.
    pub(super) told: Vec<Record>,
    /// What it knows of a broker apart.
    pub(super) shadow: Option<Shadow>,
}

/// What a message was when it was settled.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) message: Message,
    pub(super) source: SourceRef,
    pub(super) row: Option<(String, u64)>,
    pub(super) parent: Option<EntryId>,
}

impl State {
    /// Writes a record down.
    pub(super) fn record(&mut self, record: &Record) {
        let Some(carried) = self.carried.get(&record.entry).cloned() else { return };
        let kept = self.entries.entry(record.entry).or_insert_with(|| first(record, &carried));
        kept.row = carried.row;
        kept.changed = record.at;
        let entry = &mut kept.entry;
        entry.state = record.state;
        entry.due_at = record.due_at;
        entry.attempts = record.attempts;
        entry.held_behind = record.held.as_ref().and_then(|held| held.behind.clone());
        for (known, told) in [
            (&mut entry.message.kind, &record.message_type),
            (&mut entry.entity, &record.entity),
            (&mut entry.tenant, &record.tenant),
            (&mut entry.correlation_id, &record.correlation_id),
            (&mut entry.causation_id, &record.causation_id),
        ] {
            if told.is_some() {
                known.clone_from(told);
            }
        }
        if let Some(owner) = &record.owner {
            entry.owner = Some(owner.to_string());
        }
        let earlier: Vec<_> =
            record.earlier.iter().map(|attempt| attempt.line(attempt.ended_at(), None)).collect();
        let line = match &record.attempt {
            Some(attempt) => {
                failed(entry, attempt, record.at);
                attempt.line(record.at, record.due_at)
            }
            None => of_hold(entry, record),
        };
        earlier.into_iter().chain([line]).for_each(|line| kept.tell(line));
        let outcome = match record.state {
            EntryState::Recovered => ReplayOutcome::Recovered,
            EntryState::Waiting | EntryState::Held | EntryState::Replaying => return,
            _ => ReplayOutcome::Failed,
        };
        if let Some(replay) = kept.replay.take() {
            self.replayed(replay, record.entry, outcome, record.at);
        }
    }

    /// An entry whose message was released without a word has succeeded.
    pub(super) fn recover(&mut self, id: EntryId, now: Timestamp) {
        let Some(kept) = self.entries.get_mut(&id) else { return };
        kept.entry.state = EntryState::Recovered;
        kept.entry.due_at = None;
        kept.row = None;
        kept.changed = now;
        if let Some(replay) = kept.replay.take() {
            self.replayed(replay, id, ReplayOutcome::Recovered, now);
        }
    }

    /// Changes the row of an entry's message, when nobody has it in hand; answers with what the change does.
    pub(super) fn change_free<T>(&mut self, id: EntryId, change: impl FnOnce(&mut Row) -> T) -> Option<T> {
        let (queue, number) = self.entries.get(&id)?.row.clone()?;
        let queue = self.queues.get_mut(&queue)?;
        queue.row(number).filter(|row| !row.claimed)?;
        queue.change(number, change)
    }

    /// The rules of the queue that an entry's message lies in.
    pub(super) fn rules_of(&self, id: EntryId) -> HeaderRules {
        let queue = self.entries.get(&id).and_then(|kept| kept.row.as_ref());
        let queue = queue.and_then(|(queue, _)| self.queues.get(queue));
        queue.map(|queue| queue.rules.clone()).unwrap_or_default()
    }

    /// The entry with this id, or of the message with this id that failed last.
    pub(super) fn find(&self, id: &str) -> Option<EntryId> {
        if let Some(id) = EntryId::parse_str(id).ok().filter(|id| self.entries.contains_key(id)) {
            return Some(id);
        }
        let of_message = self.entries.values().filter(|kept| kept.entry.message.id == id);
        of_message.max_by_key(|kept| kept.entry.last_failed_at).map(|kept| kept.entry.id)
    }
}

impl Kept {
    pub(super) fn was_told(&mut self, record: &Record) {
        self.told.push(record.clone());
        if self.told.len() > TOLD {
            self.told.remove(0);
        }
    }

    pub(super) fn tell(&mut self, line: HistoryLine) {
        self.history.push(line);
        if self.history.len() > LINES {
            self.history.remove(1);
        }
    }
}

fn failed(entry: &mut Entry, attempt: &AttemptRecord, at: Timestamp) {
    entry.last_failed_at = at;
    entry.class = attempt.class;
    entry.reason = attempt.reason.clone();
    entry.group = attempt.group.to_string();
    entry.error = attempt.error();
    entry.http_status = attempt.status;
    entry.because.clone_from(&attempt.because);
    entry.handler_version = attempt.handler_version.as_deref().map(str::to_owned);
}

/// A record without a failed attempt: a success, or a message that is kept untried.
fn of_hold(entry: &mut Entry, record: &Record) -> HistoryLine {
    if let Some(held) = &record.held {
        if record.attempts == 0 {
            entry.reason = held.reason.clone();
        }
        entry.because.clone_from(&held.because);
    }
    record.line()
}

fn first(record: &Record, carried: &Carried) -> Kept {
    let message = &carried.message;
    let own = |name: &str| Field::of(name).is_some();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: BTreeMap<String, String> = message
        .headers
        .iter()
        .filter(|header| !own(header.name.as_str()))
        .map(|header| (header.name.as_str().to_owned(), text(header.value.as_deref().unwrap_or_default())))
        .collect();
    let entry = Entry {
        id: record.entry,
        flow: record.flow.to_string(),
        state: record.state,
        message: MessageShown {
            id: message.id.to_string(),
            key: message.key.as_deref().map(text),
            kind: record.message_type.clone(),
            content_type: message.content_type.as_ref().map(ToString::to_string),
            size: message.body.as_ref().map_or(0, |body| body.len() as u64),
            headers,
        },
        source: SourceShown {
            kind: carried.source.kind.to_string(),
            name: carried.source.name.to_string(),
            partition: carried.source.partition,
            offset: carried.source.offset,
            delivery: None,
        },
        attempts: 0,
        first_failed_at: record.at,
        last_failed_at: record.at,
        due_at: None,
        class: Class::Unknown,
        reason: Reason::UNKNOWN_FAILURE,
        group: String::new(),
        error: ErrorShown::default(),
        http_status: None,
        because: String::new(),
        handler_version: None,
        owner: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        parent_id: carried.parent,
        replays: 0,
        held_behind: None,
        followers: 0,
        safe_to_replay: SafeToReplay {
            verdict: "unknown".to_owned(),
            why: "nobody has said how the handler takes a repetition".to_owned(),
        },
    };
    Kept {
        entry,
        history: Vec::new(),
        row: None,
        earlier: None,
        changed: record.at,
        lane: None,
        replay: None,
        told: Vec::new(),
        shadow: None,
    }
}
