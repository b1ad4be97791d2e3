//! The broker's side of the store.

use async_trait::async_trait;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Broker, Capabilities, NewMessage, Outcome, PortError, Published, QueueInfo, Refusal, Settlement, Source,
    Subscription, Topology,
};

use super::MemoryStore;
use super::entries::Carried;
use super::queue::Place;
use super::source::MemorySource;
use super::state::State;

/// A broker in memory.
#[derive(Debug)]
pub struct MemoryBroker {
    pub(super) store: MemoryStore,
}

impl MemoryBroker {
    /// What the memory broker can do.
    pub const fn can(records_in_settle: bool) -> Capabilities {
        Capabilities {
            kind: "memory",
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle,
            waiting_is_reachable: true,
            unique_ids: true,
        }
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn capabilities(&self) -> Capabilities {
        Self::can(self.store.inner.records_in_settle)
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        let name = subscription.source.to_string();
        let exists = self.store.lock().queues.contains_key(&name);
        Ok(vec![Topology { kind: "queue".to_owned(), name, exists }])
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
        Ok(Box::new(MemorySource { store: self.store.clone(), queue: queue.name.clone(), epoch }))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<(), PortError>> {
        if let Err(error) = self.store.inner.faults.settle().await {
            return vec![Err(error); batch.len()];
        }
        let now = self.store.inner.clock.now();
        let answers = {
            let mut state = self.store.lock();
            let records = self.store.inner.records_in_settle;
            batch.iter().map(|settlement| settle(&mut state, settlement, records, now)).collect()
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

pub(super) fn settle(
    state: &mut State,
    settlement: &Settlement,
    records: bool,
    now: Timestamp,
) -> Result<(), PortError> {
    let delivery = &settlement.delivery;
    let tag = delivery.tag;
    let gone = || {
        PortError::from(Refusal::NotFound { what: "delivery", name: format!("{}/{}", tag.epoch, tag.number) })
    };
    let queue = state.queue_of(tag.stream).filter(|queue| queue.epoch == tag.epoch).ok_or_else(gone)?;
    let name = queue.name.clone();
    let row = queue.rows.get_mut(&tag.number).filter(|row| row.claimed).ok_or_else(gone)?;
    row.claimed = false;
    let place = match &settlement.outcome {
        Outcome::Return => return Ok(()),
        Outcome::Ack | Outcome::Reject { .. } | Outcome::Reroute { .. } => None,
        Outcome::Delay { until } => Some(Place::Due(*until)),
        Outcome::Hold { .. } | Outcome::DeadLetter | Outcome::Park | Outcome::Discard => Some(Place::Kept),
    };
    if let Some(trail) = &settlement.trail {
        row.carry(trail);
    }
    if let Some(record) = &settlement.record {
        row.entry = Some(record.entry);
    }
    let parent = row.parent;
    let kept = place.map(|place| {
        row.place = place;
        (name.clone(), tag.number)
    });
    let message: Message = row.message.clone();
    if kept.is_none() {
        queue.rows.remove(&tag.number);
    }
    match &settlement.outcome {
        Outcome::Reject { event, target } => {
            let event = NewMessage {
                body: Some(event.clone()),
                content_type: Some("application/cloudevents+json".to_owned()),
                ..NewMessage::default()
            };
            state.publish(target, event, None, now);
        }
        Outcome::Reroute { target } => state.forward(target, &message, now),
        _ => {}
    }
    if let Some(record) = &settlement.record {
        let carried = Carried { message, source: delivery.source.clone(), row: kept, parent };
        state.carried.insert(record.entry, carried);
        if records {
            state.record(record);
        }
    }
    if let Some(handler) = settlement.processed_by.as_ref().filter(|_| records) {
        state.marks.insert((handler.to_string(), delivery.message.id.to_string()), now);
    }
    Ok(())
}
