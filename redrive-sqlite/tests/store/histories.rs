//! Random histories: whatever people and messages do, the file's invariants hold, and nothing is lost.

use std::collections::BTreeSet;

use proptest::prelude::*;
use redrive_engine::port::{
    Broker, Deed, Delivery, EntryId, EntryState, Filter, LaneName, Ledger, NewMessage, NewReplay, Order,
    Outcome, Page, Published, Quarantine, ReplayState, Retention, Selection, Settlement, Source,
};
use redrive_sqlite::Store;

use crate::fixture::{Fixture, ann, assert_sound, failed, held, recovered, subscribe, take};
use crate::settling::rusqlite_of;

#[derive(Debug, Clone)]
enum Step {
    Publish { delay: Option<i64> },
    Settle { place: usize, how: usize },
    Act { deed: usize, by_state: Option<usize>, place: usize },
    BeginReplay { max: u64 },
    SendReplay { limit: u64 },
    SteerReplay { to: usize },
    Quarantine { begins: bool },
    Tidy,
    Wait { millis: i64 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::option::of(0..500_i64).prop_map(|delay| Step::Publish { delay }),
        8 => (0..8_usize, 0..12_usize).prop_map(|(place, how)| Step::Settle { place, how }),
        6 => (0..8_usize, prop::option::of(0..9_usize), 0..20_usize)
            .prop_map(|(deed, by_state, place)| Step::Act { deed, by_state, place }),
        1 => (1..5_u64).prop_map(|max| Step::BeginReplay { max }),
        2 => (1..4_u64).prop_map(|limit| Step::SendReplay { limit }),
        1 => (0..3_usize).prop_map(|to| Step::SteerReplay { to }),
        1 => any::<bool>().prop_map(|begins| Step::Quarantine { begins }),
        1 => Just(Step::Tidy),
        2 => (0..400_i64).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Reopen),
    ]
}

fn lane(place: usize) -> LaneName {
    LaneName::of_key(format!("lane-{}", place % 3).as_bytes())
}

fn kept_back() -> Quarantine {
    Quarantine::Tenant("acme".to_owned())
}

/// What a history works on.
struct World {
    fixture: Fixture,
    store: Store,
    source: Box<dyn Source>,
    in_hand: Vec<Delivery>,
    replays: Vec<EntryId>,
    published: BTreeSet<String>,
    released: BTreeSet<String>,
}

impl World {
    async fn new() -> Self {
        let fixture = Fixture::new();
        let store = fixture.open();
        let source = subscribe(&store, "orders").await;
        Self {
            fixture,
            store,
            source,
            in_hand: Vec::new(),
            replays: Vec::new(),
            published: BTreeSet::new(),
            released: BTreeSet::new(),
        }
    }

    /// Takes everything that is deliverable.
    async fn take_all(&mut self) {
        let ready = self.source.depth().await.unwrap().ready as usize;
        let open = ready.saturating_sub(self.in_hand.len());
        let taken = take(&mut self.source, open).await;
        self.in_hand.extend(taken);
    }

    async fn step(&mut self, step: Step) {
        let now = self.fixture.now();
        match step {
            Step::Publish { delay } => {
                let due = delay.map(|millis| now + std::time::Duration::from_millis(millis.cast_unsigned()));
                let message = NewMessage { due, body: Some("{}".into()), ..NewMessage::default() };
                for published in self.store.publish("orders", vec![message]).await.unwrap() {
                    let Published::Accepted(id) = published else { panic!("{published:?}") };
                    self.published.insert(id);
                }
            }
            Step::Settle { place, how } => self.settle(place, how).await,
            Step::Act { deed, by_state, place } => self.act(deed, by_state, place).await,
            Step::BeginReplay { max } => {
                let id = EntryId::now_v7();
                let new = NewReplay {
                    filter: Filter::default(),
                    ids: Vec::new(),
                    rate: None,
                    max: Some(max),
                    canary: (max == 2).then_some(1),
                };
                self.store.begin_replay(id, &new, &ann(), now).await.unwrap();
                self.replays.push(id);
            }
            Step::SendReplay { limit } => {
                for id in &self.replays {
                    self.store.step_replay(*id, limit, now).await.unwrap();
                }
            }
            Step::SteerReplay { to } => {
                let to = [ReplayState::Paused, ReplayState::Running, ReplayState::Cancelled][to];
                if let Some(id) = self.replays.last() {
                    let _ = self.store.steer_replay(*id, to, &ann(), now).await;
                }
            }
            Step::Quarantine { begins } => {
                let order = if begins { Order::Quarantine(kept_back()) } else { Order::Release(kept_back()) };
                // One that changes nothing is refused.
                let _ = self.store.order("orders", &order, &ann(), now).await;
            }
            Step::Tidy => {
                let kept = Some(std::time::Duration::from_millis(300));
                let retention =
                    Retention { finished: kept, discarded: None, archived: None, processed: kept };
                self.store.tidy(&retention, 2, now).await.unwrap();
            }
            Step::Wait { millis } => self.fixture.clock.advance(millis),
            Step::Reopen => self.reopen().await,
        }
    }

    async fn settle(&mut self, place: usize, how: usize) {
        self.take_all().await;
        if self.in_hand.is_empty() {
            return;
        }
        let delivery = self.in_hand.remove(place % self.in_hand.len());
        let now = self.fixture.now();
        let error = ["timed out", "refused"][place % 2];
        let until = now + std::time::Duration::from_millis(place as u64 * 50);
        let outcome = match how {
            0 => Outcome::Ack,
            1 | 2 => Outcome::Delay { until },
            3 => Outcome::DeadLetter,
            4 => Outcome::Park,
            5 => Outcome::Discard,
            6 | 9 => Outcome::Hold { lane: lane(place) },
            10 => Outcome::Hold { lane: kept_back().lane() },
            11 => Outcome::Hold { lane: LaneName::after(self.somebody(place).await) },
            7 => Outcome::Reject { event: "{}".into(), target: "rejected".to_owned() },
            _ => Outcome::Return,
        };
        if matches!(outcome, Outcome::Ack | Outcome::Reject { .. }) {
            self.released.insert(delivery.message.id.to_string());
        }
        let settlement = match outcome {
            Outcome::Ack if delivery.trail.entry_id.is_some() && place.is_multiple_of(2) => {
                recovered(&delivery, now)
            }
            Outcome::Ack | Outcome::Return => crate::fixture::settlement(&delivery, outcome),
            Outcome::Hold { lane } if how > 6 => held(&delivery, lane, now),
            outcome => failed(&delivery, outcome, error, now),
        };
        // Whatever an engine does: also what it would not, without regard to whose turn it is.
        let own = (how % 3 != 2).then(|| lane(place));
        for answer in self.store.settle(&[Settlement { lane: own, ..settlement }]).await {
            answer.unwrap();
        }
    }

    /// Any entry, or one that is not there.
    async fn somebody(&self, place: usize) -> EntryId {
        let entries = self.store.search(&Filter::default(), &Page::default()).await.unwrap().entries;
        entries.get(place).map_or_else(EntryId::now_v7, |entry| entry.id)
    }

    async fn act(&mut self, deed: usize, by_state: Option<usize>, place: usize) {
        let deed = [
            Deed::RetryNow,
            Deed::Cancel,
            Deed::Park,
            Deed::Discard,
            Deed::Restore,
            Deed::Archive,
            Deed::Reroute("elsewhere".to_owned()),
            Deed::Skip,
        ][deed]
            .clone();
        let selection = if let Some(state) = by_state {
            Selection::Filter(Filter { state: vec![EntryState::ALL[state]], ..Filter::default() })
        } else {
            let entries = self.store.search(&Filter::default(), &Page::default()).await.unwrap().entries;
            if entries.is_empty() {
                return;
            }
            Selection::Ids(vec![entries[place % entries.len()].id.to_string()])
        };
        self.store.act(&deed, &selection, &ann(), self.fixture.now()).await.unwrap();
    }

    async fn reopen(&mut self) {
        self.in_hand.clear();
        // The file closes with its last user, so both are exchanged for those of another file first.
        let other = Fixture::new();
        self.store = other.open();
        self.source = subscribe(&self.store, "orders").await;
        self.store = self.fixture.open();
        self.source = subscribe(&self.store, "orders").await;
    }

    /// Every message that was published is in the queue, in the ledger, or was released.
    async fn assert_nothing_lost(&mut self) {
        self.fixture.clock.advance(1_000_000);
        self.take_all().await;
        let mut found = self.released.clone();
        found.extend(self.in_hand.iter().map(|delivery| delivery.message.id.to_string()));
        let all = Page { limit: 1_000, after: None };
        for entry in self.store.search(&Filter::default(), &all).await.unwrap().entries {
            found.insert(entry.message.id);
        }
        let lost: Vec<_> = self.published.difference(&found).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4 + 1, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_after_any_history(steps in prop::collection::vec(steps(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.step(step).await;
            }
            assert_sound(&world.store).await;
            let lanes = "SELECT count(*) FROM lanes WHERE lane NOT GLOB 'quarantine:*'";
            let lanes: u64 = rusqlite_of(&world.fixture).query_row(lanes, [], |row| row.get(0)).unwrap();
            assert_eq!(world.store.held_lanes("orders").await, Ok(lanes), "known without a look at the file");
            world.assert_nothing_lost().await;
        });
    }
}
