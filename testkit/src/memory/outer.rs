//! A broker that keeps no ledger: what it diverts lies in places of its own, where others can find it.
//!
//! It behaves as a log does: a delayed copy is another message at another place, dead letters and parked messages lie in
//! queues beside the source, and what was published can be read once more.

use async_trait::async_trait;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Broker, Capabilities, Delivery, DeliveryParts, EntryState, NewMessage, Outcome, PortError, Published,
    QueueInfo, Refusal, Resolved, Settled, Settlement, Shelved, Shelves, Source, SourceRange, SourceRef,
    Subscription, Tag, Topology,
};

use super::MemoryStore;
use super::queue::{Place, Row};
use super::source::MemorySource;
use super::state::State;

/// A broker in memory whose ledger is elsewhere.
#[derive(Debug)]
pub struct OuterBroker {
    pub(super) store: MemoryStore,
}

impl OuterBroker {
    /// What it can do by itself.
    pub const CAN: Capabilities = Capabilities {
        kind: "memory",
        exact_delay: true,
        null_body: true,
        ordered: true,
        records_in_settle: false,
        waiting_is_reachable: false,
        unique_ids: true,
        lanes: false,
        partitions: true,
    };
}

/// The queue in which a flow's dead letters lie.
pub fn dead_of(source: &str) -> String {
    format!("{source}.dead")
}

/// The queue in which what a flow parked lies.
pub fn parked_of(source: &str) -> String {
    format!("{source}.parked")
}

#[async_trait]
impl Broker for OuterBroker {
    fn capabilities(&self) -> Capabilities {
        Self::CAN
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        let state = self.store.lock();
        let source = subscription.source.to_string();
        let names = [dead_of(&source), parked_of(&source), source];
        Ok(names.iter().map(|name| Topology::new("queue", name, state.queues.contains_key(name))).collect())
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
        state.sources.insert(subscription.flow.to_string(), subscription.source.to_string());
        let queue = state.queue(&subscription.source);
        queue.restart(epoch);
        queue.rules = subscription.headers.clone();
        queue.is_log = true;
        Ok(Box::new(MemorySource { store: self.store.clone(), queue: queue.name.clone(), epoch }))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        if let Err(error) = self.store.inner.faults.settle().await {
            return vec![Err(error); batch.len()];
        }
        let now = self.store.inner.clock.now();
        let answers = {
            let mut state = self.store.lock();
            batch.iter().map(|settlement| settle(&mut state, settlement, now)).collect()
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

    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        let state = self.store.lock();
        Ok(copies.iter().map(|place| state.row_at(place).is_none()).collect())
    }

    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        let from = from.and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut found = self.store.lock().shelves(subscription);
        found.retain(|(number, _)| *number > from);
        Ok(Box::new(Look { found, position: from }))
    }

    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        let state = self.store.lock();
        let of_source = state.log.iter().filter(|(queue, ..)| **queue == *subscription.source);
        let meant = of_source.filter(|(_, number, at, _)| match range {
            SourceRange::Since { from, to } => from <= at && to.is_none_or(|to| *at <= to),
            SourceRange::Offsets(offsets) => offsets.iter().any(|(partition, first, last)| {
                *partition == 0 && (*first..=*last).contains(&number.cast_signed())
            }),
        });
        let found = meant
            .map(|(queue, number, at, message)| {
                let place = place(queue, *number);
                (*number, shelved(message.clone(), place, *at, EntryState::Waiting, subscription))
            })
            .collect();
        Ok(Box::new(Look { found, position: 0 }))
    }

    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        Ok(self.store.lock().row_at(place).map(|row| row.message.clone()))
    }

    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        let mut state = self.store.lock();
        for resolved in resolved {
            state.kept_resolved.insert(resolved.entry, resolved.state);
        }
        Ok(())
    }

    async fn resolved(&self, _subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        let state = self.store.lock();
        Ok(state
            .kept_resolved
            .iter()
            .map(|(entry, state)| Resolved { entry: *entry, state: *state })
            .collect())
    }
}

impl MemoryStore {
    /// Moves what waits for a source to other places, and says how many those are: a broker that delays in several steps
    /// does so by itself, and tells nobody.
    pub fn move_on(&self, source: &str) -> usize {
        let mut state = self.lock();
        let waits = |row: &Row| row.is_copy && !row.claimed && matches!(row.place, Place::Due(_));
        let queue = state.queue(source);
        let numbers: Vec<u64> =
            queue.numbered().filter(|(_, row)| waits(row)).map(|(number, _)| number).collect();
        for number in &numbers {
            let next = state.number();
            let queue = state.queue(source);
            if let Some(row) = queue.remove(*number) {
                queue.insert(next, row);
            }
        }
        drop(state);
        self.tell_readers();
        numbers.len()
    }
}

/// What was there when the look began, in the order of its places.
struct Look {
    found: Vec<(u64, Shelved)>,
    position: u64,
}

#[async_trait]
impl Shelves for Look {
    async fn next(&mut self, most: usize) -> Result<Vec<Shelved>, PortError> {
        let step: Vec<_> = self.found.drain(..most.min(self.found.len())).collect();
        self.position = step.last().map_or(self.position, |(number, _)| *number);
        Ok(step.into_iter().map(|(_, shelved)| shelved).collect())
    }

    fn position(&self) -> String {
        self.position.to_string()
    }
}

/// Where a row lies.
pub(super) fn place(queue: &str, number: u64) -> SourceRef {
    SourceRef {
        kind: "memory".into(),
        name: queue.into(),
        partition: Some(0),
        offset: Some(number.cast_signed()),
    }
}

fn shelved(
    message: Message,
    source: SourceRef,
    ready_at: Timestamp,
    state: EntryState,
    subscription: &Subscription,
) -> Shelved {
    let trail = subscription.headers.read(&message.headers, message.body.as_deref());
    let foreign = trail.entry_id.is_none();
    let delivery = Delivery::from(DeliveryParts {
        tag: Tag::APART,
        message,
        trail,
        source,
        ready_at,
        redelivered: false,
    });
    Shelved { delivery, state, foreign, bodiless: false, carries_body: true }
}

impl State {
    fn row_at(&self, place: &SourceRef) -> Option<&Row> {
        self.queues.get(&*place.name)?.row(place.offset?.cast_unsigned())
    }

    fn shelves(&self, subscription: &Subscription) -> Vec<(u64, Shelved)> {
        let source = &*subscription.source;
        let places = [
            (source.to_owned(), EntryState::Waiting),
            (dead_of(source), EntryState::Dead),
            (parked_of(source), EntryState::Parked),
        ];
        let mut found = Vec::new();
        for (name, stands) in places {
            let Some(queue) = self.queues.get(&name) else { continue };
            for (number, row) in queue.numbered() {
                let due = if let Place::Due(due) = row.place { due } else { row.since };
                let seen = shelved(row.message.clone(), place(&name, number), due, stands, subscription);
                // What was only published is the source itself, and no copy.
                if stands != EntryState::Waiting || row.is_copy {
                    found.push((number, seen));
                }
            }
        }
        found.sort_by_key(|(number, _)| *number);
        found
    }
}

/// Ends a delivery: the copy first, as another message at another place.
fn settle(state: &mut State, settlement: &Settlement, now: Timestamp) -> Result<Settled, PortError> {
    let delivery = &settlement.delivery;
    let tag = delivery.tag;
    let gone = || {
        PortError::from(Refusal::NotFound { what: "delivery", name: format!("{}/{}", tag.epoch, tag.number) })
    };
    let apart = tag == Tag::APART;
    let source = if apart {
        let flow = settlement.record.as_ref().map(|record| record.flow.to_string()).unwrap_or_default();
        state.sources.get(&flow).cloned().unwrap_or(flow)
    } else {
        let queue = state.queue_of(tag.stream).filter(|queue| queue.epoch == tag.epoch).ok_or_else(gone)?;
        queue.row(tag.number).filter(|row| row.claimed).ok_or_else(gone)?;
        queue.name.clone()
    };
    if let Outcome::Reject { target, .. } | Outcome::Reroute { target } = &settlement.outcome
        && target.contains(' ')
    {
        return Err(Refusal::Invalid(format!("`{target}` is no name of a queue")).into());
    }
    if settlement.outcome == Outcome::Return {
        state.queue(&source).change(tag.number, |row| row.claimed = false);
        return Ok(Settled::default());
    }
    if !apart {
        state.queue(&source).remove(tag.number);
    }
    let rules = state.queue(&source).rules.clone();
    let (name, to) = match &settlement.outcome {
        Outcome::Delay { until } => (source, Place::Due(*until)),
        Outcome::DeadLetter => (dead_of(&source), Place::Kept),
        Outcome::Park => (parked_of(&source), Place::Kept),
        Outcome::Reject { event, target } => {
            let event = NewMessage {
                body: Some(event.clone()),
                content_type: Some("application/cloudevents+json".to_owned()),
                ..NewMessage::default()
            };
            state.publish(target, event, None, now);
            return Ok(Settled::default());
        }
        Outcome::Reroute { target } => {
            state.forward(target, &delivery.message, &rules, now);
            return Ok(Settled::default());
        }
        Outcome::Hold { .. } => {
            return Err(Refusal::Invalid("nobody holds a message here".to_owned()).into());
        }
        Outcome::Ack | Outcome::Discard | Outcome::Return => return Ok(Settled::default()),
    };
    let mut row = Row { is_copy: true, ..Row::new(delivery.message.clone(), to, now) };
    if let Some(trail) = &settlement.trail {
        row.carry(trail, &rules);
    }
    let number = state.number();
    state.queue(&name).insert(number, row);
    Ok(Settled { copy: Some(place(&name, number)), carries_body: true })
}
