//! Ending deliveries, each with its record, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive_core::fingerprint::PayloadHash;
use redrive_core::headers::{self, Spelling, Trail};
use redrive_core::{Text, Timestamp};
use redrive_engine::fail;
use redrive_engine::port::{
    Delivery, EntryState, LaneName, Outcome, PortError, Record, Refusal, Settlement, Tag,
};
use rusqlite::{Statement, params};

use crate::codec;
use crate::fault::Done;
use crate::ledger::lanes::{self, Admission};
use crate::ledger::processed;
use crate::ledger::record::{self, Carrier, Move, Stored};
use crate::publish::{self, Insert, NewRow, queue_name};
use crate::reading::Claim;
use crate::store::Store;
use crate::tx::Tx;

const DELETE: &str = "DELETE FROM messages WHERE id = ?1";
/// How long a message waits that was to be kept in a quarantine which has ended: a flow learns of that within a second, and
/// until then would give it back again and again.
const MOMENT: Duration = Duration::from_millis(250);

/// A settlement, owned, with no more than the writer needs.
struct Item {
    place: usize,
    tag: Tag,
    row: i64,
    claim: Claim,
    step: Step,
    /// The headers that the copy carries, encoded.
    headers: Option<Vec<u8>>,
    record: Option<Box<Told>>,
    /// The message's own lane.
    lane: Option<LaneName>,
    processed: Option<(Arc<str>, Text)>,
}

impl Item {
    /// Whether it is a message that succeeds at once: nothing but its row is to go.
    fn is_plain(&self) -> bool {
        matches!(self.step, Step::Release)
            && self.record.is_none()
            && self.claim.entry == 0
            && self.processed.is_none()
    }
}

/// A record and the message it is about.
struct Told {
    record: Record,
    delivery: Delivery,
    hash: Option<PayloadHash>,
    first_failure: Option<Timestamp>,
}

enum Step {
    Release,
    Keep { due: Option<i64> },
    Hold { lane: LaneName },
    Reject { event: Bytes, target: String },
    Reroute { target: String, delivery: Box<Delivery> },
}

pub(crate) async fn settle(store: &Store, batch: &[Settlement]) -> Vec<Result<(), PortError>> {
    let claims = claims_of(store, batch);
    let mut answers: Vec<Result<(), PortError>> = Vec::with_capacity(batch.len());
    let mut items = Vec::with_capacity(batch.len());
    for ((place, settlement), claim) in batch.iter().enumerate().zip(claims) {
        let answer = match claim {
            None => Err(unknown(settlement.delivery.tag)),
            Some(_) if settlement.outcome == Outcome::Return => Ok(()),
            Some(claim) => item(place, settlement, claim).map(|item| items.push(item)),
        };
        answers.push(answer.map_err(PortError::Refused));
    }
    if items.is_empty() {
        return answers;
    }
    let places: Vec<usize> = items.iter().map(|item| item.place).collect();
    match store.inner.writer.run(move |tx| settle_all(tx, items)).await {
        Ok(settled) => {
            for (place, answer) in settled {
                answers[place] = answer.map_err(PortError::Refused);
            }
        }
        Err(error) => {
            for place in places {
                answers[place] = Err(error.clone());
            }
        }
    }
    answers
}

fn unknown(tag: Tag) -> Refusal {
    Refusal::NotFound { what: "delivery", name: format!("{}/{}/{}", tag.stream, tag.epoch, tag.number) }
}

/// The claims behind a batch, nothing where there is none. What is given back is put where it was, without a write.
///
/// A queue's reader and its writer share one lock, so it is taken once for all neighbours of one queue.
fn claims_of(store: &Store, batch: &[Settlement]) -> Vec<Option<Claim>> {
    let mut claims = Vec::with_capacity(batch.len());
    for of_queue in batch.chunk_by(|one, next| one.delivery.tag.stream == next.delivery.tag.stream) {
        let Some(first) = of_queue.first() else { continue };
        let reading = store.inner.readings.of(first.delivery.tag.stream);
        let mut state = reading.lock();
        for settlement in of_queue {
            let tag = settlement.delivery.tag;
            let row = tag.number.cast_signed();
            let claim = state.claims.get(&row).copied().filter(|_| state.epoch == tag.epoch);
            claims.push(claim);
            if let (Some(claim), Outcome::Return) = (claim, &settlement.outcome) {
                state.release(row, Some(claim.due));
                state.given_back = true;
            }
        }
        if state.given_back {
            reading.news.notify_one();
        }
    }
    claims
}

/// What the writer needs of a settlement.
fn item(place: usize, settlement: &Settlement, claim: Claim) -> Result<Item, Refusal> {
    let delivery = &settlement.delivery;
    check_state(&settlement.outcome, settlement.record.as_deref(), claim)?;
    let step = match &settlement.outcome {
        Outcome::Ack | Outcome::Return => Step::Release,
        Outcome::Delay { until } => Step::Keep { due: Some(until.as_millis().max(1)) },
        Outcome::DeadLetter | Outcome::Park | Outcome::Discard => Step::Keep { due: None },
        Outcome::Hold { lane } => Step::Hold { lane: lane.clone() },
        Outcome::Reject { event, target } => {
            Step::Reject { event: event.clone(), target: queue_name(target).to_owned() }
        }
        Outcome::Reroute { target } => {
            Step::Reroute { target: queue_name(target).to_owned(), delivery: Box::new(delivery.clone()) }
        }
    };
    let headers = match (&step, &settlement.trail) {
        (Step::Keep { .. } | Step::Hold { .. }, Some(trail)) => Some(encoded(delivery, trail)),
        _ => None,
    };
    let record = settlement.record.as_deref().map(|record| {
        // The hash is made here, not on the writer's thread: a large body takes milliseconds.
        let hash =
            (claim.entry == 0).then(|| PayloadHash::of(delivery.message.body.as_deref().unwrap_or_default()));
        let trail = settlement.trail.as_deref().unwrap_or(&delivery.trail);
        let first_failure = trail.first_failure_at;
        Box::new(Told { record: record.clone(), delivery: delivery.clone(), hash, first_failure })
    });
    let processed =
        settlement.processed_by.as_ref().map(|handler| (handler.clone(), delivery.message.id.clone()));
    Ok(Item {
        place,
        tag: delivery.tag,
        row: delivery.tag.number.cast_signed(),
        claim,
        step,
        headers,
        record,
        lane: settlement.lane.clone(),
        processed,
    })
}

fn encoded(delivery: &Delivery, trail: &Trail) -> Vec<u8> {
    let mut all = delivery.message.headers.clone();
    headers::encode(trail, &mut all, Spelling::Default);
    // An empty list is written too: it replaces what was there.
    codec::encode(&all).unwrap_or_else(|| vec![0])
}

/// A record has to say what the outcome does: an entry and its message's row never disagree.
fn check_state(outcome: &Outcome, record: Option<&Record>, claim: Claim) -> Result<(), Refusal> {
    use EntryState::{Dead, Discarded, Held, Parked, Recovered, Rejected, Replaying, Waiting};
    let fits = match (outcome, record.map(|record| record.state)) {
        (Outcome::Return | Outcome::Reroute { .. }, _) | (Outcome::Ack | Outcome::Reject { .. }, None) => {
            true
        }
        (Outcome::Delay { .. }, None) => claim.entry == 0,
        (_, None) => false,
        (Outcome::Ack, Some(state)) => matches!(state, Recovered | Rejected),
        (Outcome::Delay { .. }, Some(state)) => matches!(state, Waiting | Replaying),
        (Outcome::Hold { .. }, Some(state)) => state == Held,
        (Outcome::DeadLetter, Some(state)) => state == Dead,
        (Outcome::Park, Some(state)) => state == Parked,
        (Outcome::Reject { .. }, Some(state)) => state == Rejected,
        (Outcome::Discard, Some(state)) => state == Discarded,
    };
    if fits {
        return Ok(());
    }
    let state = record.map_or("no record", |record| record.state.as_str());
    Err(Refusal::Invalid(format!("the outcome {outcome:?} does not go with the record's state: {state}")))
}

fn settle_all(tx: &mut Tx<'_>, items: Vec<Item>) -> Done<Vec<(usize, Result<(), Refusal>)>> {
    let mut answers = Vec::with_capacity(items.len());
    let mut delete = tx.sql.prepare_cached(DELETE)?;
    for item in items {
        let place = item.place;
        let answer = if item.is_plain() { forget(tx, &mut delete, &item)? } else { settle_one(tx, item)? };
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
    tx.moved(item.tag.stream, Some(item.claim.due), None);
    tx.settled(item.tag.stream, item.row, None);
    Ok(Ok(()))
}

fn settle_one(tx: &mut Tx<'_>, mut item: Item) -> Done<Result<(), Refusal>> {
    let queue = item.tag.stream;
    let from = Some(item.claim.due);
    if !is_there(tx, &item)? {
        return Ok(Err(unknown(item.tag)));
    }
    let mut held_in = None;
    if let Step::Hold { lane } = &item.step {
        let lane = lane.clone();
        match admission(tx, &item, &lane)? {
            Admission::Keep => held_in = Some(lane),
            Admission::GiveBack => {
                tx.back(queue, item.row, item.claim.due);
                return Ok(Ok(()));
            }
            Admission::Later => delay_instead(&mut item, tx.now + MOMENT),
            Admission::Circle => park_instead(&mut item),
        }
    }
    let (to, written) = match &item.step {
        Step::Release => (None, release(tx, &item)?),
        Step::Keep { due } => (*due, keep(tx, &item, *due, None)?),
        Step::Hold { .. } => (None, keep(tx, &item, None, held_in.as_ref())?),
        Step::Reject { event, target } => {
            let target_queue = match open_target(tx, target, event.len())? {
                Ok(queue) => queue,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let written = release(tx, &item)?;
            let id = tx.mint().hyphenated().to_string();
            let row = NewRow {
                mid: &id,
                due: 0,
                key: None,
                body: Some(event),
                headers: None,
                content_type: Some("application/cloudevents+json"),
                parent: None,
            };
            Insert::new(tx)?.row(tx, target_queue, &row)?;
            (None, written)
        }
        Step::Reroute { target, delivery } => {
            let size = delivery.message.body.as_ref().map_or(0, Bytes::len);
            let target_queue = match open_target(tx, target, size)? {
                Ok(queue) => queue,
                Err(refusal) => return Ok(Err(refusal)),
            };
            // An entry that stays open keeps its body; then the message goes on as a copy.
            let stays = item.record.as_ref().is_some_and(|told| told.record.state.is_open());
            let written = if stays { keep(tx, &item, None, None)? } else { release(tx, &item)? };
            forward(tx, target_queue, delivery)?;
            (None, written)
        }
    };
    if let Some((handler, mid)) = &item.processed {
        processed::mark(tx, handler, mid, tx.now)?;
    }
    tx.moved(queue, from, to);
    tx.settled(queue, item.row, to);
    // Last, since a lane that goes on may let this very message go.
    if let Some(written) = written {
        update_lanes(tx, &item, &written, held_in.as_ref())?;
    }
    Ok(Ok(()))
}

/// What was written down about a message.
struct Written {
    eid: i64,
    /// Its entry as it was, when it is not new.
    before: Option<Stored>,
}

fn admission(tx: &Tx<'_>, item: &Item, lane: &LaneName) -> Done<Admission> {
    let Some(told) = &item.record else { return Ok(Admission::GiveBack) };
    let before = Stored::by_id(tx, told.record.entry)?;
    let flow = before.as_ref().map_or(&*told.record.flow, |before| &before.flow);
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

fn update_lanes(tx: &mut Tx<'_>, item: &Item, written: &Written, held_in: Option<&LaneName>) -> Done<()> {
    let before = written.before.as_ref();
    let diverted = match &item.step {
        Step::Keep { .. } | Step::Hold { .. } => {
            item.record.as_ref().filter(|told| told.record.state != EntryState::Discarded)
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

/// Keeps the row, deliverable from `due` on or not at all, and writes its record down.
fn keep(tx: &mut Tx<'_>, item: &Item, due: Option<i64>, lane: Option<&LaneName>) -> Done<Option<Written>> {
    let written = tell(tx, item, Some(item.row), lane)?;
    tx.sql
        .prepare_cached(
            "UPDATE messages SET due = ?2, headers = coalesce(?3, headers), entry = coalesce(?4, entry)
             WHERE id = ?1",
        )?
        .execute(params![item.row, due, item.headers, written.as_ref().map(|written| written.eid)])?;
    Ok(written)
}

/// Deletes the row and writes down what became of its entry.
fn release(tx: &mut Tx<'_>, item: &Item) -> Done<Option<Written>> {
    let written = tell(tx, item, None, None)?;
    tx.sql.prepare_cached(DELETE)?.execute([item.row])?;
    Ok(written)
}

/// Whether the row still stands where it was claimed: a second settlement of one delivery finds it elsewhere.
fn is_there(tx: &Tx<'_>, item: &Item) -> Done<bool> {
    let there = tx
        .sql
        .prepare_cached("SELECT 1 FROM messages WHERE id = ?1 AND due IS ?2")?
        .exists(params![item.row, item.claim.due])?;
    Ok(there)
}

/// Writes the record down. `row` is the message's row when it stays, `lane` the one that it is held in.
fn tell(tx: &mut Tx<'_>, item: &Item, row: Option<i64>, lane: Option<&LaneName>) -> Done<Option<Written>> {
    let written = match &item.record {
        Some(told) => {
            let carrier = Carrier {
                delivery: Some(&told.delivery),
                row,
                read_from: Some(item.row),
                hash: told.hash.as_ref(),
                first_failure: told.first_failure,
                lane: lane.map(LaneName::as_str),
            };
            let before = Stored::by_id(tx, told.record.entry)?;
            let eid = record::write_over(tx, before.as_ref(), &told.record, &carrier)?;
            Some(Written { eid, before })
        }
        None if item.claim.entry != 0 && row.is_none() => {
            let before = Stored::by_eid(tx, item.claim.entry)?;
            if let Some(before) = &before {
                let done = Move { to: EntryState::Recovered, earlier: None, due: None, message: None };
                record::put(tx, before, &done, tx.now)?;
            }
            Some(Written { eid: item.claim.entry, before })
        }
        None => None,
    };
    fail::point("sqlite.after_record");
    Ok(written)
}

/// The number of a queue that takes one more message of this size.
pub(crate) fn open_target(tx: &mut Tx<'_>, target: &str, size: usize) -> Done<Result<u32, Refusal>> {
    let queue = match tx.queue(target) {
        Ok(queue) => queue,
        Err(crate::fault::Fault::Port(PortError::Refused(refusal))) => return Ok(Err(refusal)),
        Err(fault) => return Err(fault),
    };
    let meta = tx.meta(queue)?;
    Ok(publish::too_much(tx, target, meta, size).map_or(Ok(queue), Err))
}

/// Sends a message to another queue as a fresh one. It keeps its id when that is free there.
pub(crate) fn forward(tx: &mut Tx<'_>, queue: u32, delivery: &Delivery) -> Done<String> {
    let message = &delivery.message;
    let mut all = message.headers.clone();
    headers::encode(&Trail::default(), &mut all, Spelling::Default);
    let blob = codec::encode(&all);
    let mut id = message.id.to_string();
    let mut insert = Insert::new(tx)?;
    loop {
        let row = NewRow {
            mid: &id,
            due: 0,
            key: message.key.as_deref(),
            body: message.body.as_deref(),
            headers: blob.as_deref(),
            content_type: message.content_type.as_deref(),
            parent: None,
        };
        if insert.row(tx, queue, &row)?.is_some() {
            return Ok(id);
        }
        id = tx.mint().hyphenated().to_string();
    }
}
