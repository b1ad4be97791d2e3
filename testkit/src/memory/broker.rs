//! The broker's side of the store.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Broker, Capabilities, EntryId, EntryState, LaneName, NewMessage, Outcome, PortError, Published,
    QueueInfo, Record, Refusal, Settled, Settlement, Source, Subscription, Topology,
};

use super::MemoryStore;
use super::entries::Carried;
use super::lanes::Admission;
use super::queue::Place;
use super::source::MemorySource;
use super::state::State;

/// How long a message waits that was to be kept in a quarantine which has ended.
const MOMENT: Duration = Duration::from_millis(250);

/// A broker in memory.
#[derive(Debug)]
pub struct MemoryBroker {
    pub(super) store: MemoryStore,
}

impl MemoryBroker {
    /// What the memory broker can do.
    pub const CAN: Capabilities = Capabilities {
        kind: "memory",
        exact_delay: true,
        null_body: true,
        ordered: true,
        records_in_settle: true,
        waiting_is_reachable: true,
        unique_ids: true,
        lanes: true,
        partitions: false,
    };
}

#[async_trait]
impl Broker for MemoryBroker {
    fn capabilities(&self) -> Capabilities {
        Self::CAN
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        let name = subscription.source.to_string();
        let exists = self.store.lock().queues.contains_key(&name);
        Ok(vec![Topology::new("queue", &name, exists)])
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        let mut state = self.store.lock();
        for thing in topology {
            state.queue(&thing.name);
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        let mut state = self.store.lock();
        state.last_epoch += 1;
        let epoch = state.last_epoch;
        let queue = state.queue(&subscription.source);
        queue.restart(epoch);
        queue.rules = subscription.headers.clone();
        Ok(Box::new(MemorySource { store: self.store.clone(), queue: queue.name.clone(), epoch }))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        if let Err(error) = self.store.inner.faults.settle().await {
            return vec![Err(error); batch.len()];
        }
        let now = self.store.inner.clock.now();
        let answers = {
            let mut state = self.store.lock();
            let settled = |settlement| settle(&mut state, settlement, now).map(|()| Settled::default());
            batch.iter().map(settled).collect()
        };
        self.store.tell_readers();
        answers
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        self.store.inner.faults.publish().await?;
        let now = self.store.inner.clock.now();
        let published = {
            let mut state = self.store.lock();
            messages.into_iter().map(|message| state.publish(target, message, None, now)).collect()
        };
        self.store.tell_readers();
        Ok(published)
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        let now = self.store.inner.clock.now();
        let state = self.store.lock();
        let info = |queue: &super::queue::Queue| QueueInfo {
            name: queue.name.clone(),
            depth: queue.depth(now),
            limit: state.limit,
            dedup_ms: None,
        };
        Ok(state.queues.values().map(info).collect())
    }
}

pub(super) fn settle(state: &mut State, settlement: &Settlement, now: Timestamp) -> Result<(), PortError> {
    let delivery = &settlement.delivery;
    let tag = delivery.tag;
    let gone = || {
        PortError::from(Refusal::NotFound { what: "delivery", name: format!("{}/{}", tag.epoch, tag.number) })
    };
    let queue = state.queue_of(tag.stream).filter(|queue| queue.epoch == tag.epoch).ok_or_else(gone)?;
    let name = queue.name.clone();
    queue.row(tag.number).filter(|row| row.claimed).ok_or_else(gone)?;
    if let Outcome::Reject { target, .. } | Outcome::Reroute { target } = &settlement.outcome
        && target.contains(' ')
    {
        return Err(Refusal::Invalid(format!("`{target}` is no name of a queue")).into());
    }
    if settlement.outcome == Outcome::Return {
        queue.change(tag.number, |row| row.claimed = false);
        return Ok(());
    }
    settle_row(state, &name, tag.number, settlement, How::Own, now).map(drop).ok_or_else(gone)?;
    if let Some(handler) = &settlement.processed_by {
        state.marks.insert((handler.to_string(), delivery.message.id.to_string()), now);
    }
    Ok(())
}

/// Whose row it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// A message of this store.
    Own,
    /// The shadow of a message that the broker keeps, or does not keep any more.
    Shadow { broker_keeps: bool },
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing: it is its lane's own head.
    GaveBack,
    /// It is settled. `kept_here` says that this store hands it out next, whoever was to.
    Done { kept_here: bool },
}

/// Settles a row; nothing when it is not there.
pub(super) fn settle_row(
    state: &mut State,
    name: &str,
    number: u64,
    settlement: &Settlement,
    how: How,
    now: Timestamp,
) -> Option<Ended> {
    let mut record = settlement.record.clone();
    let mut outcome = settlement.outcome.clone();
    let mut how = how;
    state.queue(name).change(number, |row| row.claimed = false)?;
    if let (Outcome::Hold { lane }, Some(record)) = (&settlement.outcome, &mut record) {
        how = How::Own;
        match state.admit(record, settlement.lane.as_ref(), lane) {
            Admission::Keep => {}
            Admission::GiveBack => return Some(Ended::GaveBack),
            Admission::Later => {
                let until = now + MOMENT;
                (record.state, record.due_at) = (EntryState::Waiting, Some(until));
                outcome = Outcome::Delay { until };
            }
            Admission::Circle => {
                record.state = EntryState::Parked;
                outcome = Outcome::Park;
            }
        }
    }
    let at_broker = how == How::Shadow { broker_keeps: true };
    let place = match &outcome {
        Outcome::Return | Outcome::Ack | Outcome::Reject { .. } | Outcome::Reroute { .. } => None,
        Outcome::Delay { until } if !at_broker => Some(Place::Due(*until)),
        _ => Some(Place::Kept),
    };
    let queue = state.queue(name);
    let rules = queue.rules.clone();
    let (known, parent, origin, message): (_, _, _, Message) = queue.change(number, |row| {
        if let Some(trail) = &settlement.trail {
            row.carry(trail, &rules);
        }
        let known = row.entry;
        if let Some(record) = &record {
            row.entry = Some(record.entry);
        }
        row.place = place.unwrap_or(row.place);
        (known, row.parent, row.origin.clone(), row.message.clone())
    })?;
    let kept = place.map(|_| (name.to_owned(), number));
    if kept.is_none() {
        queue.remove(number);
    }
    match &outcome {
        Outcome::Reject { event, target } if how == How::Own => {
            let event = NewMessage {
                body: Some(event.clone()),
                content_type: Some("application/cloudevents+json".to_owned()),
                ..NewMessage::default()
            };
            state.publish(target, event, None, now);
        }
        Outcome::Reroute { target } if how == How::Own => state.forward(target, &message, &rules, now),
        _ => {}
    }
    if let Some(record) = &record {
        let source = origin.unwrap_or_else(|| settlement.delivery.source.clone());
        state.carried.insert(record.entry, Carried { message, source, row: kept, parent });
    }
    settle_entry(state, &outcome, settlement.lane.as_ref(), record.as_deref(), known, now);
    if let Some(told) = settlement.record.as_deref()
        && let Some(kept) = state.entries.get_mut(&told.entry)
    {
        kept.was_told(told);
    }
    Some(Ended::Done { kept_here: how == How::Own })
}

/// Writes the record down and brings the lanes up to date. `own` is the message's own lane.
fn settle_entry(
    state: &mut State,
    outcome: &Outcome,
    own: Option<&LaneName>,
    record: Option<&Record>,
    known: Option<EntryId>,
    now: Timestamp,
) {
    let Some(entry) = record.map(|record| record.entry).or(known) else { return };
    let left = state.take_out(entry);
    match record {
        Some(record) => state.record(record),
        // A release without a word: it has succeeded.
        None => state.recover(entry, now),
    }
    state.note_end(entry);
    match outcome {
        Outcome::Hold { lane } => state.keep_in_lane(entry, lane, own, now),
        Outcome::Delay { .. } | Outcome::DeadLetter | Outcome::Park => {
            let is_head = own.is_some_and(|own| state.become_head(entry, own));
            // Another is the head: one that is tried again is still in front of the followers.
            if let Some(key) = left.as_ref().filter(|(_, lane)| Some(lane) == own)
                && !is_head
                && matches!(outcome, Outcome::Delay { .. })
            {
                state.put_back(entry, key);
            }
        }
        _ => state.end_heads(entry, now),
    }
    if let Some(key) = left {
        state.go_on(&key, now);
    }
}
