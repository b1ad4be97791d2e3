//! Writing down what a broker apart settles.
//!
//! Each is the settlement of a message that has no row here yet: the row is made, or that of its entry is found, and then
//! it is settled like one of this file's own.

use std::sync::Arc;

use redrive_core::fingerprint::PayloadHash;
use redrive_core::{Text, Timestamp};
use redrive_engine::port::{
    EntryState, HeaderRules, Keeper, LaneName, Learned, Outcome, PortError, REROUTE_TO, Record, Recorded,
    Refusal, SourceRef, Tag, Taken,
};
use rusqlite::{OptionalExtension, params};

use super::place::{self, FirstRead};
use super::{Body, bodies, number_of};
use crate::fault::Done;
use crate::ledger::record::{self, Stored};
use crate::ledger::{processed, state};
use crate::publish::{Insert, NewRow};
use crate::settle::{self, Ended, Item, Step, Told};
use crate::store::Store;
use crate::tx::Tx;

pub(crate) async fn record(store: &Store, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError> {
    // Hashes and headers are made here, not on the writer's thread.
    let told: Vec<Telling> = recorded.iter().map(Telling::of).collect::<Result<_, _>>()?;
    let write = move |tx: &mut Tx<'_>| told.into_iter().map(|telling| telling.write(tx)).collect();
    store.inner.writer.run(write).await
}

/// What was settled, owned, with no more than the writer needs.
struct Telling {
    told: Option<Box<Told>>,
    headers: Vec<u8>,
    published: Option<Timestamp>,
    /// The lane that keeps it.
    hold: Option<LaneName>,
    lane: Option<LaneName>,
    processed: Option<(Arc<str>, Text)>,
    copy: Option<SourceRef>,
    keeper: Keeper,
    learned: Learned,
    /// Whether the body is left to the broker's copy, whose place is known.
    by_pointer: bool,
}

impl Telling {
    fn of(recorded: &Recorded) -> Result<Self, Refusal> {
        let settlement = &recorded.settlement;
        let mut delivery = settlement.delivery.clone();
        let first = FirstRead::of(&delivery);
        delivery.source = first.source.clone();
        delivery.message.headers.remove(REROUTE_TO);
        let processed =
            settlement.processed_by.as_ref().map(|handler| (handler.clone(), delivery.message.id.clone()));
        let hold = match &settlement.outcome {
            Outcome::Hold { lane } => Some(lane.clone()),
            _ => None,
        };
        let mut headers = Vec::new();
        let given = settlement.record.as_deref().filter(|_| settlement.outcome != Outcome::Return);
        let told = match given {
            None => None,
            Some(record) => {
                let record = stated(record, &settlement.outcome)?;
                let mut trail = settlement.trail.as_deref().unwrap_or(&delivery.trail).clone();
                trail.entry_id = Some(Text::from(record.entry.hyphenated().to_string()));
                first.tell(&mut trail);
                headers = settle::encoded(&delivery, &trail, &HeaderRules::default());
                let hash = Some(PayloadHash::of(delivery.message.body.as_deref().unwrap_or_default()));
                let first_failure = trail.first_failure_at;
                Some(Box::new(Told { record, delivery, hash, first_failure }))
            }
        };
        Ok(Self {
            told,
            headers,
            published: first.published,
            keeper: if hold.is_some() { Keeper::Ledger } else { recorded.keeper },
            hold,
            lane: settlement.lane.clone(),
            processed,
            copy: recorded.copy.clone(),
            learned: recorded.learned,
            by_pointer: recorded.by_pointer && recorded.copy.is_some(),
        })
    }

    fn write(mut self, tx: &mut Tx<'_>) -> Done<Taken> {
        let Some(told) = self.told.take() else {
            self.mark(tx)?;
            return Ok(Taken::Taken);
        };
        let before = Stored::by_id(tx, told.record.entry)?;
        if let (Some(before), Learned::Found { .. }) = (&before, self.learned) {
            match news(tx, before, &told, self.copy.as_ref())? {
                News::Nothing => return Ok(Taken::Taken),
                News::Place => {
                    self.put_copy(tx, before.eid)?;
                    self.put_body(tx, before, &told)?;
                    return Ok(Taken::Taken);
                }
                News::Later => {}
            }
            // It is in front of its lane again, when nobody else is.
            self.lane = before.presumed.as_deref().filter(|lane| !lane.is_empty()).map(LaneName::from_stored);
        } else if let Some(before) = &before {
            let key = key_of(&told.record);
            let is_last = before.told.as_deref() == Some(&*key);
            if is_last || record::has_line(tx, before.eid, &told.record)? {
                // Where a copy was found to lie is where it was moved to since.
                if is_last && place::of_copy(tx.sql, before.eid)?.is_none() {
                    self.note_copy(tx, before.eid, &told.record)?;
                    self.leave_body(tx, &told)?;
                } else if self.by_pointer && died_here(before, &told.record) {
                    self.put_copy(tx, before.eid)?;
                    self.leave_body(tx, &told)?;
                }
                return Ok(Taken::Taken);
            }
            if overruled(before, &told.record, self.keeper) {
                return self.only_history(tx, before, &told);
            }
        }
        let queue = tx.home(&told.record.flow)?;
        let Some(row) = Row::of(tx, before.as_ref())? else {
            // It is being handled from here: what becomes of it is known when that ends.
            return before.map_or(Ok(Taken::Taken), |before| self.only_history(tx, &before, &told));
        };
        // A body that is not here, and is to be left, does not come here for a moment either.
        let left = self.is_left(&told)
            && match &before {
                None => true,
                Some(before) => {
                    before.body != Body::Here && bodies::is_known_by(tx, before.eid, told.hash.as_ref())?
                }
            };
        if let (Some(before), Some(number)) = (&before, row.number)
            && before.body != Body::Here
            && !left
            && self.learned != (Learned::Found { bodiless: true })
        {
            // What was left to the broker, or could not be read, is in hand now.
            bodies::put(tx, before.eid, number, told.delivery.message.body.as_deref())?;
        }
        self.settle(tx, queue, &row, told, before, left)
    }

    /// Whether the body is not kept here: the broker hands the message out next, in the copy that carries it.
    fn is_left(&self, told: &Told) -> bool {
        let rests = matches!(told.record.state, EntryState::Waiting | EntryState::Dead | EntryState::Parked);
        let has_body = told.hash.is_some() && told.delivery.message.body.is_some();
        self.by_pointer && self.keeper == Keeper::Broker && rests && has_body
    }

    fn settle(
        mut self,
        tx: &mut Tx<'_>,
        queue: u32,
        row: &Row,
        told: Box<Told>,
        before: Option<Stored>,
        left: bool,
    ) -> Done<Taken> {
        let (record, hash) = (told.record.clone(), told.hash);
        let step = self.step(&record, tx.now);
        let is_new = row.number.is_none() && !matches!(step, Step::Release);
        let number = match row.number {
            Some(known) => known,
            None if is_new => self.insert(tx, queue, &told, left)?,
            None => 0,
        };
        let item = Item {
            place: 0,
            tag: Tag { stream: row.queue.unwrap_or(queue), epoch: 0, number: number.cast_unsigned() },
            row: number,
            from: row.due,
            entry: 0,
            in_hand: false,
            step,
            headers: (!is_new).then(|| std::mem::take(&mut self.headers)),
            record: Some(told),
            lane: self.lane.take(),
            processed: self.processed.take(),
        };
        match settle::settle_known(tx, item, before)?? {
            Ended::Settled => {
                self.note(tx, &record)?;
                if left {
                    bodies::left(tx, record.entry)?;
                } else if self.by_pointer && self.keeper == Keeper::Broker {
                    bodies::leave(tx, record.entry, hash.as_ref())?;
                }
            }
            Ended::GivenBack => {
                if is_new {
                    tx.sql.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([number])?;
                }
                return Ok(Taken::GiveBack);
            }
        }
        Ok(Taken::Taken)
    }

    /// What becomes of the row: the record says what the outcome does.
    fn step(&mut self, record: &Record, now: Timestamp) -> Step {
        if let Some(lane) = self.hold.take() {
            return Step::Hold { lane };
        }
        match (record.state, self.keeper) {
            (EntryState::Recovered | EntryState::Rejected, _) => Step::Release,
            (EntryState::Waiting, Keeper::Ledger) => {
                Step::Keep { due: Some(record.due_at.unwrap_or(now).as_millis().max(1)) }
            }
            _ => Step::Keep { due: None },
        }
    }

    fn insert(&self, tx: &mut Tx<'_>, queue: u32, told: &Told, left: bool) -> Done<i64> {
        let message = &told.delivery.message;
        let row = NewRow {
            mid: message.id.as_str(),
            due: None,
            key: message.key.as_deref(),
            body: message.body.as_deref().filter(|_| !left),
            headers: Some(&self.headers),
            content_type: message.content_type.as_deref(),
            parent: None,
            twin: true,
        };
        let inserted = Insert::new(tx)?.row(tx, queue, &row)?;
        inserted.ok_or_else(|| crate::fault::Fault::broken("a queue that takes ids twice did not take one"))
    }

    fn mark(&self, tx: &Tx<'_>) -> Done<()> {
        match &self.processed {
            Some((handler, mid)) => processed::mark(tx, handler, mid, tx.now),
            None => Ok(()),
        }
    }

    /// What the entry knows of its broker after this settlement. The place of an earlier copy is no longer true.
    fn note(&self, tx: &Tx<'_>, record: &Record) -> Done<()> {
        let is_unread = self.learned == (Learned::Found { bodiless: true });
        let copy = self.copy.as_ref();
        tx.sql
            .prepare_cached(
                "UPDATE entries SET keeper = ?2, published = coalesce(published, ?3), told = ?4, presumed = NULL,
                     bodiless = ?5, shelved = max(shelved, ?6), copy_due = coalesce(?7, copy_due), copy_kind = ?8,
                     copy_name = ?9, copy_partition = ?10, copy_position = ?11
                 WHERE id = ?1",
            )?
            .execute(params![
                &record.entry.as_bytes()[..],
                number_of(self.keeper),
                self.published.map(Timestamp::as_millis),
                key_of(record),
                if is_unread { Body::Unread } else { Body::Here }.number(),
                self.has_copy(record),
                self.copy_due(record),
                copy.map(|copy| &*copy.kind),
                copy.map(|copy| &*copy.name),
                copy.and_then(|copy| copy.partition),
                copy.and_then(|copy| copy.offset),
            ])?;
        Ok(())
    }

    /// Whether a copy may lie at the broker.
    fn has_copy(&self, record: &Record) -> bool {
        self.copy.is_some() || (self.keeper == Keeper::Broker && record.state.is_unresolved())
    }

    /// When the broker's copy is handed out.
    fn copy_due(&self, record: &Record) -> Option<i64> {
        let waits = self.keeper == Keeper::Broker && record.state == EntryState::Waiting;
        record.due_at.filter(|_| waits).map(Timestamp::as_millis)
    }

    /// What is known of the broker's copy.
    fn note_copy(&self, tx: &Tx<'_>, eid: i64, record: &Record) -> Done<()> {
        if !self.has_copy(record) {
            return Ok(());
        }
        tx.sql
            .prepare_cached(
                "UPDATE entries SET shelved = 1, copy_due = coalesce(?2, copy_due) WHERE eid = ?1",
            )?
            .execute(params![eid, self.copy_due(record)])?;
        self.put_copy(tx, eid)
    }

    /// The body lies in the broker's copy from now on.
    fn leave_body(&self, tx: &Tx<'_>, told: &Told) -> Done<()> {
        if self.by_pointer { bodies::leave(tx, told.record.entry, told.hash.as_ref()) } else { Ok(()) }
    }

    /// The copy of an entry lies elsewhere by now. When that one does not carry the body, the ledger has to.
    fn put_body(&self, tx: &Tx<'_>, before: &Stored, told: &Told) -> Done<()> {
        if self.copy.is_none() || self.by_pointer || before.body == Body::Here {
            return Ok(());
        }
        match (before.message, self.learned) {
            (None, _) => Ok(()),
            (Some(_), Learned::Found { bodiless: true }) => bodies::set(tx, before.eid, Body::Unread),
            (Some(row), _) => bodies::put(tx, before.eid, row, told.delivery.message.body.as_deref()),
        }
    }

    fn put_copy(&self, tx: &Tx<'_>, eid: i64) -> Done<()> {
        let Some(copy) = &self.copy else { return Ok(()) };
        tx.sql
            .prepare_cached(
                "UPDATE entries SET shelved = 1, copy_kind = ?2, copy_name = ?3, copy_partition = ?4,
                     copy_position = ?5
                 WHERE eid = ?1",
            )?
            .execute(params![eid, &*copy.kind, &*copy.name, copy.partition, copy.offset])?;
        Ok(())
    }

    /// The record comes too late to change anything: it is a line of the history.
    fn only_history(&self, tx: &Tx<'_>, before: &Stored, told: &Told) -> Done<Taken> {
        let record = &told.record;
        record::add_lines(tx, before.eid, record)?;
        tx.sql
            .prepare_cached("UPDATE entries SET told = ?2 WHERE eid = ?1")?
            .execute(params![before.eid, key_of(record)])?;
        self.note_copy(tx, before.eid, record)?;
        self.put_body(tx, before, told)?;
        self.mark(tx)?;
        Ok(Taken::Taken)
    }
}

/// The row of an entry's message, kept from the readers; nothing of it is known when there is none.
struct Row {
    number: Option<i64>,
    queue: Option<u32>,
    due: Option<i64>,
}

impl Row {
    /// Nothing when a reader has it in hand.
    fn of(tx: &mut Tx<'_>, before: Option<&Stored>) -> Done<Option<Self>> {
        let none = Self { number: None, queue: None, due: None };
        let Some(row) = before.and_then(|before| before.message) else { return Ok(Some(none)) };
        let found: Option<(u32, Option<i64>)> = tx
            .sql
            .prepare_cached("SELECT queue, due FROM messages WHERE id = ?1")?
            .query_row([row], |found| Ok((found.get(0)?, found.get(1)?)))
            .optional()?;
        let Some((queue, due)) = found else { return Ok(Some(none)) };
        Ok(tx.hold(queue, row, due).then_some(Self { number: Some(row), queue: Some(queue), due }))
    }
}

/// The record as it can be written down.
fn stated(record: &Record, outcome: &Outcome) -> Result<Record, Refusal> {
    let held = matches!(outcome, Outcome::Hold { .. });
    if held != (record.state == EntryState::Held) {
        let state = record.state;
        return Err(Refusal::Invalid(format!(
            "the outcome {outcome:?} does not go with the record's state: {state}"
        )));
    }
    let mut stated = record.clone();
    if let (None, Outcome::Delay { until }) = (record.due_at, outcome) {
        stated.due_at = Some(*until);
    }
    if stated.state == EntryState::Replaying {
        // Replays go through this file's own queue.
        stated.state = EntryState::Waiting;
    }
    Ok(stated)
}

/// What tells one settlement of an entry from another.
fn key_of(record: &Record) -> String {
    format!("{}.{}.{}", record.at.as_millis(), record.attempts, state::number(record.state))
}

/// What a message that was found at the broker says beyond what is known.
enum News {
    Nothing,
    /// Where it lies.
    Place,
    /// What became of it since.
    Later,
}

fn news(tx: &Tx<'_>, before: &Stored, told: &Told, lies: Option<&SourceRef>) -> Done<News> {
    use EntryState::{Dead, Parked, Recovered, Waiting};
    let record = &told.record;
    let own = before.flow == *record.flow && before.mid == told.delivery.message.id.as_str();
    if !own || before.keeper != Some(Keeper::Broker) {
        return Ok(News::Nothing);
    }
    let failed_since = record.at.as_millis() > before.last_failed;
    let more = record.attempts > before.attempts;
    let as_many = record.attempts == before.attempts;
    let over = record.state != Waiting;
    Ok(match before.state {
        Waiting if failed_since || more || (as_many && over) => News::Later,
        // It was moved on.
        Waiting if as_many && place::of_copy(tx.sql, before.eid)?.as_ref() != lies => News::Place,
        Dead | Parked if failed_since => News::Later,
        // The ledger was told first, and then nobody could say.
        Dead | Parked if as_many && over && place::of_copy(tx.sql, before.eid)?.is_none() => News::Place,
        Recovered if before.presumed.is_some() && (failed_since || more || as_many) => News::Later,
        _ => News::Nothing,
    })
}

/// Whether the entry stands where this record left it, and was handled from here: nobody has said where its copy lies.
fn died_here(before: &Stored, record: &Record) -> bool {
    before.keeper == Some(Keeper::Ledger)
        && before.state == record.state
        && before.last_failed == record.at.as_millis()
        && matches!(record.state, EntryState::Dead | EntryState::Parked)
}

/// Whether a record must not change what the entry is by now.
fn overruled(before: &Stored, record: &Record, keeper: Keeper) -> bool {
    let open = record.state.is_unresolved();
    if before.keeper != Some(Keeper::Broker) {
        // The message is here, and is handed out from here alone. What the broker settles of it was in hand before that,
        // or is told late; only that it came to an end is news, and not to a person who has decided since. Whoever sent
        // it once more at that moment has not decided against it: what has succeeded is not tried again.
        if !open && before.state == EntryState::Waiting {
            return false;
        }
        let by_person = before.person.is_some();
        return before.person.is_some_and(|person| person >= record.at.as_millis())
            || (open && (by_person || keeper == Keeper::Broker));
    }
    // One that was told first, because it had to be, has overtaken this one.
    let ended = !before.state.is_unresolved();
    ended && open && record.attempts <= before.attempts
}
