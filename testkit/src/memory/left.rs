//! What a store already holds when a test begins, and what it holds at its end: for tests that run no flow.

use std::time::Duration;

use redrive_core::fingerprint::Fingerprint;
use redrive_core::headers::Trail;
use redrive_core::{Class, ErrorLink, Reason, Timestamp};
use redrive_engine::port::{
    AttemptRecord, Delivery, EntryId, EntryState, NewMessage, Outcome, Published, Record, Room, Settlement,
};

use super::MemoryStore;
use super::broker::settle;
use super::queue::Place;
use super::state::State;

/// How long a message waits that is left waiting.
const WAIT: Duration = Duration::from_secs(3_600);

impl MemoryStore {
    /// Leaves a message behind as a flow would that had failed with it: waiting, dead, parked or recovered.
    ///
    /// # Panics
    /// When the queue does not take the message, or has another one to deliver first.
    pub fn leave(&self, flow: &str, message: NewMessage, state: EntryState) -> EntryId {
        let now = self.inner.clock.now();
        let mut store = self.lock();
        let published = store.publish(flow, message, None, now);
        let Published::Accepted(id) = published else { panic!("not taken: {published:?}") };
        let entry = store.mint(now);
        let outcome = match state {
            EntryState::Waiting => Outcome::Delay { until: now + WAIT },
            EntryState::Dead => Outcome::DeadLetter,
            EntryState::Parked => Outcome::Park,
            EntryState::Recovered => Outcome::Delay { until: now },
            other => panic!("a flow leaves no message {other} by itself"),
        };
        let due_at = if let Outcome::Delay { until } = outcome { Some(until) } else { None };
        let failed_in = if state == EntryState::Recovered { EntryState::Waiting } else { state };
        let first = Record { attempt: Some(attempt(now)), due_at, ..record(entry, flow, failed_in, now) };
        let trail = Trail {
            attempt: 1,
            entry_id: Some(entry.to_string().into()),
            first_failure_at: Some(now),
            last_failure_at: Some(now),
            ..Trail::default()
        };
        let delivery = taken(&mut store, flow, &id, now);
        let failed = Settlement {
            trail: Some(Box::new(trail)),
            record: Some(Box::new(first)),
            ..settlement(delivery, outcome)
        };
        settle(&mut store, &failed, now).expect("settled");
        if state == EntryState::Recovered {
            let delivery = taken(&mut store, flow, &id, now);
            let last = Box::new(record(entry, flow, state, now));
            let done = Settlement { record: Some(last), ..settlement(delivery, Outcome::Ack) };
            settle(&mut store, &done, now).expect("settled");
        }
        entry
    }

    /// What can be delivered from a queue, now or later, in the order of its arrival.
    pub fn queued(&self, queue: &str) -> Vec<NewMessage> {
        let store = self.lock();
        let rows = store.queues.get(queue).into_iter().flat_map(super::queue::Queue::rows);
        rows.filter(|row| row.entry.is_none())
            .map(|row| NewMessage {
                id: Some(row.message.id.to_string()),
                key: row.message.key.clone(),
                body: row.message.body.clone(),
                headers: row.message.headers.clone(),
                content_type: row.message.content_type.as_ref().map(ToString::to_string),
                due: if let Place::Due(due) = row.place { Some(due) } else { None },
            })
            .collect()
    }

    /// From now on no queue takes more than so many messages.
    pub fn limit(&self, messages: u64) {
        self.lock().limit = Some(messages);
    }

    /// Loses the message of an entry, which the ledger's check finds.
    pub fn lose(&self, entry: EntryId) {
        let mut store = self.lock();
        if let Some((queue, number)) = store.entries.get(&entry).and_then(|kept| kept.row.clone()) {
            store.queue(&queue).remove(number);
        }
    }
}

fn taken(store: &mut State, queue: &str, id: &str, now: Timestamp) -> Delivery {
    let mut deliveries = Vec::new();
    store.queue(queue).take(Room::of(1), now, &mut deliveries);
    let delivery = deliveries.pop().expect("a message to deliver");
    assert_eq!(delivery.message.id, *id, "another message comes first");
    delivery
}

fn settlement(delivery: Delivery, outcome: Outcome) -> Settlement {
    Settlement::plain(delivery, outcome)
}

fn attempt(now: Timestamp) -> AttemptRecord {
    let (class, reason) = (Class::Transient, Reason::DOWNSTREAM_TIMEOUT);
    let error = "no answer in time";
    AttemptRecord {
        number: 1,
        started_at: now,
        took: Duration::from_millis(12),
        calls: 1,
        class,
        group: Fingerprint::of(class, &reason, None, None, error),
        reason,
        chain: vec![ErrorLink { kind: "Timeout".to_owned(), message: error.to_owned() }],
        status: Some(503),
        response: None,
        decision: "delay",
        because: "the budget is spent".to_owned(),
        handler_version: None,
    }
}

fn record(entry: EntryId, flow: &str, state: EntryState, at: Timestamp) -> Record {
    Record {
        entry,
        flow: flow.into(),
        state,
        at,
        due_at: None,
        attempt: None,
        succeeded: None,
        attempts: 1,
        message_type: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        owner: None,
        earlier: Vec::new(),
        held: None,
        replay: None,
    }
}
