//! A broker apart, as far as the ledger sees it: messages of a topic, copies that come back, and what is told of both.

use redrive_core::headers::Trail;
use redrive_core::{Headers, Message, Timestamp};
use redrive_engine::port::{
    Broker, Copied, Deed, DeedReport, Delivery, DeliveryParts, Entry, EntryId, EntryState, Expected, Keeper,
    LaneName, Learned, Ledger, Outcome, Overdue, Recorded, Selection, Settlement, Source, SourceRef,
    Subscription, Tag, Taken, home_of,
};
use redrive_sqlite::Store;

use crate::fixture::{Fixture, ann, at, failed, take};

pub(super) const FLOW: &str = "orders";

pub(super) fn lane() -> LaneName {
    LaneName::of_key(b"customer-1")
}

pub(super) fn place(name: &str, offset: i64) -> SourceRef {
    SourceRef { kind: "kafka".into(), name: name.into(), partition: Some(3), offset: Some(offset) }
}

/// A message of the topic, read at its offset.
pub(super) fn original(id: &str, offset: i64) -> Delivery {
    Delivery::from(DeliveryParts {
        tag: Tag { stream: 3, epoch: 1, number: offset.cast_unsigned() },
        message: Message {
            id: id.into(),
            key: Some("customer-1".into()),
            body: Some(format!("body of {id}").into()),
            headers: Headers::new(),
            content_type: Some("application/json".into()),
        },
        trail: Trail::default().into(),
        source: place(FLOW, offset),
        ready_at: at(offset),
        redelivered: false,
    })
}

/// The copy that a settlement left at the broker, when it comes back.
pub(super) fn copy_of(settlement: &Settlement, offset: i64) -> Delivery {
    let trail = settlement.trail.as_deref().cloned().unwrap_or_default();
    Delivery::from(DeliveryParts {
        trail: trail.into(),
        source: place("orders.retry.10s", offset),
        ..settlement.delivery.clone().into_parts()
    })
}

pub(super) fn entry_id(settlement: &Settlement) -> EntryId {
    settlement.record.as_ref().unwrap().entry
}

pub(super) fn told(settlement: &Settlement, keeper: Keeper) -> Recorded {
    Recorded {
        settlement: settlement.clone(),
        copy: None,
        keeper,
        learned: Learned::Settled,
        by_pointer: false,
    }
}

pub(super) fn at_broker(settlement: &Settlement, offset: i64) -> Recorded {
    Recorded { copy: Some(place("orders.retry.10s", offset)), ..told(settlement, Keeper::Broker) }
}

/// What was found at the broker, at an offset of a topic.
pub(super) fn found_at(settlement: &Settlement, topic: &str, offset: i64) -> Recorded {
    let learned = Learned::Found { bodiless: false };
    Recorded { copy: Some(place(topic, offset)), learned, ..told(settlement, Keeper::Broker) }
}

pub(super) struct World {
    pub(super) fixture: Fixture,
    pub(super) store: Store,
    pub(super) home: Box<dyn Source>,
}

pub(super) async fn home_source(store: &Store) -> Box<dyn Source> {
    let subscription = Subscription::new(FLOW, home_of(FLOW));
    store.subscribe(&subscription).await.unwrap()
}

impl World {
    pub(super) async fn new() -> Self {
        let fixture = Fixture::new();
        let store = fixture.open();
        let home = home_source(&store).await;
        Self { fixture, store, home }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.fixture.now()
    }

    pub(super) fn later(&self, millis: u64) -> Outcome {
        Outcome::Delay { until: self.now() + std::time::Duration::from_millis(millis) }
    }

    /// An attempt that fails now.
    pub(super) fn fails(&self, delivery: &Delivery, outcome: Outcome) -> Settlement {
        let mut settlement = failed(delivery, outcome, "503", self.now());
        if let Some(record) = &mut settlement.record {
            record.flow = FLOW.into();
        }
        settlement
    }

    /// The same, in the lane.
    pub(super) fn fails_in_lane(&self, delivery: &Delivery, outcome: Outcome) -> Settlement {
        Settlement { lane: Some(lane()), ..self.fails(delivery, outcome) }
    }

    pub(super) async fn record(&self, recorded: &[Recorded]) {
        let taken = self.store.record(recorded).await.unwrap();
        assert_eq!(taken, vec![Taken::Taken; recorded.len()]);
    }

    pub(super) async fn entry(&self, id: EntryId) -> Entry {
        self.store.entry(&id.to_string()).await.unwrap().unwrap()
    }

    pub(super) async fn state(&self, settlement: &Settlement) -> EntryState {
        self.entry(entry_id(settlement)).await.state
    }

    /// What the ledger says of a copy of an entry, which it has to know.
    pub(super) async fn expected(&self, entry: EntryId, attempts: u32) -> Expected {
        let message = self.entry(entry).await.message.id.into();
        self.store.expected(FLOW, &[Copied { entry, message, attempts }]).await.unwrap()[0]
    }

    pub(super) async fn is_expected(&self, entry: EntryId, attempts: u32) -> bool {
        self.expected(entry, attempts).await == Expected::Yes
    }

    /// All that are overdue before a time.
    pub(super) async fn overdue(&self, before: Timestamp) -> Vec<Overdue> {
        self.store.overdue(FLOW, before, None, 100).await.unwrap()
    }

    /// The broker has passed the copies of these that are overdue.
    pub(super) async fn passed(&self, settlements: &[&Settlement]) {
        let mut overdue = self.overdue(self.now()).await;
        overdue.retain(|one| settlements.iter().any(|settlement| entry_id(settlement) == one.entry));
        assert_eq!(overdue.len(), settlements.len());
        Ledger::passed(&self.store, &overdue, self.now()).await.unwrap();
    }

    pub(super) async fn take(&mut self, count: usize) -> Vec<Delivery> {
        take(&mut self.home, count).await
    }

    /// Takes one from home, which has to be this one.
    pub(super) async fn take_one(&mut self, id: &str) -> Delivery {
        let delivery = self.take(1).await.remove(0);
        assert_eq!(delivery.message.id.as_str(), id);
        delivery
    }

    /// What is deliverable at home.
    pub(super) async fn at_home(&mut self) -> u64 {
        let depth = self.home.depth().await.unwrap();
        depth.ready + depth.waiting
    }

    pub(super) async fn try_to(&self, deed: Deed, entry: EntryId) -> DeedReport {
        let selection = Selection::Ids(vec![entry.to_string()]);
        self.store.act(&deed, &selection, &ann(), self.now()).await.unwrap()
    }

    pub(super) async fn act(&self, deed: Deed, entry: EntryId) {
        let name = deed.name();
        let report = self.try_to(deed, entry).await;
        assert_eq!((report.done, report.refused), (1, Vec::new()), "{name}");
    }

    pub(super) async fn reopen(&mut self) {
        // The file closes with its last user, so both are exchanged for those of another file first.
        let other = Fixture::new();
        self.store = other.open();
        self.home = home_source(&self.store).await;
        self.store = self.fixture.open();
        self.home = home_source(&self.store).await;
    }
}
