//! The writer's part of ending deliveries.

use std::time::Duration;

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_engine::fail;
use redrive_engine::port::{EntryState, LaneName, Refusal};
use rusqlite::{Statement, params};

use super::forward::{forward, open_target};
use super::{Item, Step, unknown};
use crate::fault::Done;
use crate::ledger::apart;
use crate::ledger::lanes::{self, Admission};
use crate::ledger::processed;
use crate::ledger::record::{self, Carrier, Move, Stored};
use crate::publish::{Insert, NewRow};
use crate::tx::Tx;

const DELETE: &str = "DELETE FROM messages WHERE id = ?1";
/// How long a message waits that was to be kept in a quarantine which has ended: a flow learns of that within a second, and
/// until then would give it back again and again.
const MOMENT: Duration = Duration::from_millis(250);

pub(super) fn settle_all(tx: &mut Tx<'_>, items: Vec<Item>) -> Done<Vec<(usize, Result<(), Refusal>)>> {
    let mut answers = Vec::with_capacity(items.len());
    let mut delete = tx.sql.prepare_cached(DELETE)?;
    for item in items {
        let place = item.place;
        let answer =
            if item.is_plain() { forget(tx, &mut delete, &item)? } else { settle_one(tx, item)?.map(drop) };
        answers.push((place, answer));
    }
    fail::point("sqlite.after_settle_write");
    Ok(answers)
}

/// Settles what never failed: its row goes, and nothing is written down.
fn forget(tx: &mut Tx<'_>, delete: &mut Statement<'_>, item: &Item) -> Done<Result<(), Refusal>> {
    if delete.execute([item.row])? == 0 {
        return Ok(Err(unknown(item.tag)));
    }
    tx.moved(item.tag.stream, item.from, None);
    tx.settled(item.tag.stream, item.row, None);
    Ok(Ok(()))
}

/// How a settlement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As it says.
    Settled,
    /// It is its lane's own head: nothing was written.
    GivenBack,
}

fn settle_one(tx: &mut Tx<'_>, item: Item) -> Done<Result<Ended, Refusal>> {
    if item.in_hand && !is_there(tx, &item)? {
        return Ok(Err(unknown(item.tag)));
    }
    let before = match &item.record {
        Some(told) => Stored::by_id(tx, told.record.entry)?,
        None if item.entry != 0 => Stored::by_eid(tx, item.entry)?,
        None => None,
    };
    settle_known(tx, item, before)
}

/// Settles a message whose entry is known to stand like this.
pub(crate) fn settle_known(
    tx: &mut Tx<'_>,
    mut item: Item,
    before: Option<Stored>,
) -> Done<Result<Ended, Refusal>> {
    let queue = item.tag.stream;
    let mut held_in = None;
    if let Step::Hold { lane } = &item.step {
        let lane = lane.clone();
        match admission(tx, &item, before.as_ref(), &lane)? {
            Admission::Keep => held_in = Some(lane),
            Admission::GiveBack => {
                if let Some(due) = item.from.filter(|_| item.in_hand) {
                    tx.back(queue, item.row, due);
                }
                return Ok(Ok(Ended::GivenBack));
            }
            Admission::Later => delay_instead(&mut item, tx.now + MOMENT),
            Admission::Circle => park_instead(&mut item),
        }
    }
    let known = before.as_ref();
    let to = match &item.step {
        Step::Release => release(tx, &item, known)?,
        Step::Keep { due } => keep(tx, &item, known, *due, None)?,
        Step::Hold { .. } => keep(tx, &item, known, None, held_in.as_ref())?,
        Step::Reject { event, target } => {
            let target_queue = match open_target(tx, target, event.len())? {
                Ok(queue) => queue,
                Err(refusal) => return Ok(Err(refusal)),
            };
            release(tx, &item, known)?;
            let id = tx.mint().hyphenated().to_string();
            let row = NewRow {
                mid: &id,
                due: Some(0),
                key: None,
                body: Some(event),
                headers: None,
                content_type: Some("application/cloudevents+json"),
                parent: None,
                twin: tx.meta(target_queue)?.home,
            };
            Insert::new(tx)?.row(tx, target_queue, &row)?;
            None
        }
        Step::Reroute { target, delivery } => {
            let size = delivery.message.body.as_ref().map_or(0, Bytes::len);
            let target_queue = match open_target(tx, target, size)? {
                Ok(queue) => queue,
                Err(refusal) => return Ok(Err(refusal)),
            };
            // An entry that stays open keeps its body; then the message goes on as a copy.
            let stays = item.record.as_ref().is_some_and(|told| told.record.state.is_open());
            let to = if stays { keep(tx, &item, known, None, None)? } else { release(tx, &item, known)? };
            forward(tx, target_queue, delivery, None)?;
            to
        }
    };
    if let Some((handler, mid)) = &item.processed {
        processed::mark(tx, handler, mid, tx.now)?;
    }
    tx.moved(queue, item.from, to);
    if item.in_hand {
        tx.settled(queue, item.row, to);
        apart::settled_at_home(tx, &item, before.as_ref())?;
    } else if let Some(due) = to {
        tx.arrived(queue, item.row, due);
    }
    // Last, since a lane that goes on may let this very message go.
    update_lanes(tx, &item, before.as_ref(), held_in.as_ref())?;
    Ok(Ok(Ended::Settled))
}

fn admission(tx: &Tx<'_>, item: &Item, before: Option<&Stored>, lane: &LaneName) -> Done<Admission> {
    let Some(told) = &item.record else { return Ok(Admission::GiveBack) };
    let flow = before.map_or(&*told.record.flow, |before| &before.flow);
    lanes::admit(tx, flow, told.record.entry, item.lane.as_ref(), lane)
}

/// A message whose quarantine has ended comes again.
fn delay_instead(item: &mut Item, until: Timestamp) {
    item.step = Step::Keep { due: Some(until.as_millis().max(1)) };
    if let Some(told) = &mut item.record {
        told.record.state = EntryState::Waiting;
        told.record.due_at = Some(until);
        if let Some(held) = &mut told.record.held {
            "its quarantine has ended".clone_into(&mut held.because);
        }
    }
}

/// A message that would wait for one which waits for it is put before a person.
fn park_instead(item: &mut Item) {
    item.step = Step::Keep { due: None };
    if let Some(told) = &mut item.record {
        told.record.state = EntryState::Parked;
        if let Some(held) = &mut told.record.held {
            held.because = format!("{}; but that one waits for it in turn", held.because);
        }
    }
}

fn update_lanes(
    tx: &mut Tx<'_>,
    item: &Item,
    before: Option<&Stored>,
    held_in: Option<&LaneName>,
) -> Done<()> {
    let diverted = match &item.step {
        Step::Keep { .. } | Step::Hold { .. } => {
            let away = |state| matches!(state, EntryState::Discarded | EntryState::Archived);
            item.record.as_ref().filter(|told| !away(told.record.state))
        }
        _ => None,
    };
    let Some(told) = diverted else {
        return before.map_or(Ok(()), |before| lanes::ended(tx, before));
    };
    let record = &told.record;
    let settled = lanes::Settled {
        flow: before.map_or(&*record.flow, |before| &before.flow),
        entry: record.entry,
        state: record.state,
        before,
        own: item.lane.as_ref(),
    };
    match held_in {
        Some(lane) => settled.kept(tx, lane),
        None => settled.diverted(tx),
    }
}

/// Keeps the row, deliverable from `due` on or not at all, and writes its record down. Answers with where it is now.
fn keep(
    tx: &mut Tx<'_>,
    item: &Item,
    before: Option<&Stored>,
    due: Option<i64>,
    lane: Option<&LaneName>,
) -> Done<Option<i64>> {
    let entry = tell(tx, item, before, Some(item.row), lane)?;
    tx.sql
        .prepare_cached(
            "UPDATE messages SET due = ?2, headers = coalesce(?3, headers), entry = coalesce(?4, entry)
             WHERE id = ?1",
        )?
        .execute(params![item.row, due, item.headers, entry])?;
    Ok(due)
}

/// Deletes the row and writes down what became of its entry. Answers with where it is now: nowhere.
fn release(tx: &mut Tx<'_>, item: &Item, before: Option<&Stored>) -> Done<Option<i64>> {
    tell(tx, item, before, None, None)?;
    tx.sql.prepare_cached(DELETE)?.execute([item.row])?;
    Ok(None)
}

/// Whether the row still stands where it was claimed: a second settlement of one delivery finds it elsewhere.
fn is_there(tx: &Tx<'_>, item: &Item) -> Done<bool> {
    let there = tx
        .sql
        .prepare_cached("SELECT 1 FROM messages WHERE id = ?1 AND due IS ?2")?
        .exists(params![item.row, item.from])?;
    Ok(there)
}

/// Writes the record down; answers with the entry. `row` is the message's row when it stays, `lane` the one that it is held
/// in.
fn tell(
    tx: &mut Tx<'_>,
    item: &Item,
    before: Option<&Stored>,
    row: Option<i64>,
    lane: Option<&LaneName>,
) -> Done<Option<i64>> {
    let entry = match (&item.record, before) {
        (Some(told), before) => {
            let home = tx.meta(item.tag.stream)?.home;
            let carrier = Carrier {
                delivery: &told.delivery,
                row,
                read_from: item.row,
                hash: told.hash.as_ref(),
                first_failure: told.first_failure,
                lane: lane.map(LaneName::as_str),
                apart: home,
            };
            Some(record::write_over(tx, before, &told.record, &carrier)?)
        }
        // Released without a word: it has succeeded.
        (None, Some(before)) if row.is_none() => {
            let done = Move { to: EntryState::Recovered, earlier: None, due: None, message: None };
            record::put(tx, before, &done, tx.now)?;
            Some(before.eid)
        }
        _ => None,
    };
    fail::point("sqlite.after_record");
    Ok(entry)
}
