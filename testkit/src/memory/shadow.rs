//! What a ledger knows of messages that a broker apart from it keeps.
//!
//! Each has a row in the ledger's own queue, the shadow of the message: it can be shown, held in a lane and sent again, and
//! it is handed out only when the ledger is the one that keeps the message.

use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Copied, EntryId, EntryState, Expected, HeaderRules, HistoryLine, Keeper, LaneName, Learned, Overdue,
    REROUTE_TO, ReadAt, Record, Recorded, Resolved, SourceRef, Standing, Taken, home_of,
};

use super::broker::{Ended, How, settle_row};
use super::entries::Kept;
use super::queue::{Place, Row};
use super::state::State;

/// What an entry knows of the broker apart.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    /// Who hands the message out next.
    pub(super) keeper: Keeper,
    /// Where the broker's copy lies.
    pub(super) copy: Option<SourceRef>,
    /// When a person did something to the entry last.
    pub(super) deed: Option<Timestamp>,
    /// Whether the entry is only taken to have recovered.
    pub(super) presumed: Option<Presumed>,
    /// Whether its body could not be read where it lies.
    pub(super) bodiless: bool,
}

/// An entry is only taken to have recovered.
#[derive(Debug, Clone)]
pub(super) struct Presumed {
    /// The lane that it was the head of.
    lane: Option<LaneName>,
}

impl Shadow {
    const fn new(keeper: Keeper, copy: Option<SourceRef>) -> Self {
        Self { keeper, copy, deed: None, presumed: None, bodiless: false }
    }
}

/// What a message that was found at the broker says beyond what is known.
enum News {
    Nothing,
    /// Where it lies.
    Place,
    /// What became of it since, and the lane that it is in front of again.
    Later(Option<LaneName>),
}

fn news(kept: &Kept, recorded: &Recorded, record: &Record) -> News {
    let entry = &kept.entry;
    let own = entry.flow == *record.flow && entry.message.id == *recorded.settlement.delivery.message.id;
    let Some(shadow) = kept.shadow.as_ref().filter(|shadow| own && shadow.keeper == Keeper::Broker) else {
        return News::Nothing;
    };
    let failed_since = record.at > entry.last_failed_at;
    let (more, as_many) = (record.attempts > entry.attempts, record.attempts == entry.attempts);
    let over = record.state != EntryState::Waiting;
    match (entry.state, &shadow.presumed) {
        (EntryState::Waiting, _) if failed_since || more || (as_many && over) => News::Later(None),
        (EntryState::Waiting, _) if as_many && shadow.copy != recorded.copy => News::Place,
        (EntryState::Dead | EntryState::Parked, _) if failed_since => News::Later(None),
        (EntryState::Dead | EntryState::Parked, _) if as_many && over && shadow.copy.is_none() => News::Place,
        (EntryState::Recovered, Some(presumed)) if failed_since || more || as_many => {
            News::Later(presumed.lane.clone())
        }
        _ => News::Nothing,
    }
}

/// A place where a message was published, and when.
pub(super) type Spot = (String, Option<i32>, Option<i64>, Timestamp);

pub(super) fn spot(read_at: &ReadAt) -> Spot {
    let ReadAt { source, published_at } = read_at;
    (source.name.to_string(), source.partition, source.offset, *published_at)
}

impl State {
    /// Writes down what a broker apart settles.
    pub(super) fn record_apart(&mut self, recorded: &Recorded, now: Timestamp) -> Taken {
        let settlement = &recorded.settlement;
        let delivery = &settlement.delivery;
        if let Some(handler) = &settlement.processed_by {
            self.marks.insert((handler.to_string(), delivery.message.id.to_string()), now);
        }
        let Some(record) = settlement.record.as_deref() else { return Taken::Taken };
        let mut settlement = settlement.clone();
        if let (Some(kept), Learned::Found { .. }) = (self.entries.get_mut(&record.entry), recorded.learned) {
            match news(kept, recorded, record) {
                News::Nothing => return Taken::Taken,
                News::Place => {
                    if let Some(shadow) = &mut kept.shadow {
                        shadow.copy.clone_from(&recorded.copy);
                    }
                    return Taken::Taken;
                }
                News::Later(lane) => settlement.lane = lane,
            }
        } else if let Some(kept) = self.entries.get_mut(&record.entry) {
            if kept.told.contains(record) {
                let is_last = kept.told.last() == Some(record);
                let shadow = kept.shadow.get_or_insert(Shadow::new(Keeper::Ledger, None));
                if is_last && shadow.copy.is_none() {
                    shadow.copy.clone_from(&recorded.copy);
                }
                return Taken::Taken;
            }
            // Somebody did something about it since. Only that it is over is news.
            let deed = kept.shadow.as_ref().and_then(|shadow| shadow.deed);
            if deed.is_some_and(|deed| deed >= record.at) && record.state.is_unresolved() {
                if let Some(attempt) = &record.attempt {
                    kept.tell(attempt.line(record.at, record.due_at));
                }
                kept.was_told(record);
                return Taken::Taken;
            }
        }
        let (queue, number, is_new) = self.shadow_row(recorded, record.entry);
        let how = How::Shadow { broker_keeps: recorded.keeper == Keeper::Broker };
        match settle_row(self, &queue, number, &settlement, how, now) {
            Some(Ended::GaveBack) => {
                if is_new {
                    self.queue(&queue).remove(number);
                }
                return Taken::GiveBack;
            }
            Some(Ended::Done { kept_here }) => {
                if let Some(kept) = self.entries.get_mut(&record.entry) {
                    let keeper = if kept_here { Keeper::Ledger } else { recorded.keeper };
                    let bodiless = recorded.learned == Learned::Found { bodiless: true };
                    kept.shadow = Some(Shadow { bodiless, ..Shadow::new(keeper, recorded.copy.clone()) });
                }
                if delivery.trail.entry_id.is_none() && delivery.source.offset.is_some() {
                    let published_at = delivery.ready_at;
                    let read_at = ReadAt { source: delivery.source.clone(), published_at };
                    self.spots.insert(spot(&read_at), record.entry);
                }
            }
            None => {}
        }
        Taken::Taken
    }

    /// The row of an entry, made when there is none.
    fn shadow_row(&mut self, recorded: &Recorded, entry: EntryId) -> (String, u64, bool) {
        let kept = self.entries.get(&entry).and_then(|kept| kept.row.clone());
        if let Some((queue, number)) = kept
            && self.queues.get(&queue).is_some_and(|queue| queue.row(number).is_some())
        {
            return (queue, number, false);
        }
        let settlement = &recorded.settlement;
        let delivery = &settlement.delivery;
        let flow = settlement.record.as_ref().map(|record| record.flow.to_string()).unwrap_or_default();
        let queue = home_of(&flow);
        let number = self.number();
        let mut row = Row::new(delivery.message.clone(), Place::Kept, delivery.ready_at);
        row.origin = Some(delivery.source.clone());
        self.queue(&queue).insert(number, row);
        (queue, number, true)
    }

    pub(super) fn expects(&self, flow: &str, copied: &Copied) -> Expected {
        let Some(kept) = self.entries.get(&copied.entry) else { return Expected::Unknown };
        if kept.entry.flow != flow || kept.entry.message.id != *copied.message {
            return Expected::Anothers;
        }
        let Some(shadow) = kept.shadow.as_ref().filter(|shadow| shadow.keeper == Keeper::Broker) else {
            return Expected::No;
        };
        let is_last = copied.attempts >= kept.entry.attempts;
        let wanted = match kept.entry.state {
            EntryState::Recovered if shadow.presumed.is_some() && is_last => return Expected::AfterAll,
            EntryState::Waiting if is_last => true,
            // It was written down here, and the broker may not have learned of it.
            EntryState::Waiting | EntryState::Dead | EntryState::Parked => shadow.copy.is_none(),
            _ => false,
        };
        if wanted { Expected::Yes } else { Expected::No }
    }

    pub(super) fn overdue(
        &self,
        flow: &str,
        before: Timestamp,
        after: Option<(Timestamp, EntryId)>,
        limit: usize,
    ) -> Vec<Overdue> {
        let of = |kept: &Kept| match &kept.shadow {
            Some(Shadow { keeper: Keeper::Broker, copy: Some(copy), .. }) => {
                let due_at = kept.entry.due_at.filter(|due| *due < before)?;
                Some(Overdue { entry: kept.entry.id, due_at, copy: copy.clone() })
            }
            _ => None,
        };
        let waits = |kept: &&Kept| kept.entry.flow == flow && kept.entry.state == EntryState::Waiting;
        let mut found: Vec<Overdue> = self.entries.values().filter(waits).filter_map(of).collect();
        found.retain(|one| after.is_none_or(|after| one.cursor() > after));
        found.sort_by_key(Overdue::cursor);
        found.truncate(limit);
        found
    }

    /// The broker has passed a copy without a word about it.
    pub(super) fn passed(&mut self, one: &Overdue, now: Timestamp) {
        let id = one.entry;
        let lane = self.own_lane_of(id);
        let Some(kept) = self.entries.get_mut(&id) else { return };
        if kept.entry.state != EntryState::Waiting || !kept.is_at_broker() {
            return;
        }
        let Some(shadow) = kept.shadow.as_mut().filter(|shadow| shadow.copy.as_ref() == Some(&one.copy))
        else {
            return;
        };
        shadow.presumed = Some(Presumed { lane });
        let row = kept.row.clone();
        let mut told = HistoryLine::new(now, "recovered");
        told.because = Some("the broker has passed its copy, and keeps no other".to_owned());
        kept.tell(told);
        let left = self.take_out(id);
        self.recover(id, now);
        if let Some((queue, number)) = row {
            self.queue(&queue).remove(number);
        }
        self.end_heads(id, now);
        if let Some(key) = left {
            self.go_on(&key, now);
        }
    }

    /// How a message stands whose place the ledger knows; nothing when it does not.
    pub(super) fn standing_at(&self, read_at: &ReadAt) -> Option<Standing> {
        let id = self.spots.get(&spot(read_at))?;
        let kept = self.entries.get(id)?;
        let open = matches!(kept.entry.state, EntryState::Waiting | EntryState::Dead | EntryState::Parked);
        if open && kept.is_at_broker() {
            return Some(Standing::Turn { skipped: Vec::new(), entry: Some(*id) });
        }
        Some(Standing::Known)
    }

    /// An entry whose copy lies at a broker has come to an end, or is open again.
    pub(super) fn note_resolved(&mut self, id: EntryId) {
        let Some(kept) = self.entries.get(&id) else { return };
        if kept.shadow.as_ref().is_some_and(|shadow| shadow.copy.is_some()) {
            let number = self.resolved.len() as u64 + 1;
            let resolved = Resolved { entry: id, state: kept.entry.state };
            self.resolved.push((number, kept.entry.flow.clone(), resolved));
        }
    }

    /// An entry has come to an end by a message that the ledger handed out: the broker does not know of it.
    pub(super) fn note_end(&mut self, id: EntryId) {
        let over = |kept: &&Kept| !kept.entry.state.is_unresolved() && !kept.is_at_broker();
        if self.entries.get(&id).as_ref().is_some_and(over) {
            self.note_resolved(id);
        }
    }

    /// Sends a message to another address. The broker apart is not in reach from here: the message says where it is to go.
    pub(super) fn send_elsewhere(
        &mut self,
        id: EntryId,
        target: &str,
        message: &Message,
        rules: &HeaderRules,
        now: Timestamp,
    ) {
        match self.entries.get(&id).filter(|kept| kept.shadow.is_some()) {
            Some(kept) => {
                let queue = home_of(&kept.entry.flow);
                let mut message = message.clone();
                message.headers.set(REROUTE_TO, target.to_owned());
                self.forward(&queue, &message, rules, now);
            }
            None => self.forward(target, message, rules, now),
        }
    }

    /// A person does something to an entry: from now on the ledger keeps its message.
    pub(super) fn takes_over(&mut self, id: EntryId, now: Timestamp) {
        if let Some(shadow) = self.entries.get_mut(&id).and_then(|kept| kept.shadow.as_mut()) {
            shadow.keeper = Keeper::Ledger;
            shadow.deed = Some(now);
        }
    }
}

impl Kept {
    pub(super) fn is_bodiless(&self) -> bool {
        self.shadow.as_ref().is_some_and(|shadow| shadow.bodiless)
    }

    pub(super) fn is_at_broker(&self) -> bool {
        self.shadow.as_ref().is_some_and(|shadow| shadow.keeper == Keeper::Broker)
    }
}
