//! Ending deliveries, each with its record, in one transaction.

mod forward;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use redrive_core::fingerprint::PayloadHash;
use redrive_core::headers::Trail;
use redrive_core::{Text, Timestamp};
use redrive_engine::port::{
    Delivery, EntryState, HeaderRules, LaneName, Outcome, PortError, Record, Refusal, Settled, Settlement,
    Tag,
};

pub(crate) use forward::{forward, open_target};
pub(crate) use write::{Ended, settle_known};

use crate::codec;
use crate::publish::queue_name;
use crate::reading::Claim;
use crate::store::Store;

/// A settlement, owned, with no more than the writer needs.
pub(crate) struct Item {
    /// Its place in the batch.
    pub(crate) place: usize,
    pub(crate) tag: Tag,
    pub(crate) row: i64,
    /// Where the row stood: 0 = ready, else its due time; nothing when it was not to be delivered.
    pub(crate) from: Option<i64>,
    /// The row's entry, 0 for none.
    pub(crate) entry: i64,
    /// Whether a reader of the queue has it in hand; else the writer keeps it from them.
    pub(crate) in_hand: bool,
    pub(crate) step: Step,
    /// The headers that the copy carries, encoded.
    pub(crate) headers: Option<Vec<u8>>,
    pub(crate) record: Option<Box<Told>>,
    /// The message's own lane.
    pub(crate) lane: Option<LaneName>,
    pub(crate) processed: Option<(Arc<str>, Text)>,
}

impl Item {
    /// Whether it is a message that succeeds at once: nothing but its row is to go.
    fn is_plain(&self) -> bool {
        matches!(self.step, Step::Release)
            && self.record.is_none()
            && self.entry == 0
            && self.processed.is_none()
    }
}

/// A record and the message it is about.
pub(crate) struct Told {
    pub(crate) record: Record,
    pub(crate) delivery: Delivery,
    pub(crate) hash: Option<PayloadHash>,
    pub(crate) first_failure: Option<Timestamp>,
}

pub(crate) enum Step {
    Release,
    Keep { due: Option<i64> },
    Hold { lane: LaneName },
    Reject { event: Bytes, target: String },
    Reroute { target: String, delivery: Box<Delivery> },
}

pub(crate) async fn settle(store: &Store, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
    let claims = claims_of(store, batch);
    let mut answers: Vec<Result<Settled, PortError>> = Vec::with_capacity(batch.len());
    let mut items = Vec::with_capacity(batch.len());
    for ((place, settlement), claim) in batch.iter().enumerate().zip(claims) {
        let answer = match claim {
            None => Err(unknown(settlement.delivery.tag)),
            Some(_) if settlement.outcome == Outcome::Return => Ok(()),
            Some((claim, rules)) => item(place, settlement, claim, &rules).map(|item| items.push(item)),
        };
        answers.push(answer.map(|()| Settled::default()).map_err(PortError::Refused));
    }
    if items.is_empty() {
        return answers;
    }
    let places: Vec<usize> = items.iter().map(|item| item.place).collect();
    match store.inner.writer.run(move |tx| write::settle_all(tx, items)).await {
        Ok(settled) => {
            for (place, answer) in settled {
                answers[place] = answer.map(|()| Settled::default()).map_err(PortError::Refused);
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

/// The claims behind a batch and the rules of their queues, nothing where there is none. What is given back is put where it was, without a write.
///
/// A queue's reader and its writer share one lock, so it is taken once for all neighbours of one queue.
fn claims_of(store: &Store, batch: &[Settlement]) -> Vec<Option<(Claim, HeaderRules)>> {
    let mut claims = Vec::with_capacity(batch.len());
    for of_queue in batch.chunk_by(|one, next| one.delivery.tag.stream == next.delivery.tag.stream) {
        let Some(first) = of_queue.first() else { continue };
        let reading = store.inner.readings.of(first.delivery.tag.stream);
        let mut state = reading.lock();
        for settlement in of_queue {
            let tag = settlement.delivery.tag;
            let row = tag.number.cast_signed();
            let claim = state.claims.get(&row).copied().filter(|_| state.epoch == tag.epoch);
            claims.push(claim.map(|claim| (claim, state.rules.clone())));
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
fn item(place: usize, settlement: &Settlement, claim: Claim, rules: &HeaderRules) -> Result<Item, Refusal> {
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
        (Step::Keep { .. } | Step::Hold { .. }, Some(trail)) => Some(encoded(delivery, trail, rules)),
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
        from: Some(claim.due),
        entry: claim.entry,
        in_hand: true,
        step,
        headers,
        record,
        lane: settlement.lane.clone(),
        processed,
    })
}

/// The headers of a message with this trail.
pub(crate) fn encoded(delivery: &Delivery, trail: &Trail, rules: &HeaderRules) -> Vec<u8> {
    let mut all = delivery.message.headers.clone();
    rules.write(trail, &mut all, delivery.message.body.as_deref());
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
