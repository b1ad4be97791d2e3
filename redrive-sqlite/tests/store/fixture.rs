//! A file, a clock that the test moves, and short ways to publish, take and settle.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::fingerprint::Fingerprint;
use redrive_core::headers::Trail;
use redrive_core::{Class, ErrorLink, Reason, Timestamp};
use redrive_engine::port::{
    Actor, AttemptRecord, Broker, Clock, Delivery, EntryId, EntryState, HeldRecord, LaneName, Ledger,
    NewMessage, Outcome, Published, Record, Room, Settlement, Source, Subscription,
};
use redrive_sqlite::{Options, Store};

pub(crate) const START: i64 = 1_782_896_400_000;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis((self.0.load(Ordering::SeqCst) - START).max(0).cast_unsigned())
    }
}

impl HandClock {
    pub(crate) fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) options: Options,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(HandClock(AtomicI64::new(START)));
        let options = Options {
            clock: clock.clone(),
            durability: redrive_sqlite::Durability::Relaxed,
            ..Options::default()
        };
        Self { folder: tempfile::tempdir().unwrap(), clock, options }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("redrive.db")
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.path(), self.options.clone()).unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

pub(crate) fn text(id: &str) -> NewMessage {
    NewMessage { id: Some(id.to_owned()), body: Some(id.to_owned().into()), ..NewMessage::default() }
}

pub(crate) async fn publish(store: &Store, queue: &str, ids: &[&str]) {
    let messages = ids.iter().map(|id| text(id)).collect();
    for published in store.publish(queue, messages).await.unwrap() {
        assert!(matches!(published, Published::Accepted(_)), "{published:?}");
    }
}

pub(crate) async fn subscribe(store: &Store, queue: &str) -> Box<dyn Source> {
    let subscription = Subscription::new(queue, queue);
    store.subscribe(&subscription).await.unwrap()
}

/// Takes exactly so many, in however many calls.
pub(crate) async fn take(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let room = Room::of(count - taken.len());
        let received = source.receive(room, &mut taken);
        tokio::time::timeout(Duration::from_secs(20), received).await.expect("nothing came").unwrap();
    }
    taken
}

/// Whether nothing is deliverable: what comes next is a message that was published for this question alone.
pub(crate) async fn is_empty(store: &Store, source: &mut Box<dyn Source>) -> bool {
    let queue = store.queues().await.unwrap().remove(0).name;
    let marker = store.publish(&queue, vec![NewMessage::default()]).await.unwrap();
    let [Published::Accepted(marker)] = &marker[..] else { panic!("{marker:?}") };
    let next = take(source, 1).await.remove(0);
    let empty = next.message.id.as_str() == marker;
    if empty {
        ack(store, &next).await;
    }
    empty
}

pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.message.id.as_str()).collect()
}

pub(crate) fn settlement(delivery: &Delivery, outcome: Outcome) -> Settlement {
    Settlement::plain(delivery.clone(), outcome)
}

pub(crate) async fn settle_one(store: &Store, settlement: Settlement) {
    for answer in store.settle(&[settlement]).await {
        answer.unwrap();
    }
}

pub(crate) async fn ack(store: &Store, delivery: &Delivery) {
    settle_one(store, settlement(delivery, Outcome::Ack)).await;
}

pub(crate) fn attempt(number: u32, error: &str) -> AttemptRecord {
    let reason = Reason::DOWNSTREAM_TIMEOUT;
    AttemptRecord {
        number,
        started_at: at(0),
        took: Duration::from_millis(12),
        calls: 2,
        class: Class::Transient,
        group: Fingerprint::of(Class::Transient, &reason, None, None, error),
        reason,
        chain: vec![ErrorLink { kind: "Timeout".to_owned(), message: error.to_owned() }],
        status: Some(503),
        response: None,
        decision: "delay",
        because: "it may work later".to_owned(),
        handler_version: Some("v7".into()),
    }
}

pub(crate) fn record(entry: EntryId, flow: &str, state: EntryState, attempts: u32, now: Timestamp) -> Record {
    Record {
        entry,
        flow: flow.into(),
        state,
        at: now,
        due_at: None,
        attempt: None,
        succeeded: None,
        earlier: Vec::new(),
        attempts,
        message_type: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        owner: None,
        held: None,
        replay: None,
    }
}

pub(crate) fn entry_of(delivery: &Delivery) -> EntryId {
    let known = delivery.trail.entry_id.as_ref().and_then(|id| id.parse().ok());
    known.unwrap_or_else(EntryId::now_v7)
}

/// What an engine does with a failed attempt: the outcome, its record and the trail that goes on.
pub(crate) fn failed(delivery: &Delivery, outcome: Outcome, error: &str, now: Timestamp) -> Settlement {
    let entry = entry_of(delivery);
    let attempts = delivery.trail.attempt + 1;
    let (state, due) = match &outcome {
        Outcome::Delay { until } => (EntryState::Waiting, Some(*until)),
        Outcome::Hold { .. } => (EntryState::Held, None),
        Outcome::DeadLetter => (EntryState::Dead, None),
        Outcome::Park => (EntryState::Parked, None),
        Outcome::Reject { .. } => (EntryState::Rejected, None),
        Outcome::Discard => (EntryState::Discarded, None),
        Outcome::Ack | Outcome::Reroute { .. } | Outcome::Return => (EntryState::Recovered, None),
    };
    let trail = Trail {
        attempt: attempts,
        entry_id: Some(entry.hyphenated().to_string().into()),
        first_failure_at: delivery.trail.first_failure_at.or(Some(now)),
        last_failure_at: Some(now),
        error_message: Some(error.into()),
        ..(*delivery.trail).clone()
    };
    let record = Record {
        due_at: due,
        attempt: Some(attempt(attempts, error)),
        ..record(entry, &delivery.source.name, state, attempts, now)
    };
    Settlement {
        trail: Some(Box::new(trail)),
        record: Some(Box::new(record)),
        ..settlement(delivery, outcome)
    }
}

/// What an engine does with a message that has to be kept untried in a lane.
pub(crate) fn held(delivery: &Delivery, lane: LaneName, now: Timestamp) -> Settlement {
    let entry = entry_of(delivery);
    let trail =
        Trail { entry_id: Some(entry.hyphenated().to_string().into()), ..Trail::clone(&delivery.trail) };
    let kept = HeldRecord {
        behind: Some("somebody".to_owned()),
        reason: Reason::PREDECESSOR_PENDING,
        because: "it is behind somebody".to_owned(),
    };
    let attempts = delivery.trail.attempt;
    let record = Record {
        held: Some(Box::new(kept)),
        ..record(entry, &delivery.source.name, EntryState::Held, attempts, now)
    };
    Settlement {
        trail: Some(Box::new(trail)),
        record: Some(Box::new(record)),
        ..settlement(delivery, Outcome::Hold { lane })
    }
}

/// What an engine does with a retry that succeeds.
pub(crate) fn recovered(delivery: &Delivery, now: Timestamp) -> Settlement {
    let record = record(
        entry_of(delivery),
        &delivery.source.name,
        EntryState::Recovered,
        delivery.trail.attempt + 1,
        now,
    );
    Settlement { record: Some(Box::new(record)), ..settlement(delivery, Outcome::Ack) }
}

pub(crate) fn ann() -> Actor {
    Actor { who: "ann".to_owned(), why: "the warehouse is back".to_owned() }
}

pub(crate) async fn assert_sound(store: &Store) {
    assert_eq!(store.check().await.unwrap(), []);
}
