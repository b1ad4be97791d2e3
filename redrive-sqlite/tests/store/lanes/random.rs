//! Random histories of lanes against the model, on a file and in memory: order per lane is kept, and no follower is left
//! behind.
//!
//! What settles here is a small engine: it takes what comes, asks how the first of each lane stands, tries it or keeps it,
//! and does so in two steps, so that people, restarts and new messages come between the question and the answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redrive_engine::port::{
    Asked, Broker, Deed, Delivery, EntryId, EntryState, Filter, LaneName, Ledger, NewMessage, NewReplay,
    Order, Outcome, Page, Quarantine, Selection, Settlement, Source, Standing, Subscription,
};
use testkit::memory::MemoryStore;

use super::model::{Model, Place};
use crate::fixture::{Fixture, ann, entry_of, failed, held, recovered, settlement, take};

const LANES: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Publish {
        lane: usize,
    },
    Ask {
        lane: usize,
    },
    Settle {
        lane: usize,
        how: usize,
    },
    Act {
        deed: usize,
        place: usize,
    },
    Replay {
        max: u64,
    },
    Quarantine {
        lane: usize,
    },
    Release {
        lane: usize,
    },
    /// The engine learns which quarantines are in force.
    Learn,
    Wait {
        millis: i64,
    },
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    let lane = || 0..LANES;
    prop_oneof![
        8 => lane().prop_map(|lane| Step::Publish { lane }),
        10 => lane().prop_map(|lane| Step::Ask { lane }),
        12 => (lane(), 0..16_usize).prop_map(|(lane, how)| Step::Settle { lane, how }),
        8 => (0..8_usize, 0..40_usize).prop_map(|(deed, place)| Step::Act { deed, place }),
        1 => (1..4_u64).prop_map(|max| Step::Replay { max }),
        1 => lane().prop_map(|lane| Step::Quarantine { lane }),
        1 => lane().prop_map(|lane| Step::Release { lane }),
        1 => Just(Step::Learn),
        3 => (0..300_i64).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Reopen),
    ]
}

fn name_of(lane: usize) -> LaneName {
    LaneName::of_key(format!("k{lane}").as_bytes())
}

fn quarantine(lane: usize) -> Quarantine {
    Quarantine::Key(format!("k{lane}"))
}

/// What the engine found out about the first message of a lane.
#[derive(Debug, Clone)]
enum Plan {
    Try,
    Keep(LaneName),
}

#[derive(Debug, Default)]
struct Hand {
    waiting: VecDeque<Delivery>,
    /// About the first.
    plan: Option<Plan>,
}

/// Where the messages are.
enum Ports {
    File(Fixture),
    Memory(Fixture, MemoryStore),
}

struct World {
    ports: Ports,
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    source: Option<Box<dyn Source>>,
    hands: BTreeMap<usize, Hand>,
    known: BTreeSet<usize>,
    /// The lane that each message was kept in last.
    kept_in: BTreeMap<String, LaneName>,
    model: Model,
}

impl Ports {
    fn open(&self) -> (Arc<dyn Broker>, Arc<dyn Ledger>) {
        match self {
            Self::File(fixture) => {
                let store = fixture.open();
                (Arc::new(store.clone()), Arc::new(store))
            }
            Self::Memory(_, store) => (store.broker(), store.ledger()),
        }
    }

    fn fixture(&self) -> &Fixture {
        let (Self::File(fixture) | Self::Memory(fixture, _)) = self;
        fixture
    }
}

impl World {
    async fn new(ports: Ports) -> Self {
        let (broker, ledger) = ports.open();
        let mut world = Self {
            ports,
            broker,
            ledger,
            source: None,
            hands: BTreeMap::new(),
            known: BTreeSet::new(),
            kept_in: BTreeMap::new(),
            model: Model::default(),
        };
        world.subscribe().await;
        world
    }

    async fn subscribe(&mut self) {
        let subscription = Subscription::new("orders", "orders");
        self.source = Some(self.broker.subscribe(&subscription).await.unwrap());
    }

    fn now(&self) -> redrive_core::Timestamp {
        self.ports.fixture().now()
    }

    /// Takes everything that is deliverable.
    async fn take_all(&mut self) {
        let Some(source) = &mut self.source else { return };
        let in_hand: usize = self.hands.values().map(|hand| hand.waiting.len()).sum();
        let ready = source.depth().await.unwrap().ready as usize;
        for delivery in take(source, ready.saturating_sub(in_hand)).await {
            let lane = self.model.lane(delivery.message.id.as_str());
            self.hands.entry(lane).or_default().waiting.push_back(delivery);
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Publish { lane } => {
                let id = self.model.publish(lane);
                let key = Some(format!("k{lane}").into());
                let message = NewMessage { id: Some(id), key, ..NewMessage::default() };
                self.broker.publish("orders", vec![message]).await.unwrap();
            }
            Step::Ask { lane } => self.ask(lane).await,
            Step::Settle { lane, how } => self.settle_first(lane, how).await,
            Step::Act { deed, place } => self.act(deed, place).await,
            Step::Replay { max } => {
                let state = vec![EntryState::Dead, EntryState::Parked];
                let filter = Filter { state, ..Filter::default() };
                let new = NewReplay { filter, ids: Vec::new(), rate: None, max: Some(max), canary: None };
                let id = EntryId::now_v7();
                self.ledger.begin_replay(id, &new, &ann(), self.now()).await.unwrap();
                self.ledger.step_replay(id, max, self.now()).await.unwrap();
            }
            Step::Quarantine { lane } => self.order(&Order::Quarantine(quarantine(lane))).await,
            Step::Release { lane } => self.order(&Order::Release(quarantine(lane))).await,
            Step::Learn => self.learn().await,
            Step::Wait { millis } => self.ports.fixture().clock.advance(millis),
            Step::Reopen => self.reopen().await,
        }
    }

    /// One that changes nothing is refused, which is as good here.
    async fn order(&self, order: &Order) {
        let _ = self.ledger.order("orders", order, &ann(), self.now()).await;
    }

    async fn learn(&mut self) {
        let controls = self.ledger.controls().await.unwrap();
        let of_lane =
            |lane: &usize| controls.iter().any(|control| control.target == quarantine(*lane).to_string());
        self.known = (0..LANES).filter(of_lane).collect();
    }

    async fn reopen(&mut self) {
        self.hands.clear();
        self.source = None;
        // A file closes with its last user, so these are exchanged for others first.
        let other = MemoryStore::shared(self.ports.fixture().clock.clone());
        (self.broker, self.ledger) = (other.broker(), other.ledger());
        (self.broker, self.ledger) = self.ports.open();
        self.subscribe().await;
    }

    async fn standing(&self, lane: usize, entry: Option<EntryId>) -> Standing {
        let asked = [Asked { lane: name_of(lane), entry, read_at: None }];
        self.ledger.standings("orders", &asked).await.unwrap().remove(0)
    }

    /// Finds out what to do with the first message of a lane.
    async fn ask(&mut self, lane: usize) {
        self.take_all().await;
        let hand = self.hands.entry(lane).or_default();
        let Some(first) = hand.waiting.front().filter(|_| hand.plan.is_none()) else { return };
        let id = first.message.id.to_string();
        let entry = first.trail.entry_id.as_ref().and_then(|id| id.parse().ok());
        let plan = match self.standing(lane, entry).await {
            Standing::Behind { .. } => Plan::Keep(name_of(lane)),
            Standing::Open | Standing::Turn { .. } => {
                self.model.has_its_turn(&id);
                if self.known.contains(&lane) { Plan::Keep(quarantine(lane).lane()) } else { Plan::Try }
            }
            Standing::Known => unreachable!("nothing here was read from another broker"),
        };
        self.hands.entry(lane).or_default().plan = Some(plan);
    }

    /// Carries out what was found out about the first message of a lane.
    async fn settle_first(&mut self, lane: usize, how: usize) {
        let hand = self.hands.entry(lane).or_default();
        let Some(plan) = hand.plan.take() else { return };
        let Some(first) = hand.waiting.pop_front() else { return };
        let id = first.message.id.to_string();
        let now = self.now();
        let own = Some(name_of(lane));
        let mut followed = None;
        let outcome = match plan {
            Plan::Keep(name) => Outcome::Hold { lane: name },
            Plan::Try => match how {
                0..=5 => Outcome::Ack,
                6..=9 => Outcome::Delay { until: now + Duration::from_millis(how as u64 * 20) },
                10 => Outcome::DeadLetter,
                11 => Outcome::Park,
                12 => Outcome::Discard,
                13 => Outcome::Return,
                _ => match self.somebody_unfinished(how, &first).await {
                    Some((entry, first)) => {
                        followed = Some(first);
                        Outcome::Hold { lane: LaneName::after(entry) }
                    }
                    None => Outcome::Ack,
                },
            },
        };
        let behind = matches!(&outcome, Outcome::Hold { lane: name } if *name == name_of(lane));
        let place = match &outcome {
            Outcome::Ack | Outcome::Discard => Place::Done,
            Outcome::Return => self.model.place(&id),
            Outcome::Hold { .. } if behind => Place::Follower,
            _ => Place::Head,
        };
        let mut batch = vec![match outcome.clone() {
            Outcome::Ack if first.trail.entry_id.is_some() => recovered(&first, now),
            Outcome::Ack | Outcome::Return => settlement(&first, outcome.clone()),
            Outcome::Hold { lane } => held(&first, lane, now),
            outcome => failed(&first, outcome, "503", now),
        }];
        self.model.put(&id, place);
        // Those behind it in hand leave with it, unless it is through.
        if !matches!(outcome, Outcome::Ack | Outcome::Discard) && !behind {
            for next in self.hands.entry(lane).or_default().waiting.drain(..) {
                if outcome == Outcome::Return {
                    batch.push(settlement(&next, Outcome::Return));
                } else {
                    self.model.put(next.message.id.as_str(), Place::Follower);
                    batch.push(held(&next, name_of(lane), now));
                }
            }
        }
        for settlement in &mut batch {
            settlement.lane.clone_from(&own);
        }
        self.settle(&batch).await;
        if let Some(first) = followed {
            // While those go on that waited for it until a person skipped it, one more goes with them.
            let behind = self.ledger.entry(&id).await.unwrap().unwrap().held_behind;
            self.model.follow(&id, behind.as_deref().filter(|behind| *behind == first));
        }
    }

    async fn settle(&mut self, batch: &[Settlement]) {
        for answer in self.broker.settle(batch).await {
            answer.unwrap();
        }
        for settlement in batch {
            let Outcome::Hold { lane } = &settlement.outcome else { continue };
            let id = settlement.delivery.message.id.as_str();
            self.kept_in.insert(id.to_owned(), lane.clone());
            // Behind one that waits for it in turn nobody is kept.
            let parked = self.ledger.entry(id).await.unwrap().unwrap().state == EntryState::Parked;
            if parked && self.model.place(id) == Place::Follower {
                self.model.put(id, Place::Out);
            }
        }
    }

    /// An entry that has not come to an end, to follow.
    async fn somebody_unfinished(&self, how: usize, but: &Delivery) -> Option<(EntryId, String)> {
        use EntryState::{Dead, Held, Parked, Replaying, Waiting};
        let filter = Filter { state: vec![Waiting, Held, Dead, Parked, Replaying], ..Filter::default() };
        let mut entries = self.ledger.search(&filter, &Page::default()).await.unwrap().entries;
        entries.retain(|entry| entry.id != entry_of(but));
        let place = how % entries.len().max(1);
        entries.get(place).map(|entry| (entry.id, entry.message.id.clone()))
    }

    async fn act(&mut self, deed: usize, place: usize) {
        let mut entries = self.ledger.search(&Filter::default(), &Page::default()).await.unwrap().entries;
        entries.sort_by(|one, other| one.message.id.cmp(&other.message.id));
        let Some(entry) = entries.get(place % entries.len().max(1)) else { return };
        let deed = [
            Deed::RetryNow,
            Deed::Cancel,
            Deed::Park,
            Deed::Discard,
            Deed::Restore,
            Deed::Archive,
            Deed::Skip,
            Deed::Reroute("elsewhere".to_owned()),
        ][deed]
            .clone();
        let selection = Selection::Ids(vec![entry.id.to_string()]);
        let report = self.ledger.act(&deed, &selection, &ann(), self.now()).await.unwrap();
        if report.done == 0 {
            return;
        }
        let id = entry.message.id.as_str();
        let stands = self.ledger.entry(id).await.unwrap().unwrap();
        let before = self.model.place(id);
        match deed {
            Deed::RetryNow => {}
            // A head that is put aside stays the head; it is kept in no other lane any more.
            Deed::Cancel | Deed::Park if before == Place::Head => self.model.follow(id, None),
            Deed::Cancel | Deed::Park => self.model.put(id, Place::Out),
            Deed::Discard | Deed::Archive | Deed::Reroute(_) => self.model.put(id, Place::Done),
            Deed::Skip => {
                self.model.put(id, Place::Out);
                self.model.let_followers_go(id);
            }
            // Back in its own lane it is a follower; elsewhere nobody of its lane waits for it.
            Deed::Restore => {
                let own = self.kept_in.get(id) == Some(&name_of(self.model.lane(id)));
                let follows = stands.state == EntryState::Held && own;
                self.model.put(id, if follows { Place::Follower } else { Place::Out });
            }
        }
    }

    async fn assert_sound(&self) {
        assert_eq!(self.ledger.check().await.unwrap(), []);
    }

    /// Everything is let go, tried with success, or discarded, until nothing is left.
    async fn finish(&mut self) {
        for lane in 0..LANES {
            self.order(&Order::Release(quarantine(lane))).await;
        }
        self.learn().await;
        let stuck = Selection::Filter(Filter {
            state: vec![EntryState::Dead, EntryState::Parked],
            ..Filter::default()
        });
        for _ in 0..200 {
            self.ports.fixture().clock.advance(1_000);
            self.take_all().await;
            for lane in 0..LANES {
                while !self.hands.entry(lane).or_default().waiting.is_empty() {
                    self.ask(lane).await;
                    self.settle_first(lane, 0).await;
                }
            }
            for entry in self
                .ledger
                .search(&Filter::default(), &Page { limit: 1_000, after: None })
                .await
                .unwrap()
                .entries
            {
                if matches!(entry.state, EntryState::Dead | EntryState::Parked) {
                    self.model.put(&entry.message.id, Place::Done);
                }
            }
            self.ledger.act(&Deed::Discard, &stuck, &ann(), self.now()).await.unwrap();
            if self.model.unfinished().is_empty() {
                break;
            }
        }
        self.assert_sound().await;
        assert_eq!(self.model.unfinished(), Vec::<&str>::new(), "left behind");
        assert_eq!(self.ledger.held_lanes("orders").await, Ok(0));
        assert_eq!(self.ledger.count("orders", EntryState::Held).await, Ok(0));
        for lane in 0..LANES {
            assert_eq!(self.standing(lane, None).await, Standing::Open);
        }
        self.reopen().await;
        self.take_all().await;
        assert!(self.hands.values().all(|hand| hand.waiting.is_empty()), "something is left in the queue");
    }
}

fn run(ports: Ports, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(ports).await;
        for (n, step) in steps.into_iter().enumerate() {
            world.step(step).await;
            if n % 8 == 7 {
                world.assert_sound().await;
            }
        }
        world.finish().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8 + 1, ..ProptestConfig::default() })]

    #[test]
    fn lanes_on_a_file_keep_their_order_and_leave_nobody_behind(steps in prop::collection::vec(steps(), 1..120)) {
        run(Ports::File(Fixture::new()), steps);
    }
}

proptest! {
    #[test]
    fn lanes_in_memory_keep_their_order_and_leave_nobody_behind(steps in prop::collection::vec(steps(), 1..120)) {
        let fixture = Fixture::new();
        let store = MemoryStore::shared(fixture.clock.clone());
        run(Ports::Memory(fixture, store), steps);
    }
}
