//! Random histories of a broker apart: whatever is told, in whatever order, and wherever it is cut off, every message is
//! handled at last, and the file is sound.
//!
//! What settles here is a small broker and a small engine beside it, which keep to the order of things that a real one
//! keeps to: the ledger first where the message or its lane lives there, else the broker first and the ledger later.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::Timestamp;
use redrive_engine::port::{
    Asked, Copied, Deed, Delivery, EntryId, EntryState, Expected, Filter, Keeper, LaneName, Learned, Ledger,
    NewReplay, Outcome, Page, REROUTE_TO, ReadAt, Recorded, Selection, Settlement, SourceRef, Standing,
    Taken,
};

use super::topics::Topics;
use super::world::{FLOW, World, at_broker, copy_of, original, place, told};
use crate::fixture::{ann, assert_sound, held, recovered};

#[derive(Debug, Clone)]
enum Step {
    Publish,
    /// The first original, or one of the copies, ends in this way; or the process dies before the broker has settled it.
    Outer {
        copy: Option<usize>,
        how: usize,
        dies: bool,
    },
    /// One that came from home ends in this way.
    Home {
        place: usize,
        how: usize,
    },
    /// The ledger hears of so many that were settled before, some of them twice.
    Tell {
        count: usize,
        twice: bool,
    },
    /// That a retry succeeded is not told at all.
    Forget,
    /// What should have come is looked for.
    Overdue,
    Act {
        deed: usize,
        place: usize,
    },
    Replay {
        max: u64,
    },
    Wait {
        millis: i64,
    },
    /// The broker moves a waiting copy to another place, and says nothing.
    Hop {
        place: usize,
    },
    /// What lies at the broker is read.
    Look,
    /// The process dies: what it had in hand, and what it had not told, is gone with it.
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Publish),
        10 => (prop::option::of(0..4_usize), 0..12_usize, prop::bool::weighted(0.2))
            .prop_map(|(copy, how, dies)| Step::Outer { copy, how, dies }),
        6 => (0..4_usize, 0..12_usize).prop_map(|(place, how)| Step::Home { place, how }),
        4 => (1..5_usize, any::<bool>()).prop_map(|(count, twice)| Step::Tell { count, twice }),
        1 => Just(Step::Forget),
        1 => Just(Step::Overdue),
        5 => (0..8_usize, 0..20_usize).prop_map(|(deed, place)| Step::Act { deed, place }),
        1 => (1..4_u64).prop_map(|max| Step::Replay { max }),
        3 => (0..300_i64).prop_map(|millis| Step::Wait { millis }),
        2 => (0..4_usize).prop_map(|place| Step::Hop { place }),
        1 => Just(Step::Look),
        1 => Just(Step::Reopen),
    ]
}

/// What a broker apart has.
#[derive(Default)]
struct Outer {
    published: BTreeSet<String>,
    /// Not settled, the oldest first.
    originals: Vec<Delivery>,
    /// Copies that wait, until when, and what left them.
    copies: Vec<(Timestamp, Delivery, Settlement)>,
    /// Dead letters and parked messages, with what left them.
    shelf: Vec<(SourceRef, Settlement)>,
    /// Settled, and not told yet.
    late: Vec<Recorded>,
    offset: i64,
}

struct History {
    world: World,
    outer: Outer,
    /// Came from home and is not settled.
    in_hand: Vec<Delivery>,
    /// Succeeded, or was rejected.
    handled: BTreeSet<String>,
    /// Every record that was ever written, as topics keep them. Of most of them the ledger has no body.
    topics: Topics,
}

/// Every fourth message is in no lane.
fn lane_of(delivery: &Delivery) -> Option<LaneName> {
    let number: usize = delivery.message.id.as_str()[1..].parse().unwrap();
    (!number.is_multiple_of(4)).then(|| LaneName::of_key(format!("k{}", number % 2).as_bytes()))
}

fn entry_of(delivery: &Delivery) -> Option<EntryId> {
    delivery.trail.entry_id.as_ref().and_then(|id| id.parse().ok())
}

/// What lies at the broker, as it is found there.
fn found(settlement: &Settlement, lies: &SourceRef) -> Recorded {
    let settlement = Settlement { lane: None, ..settlement.clone() };
    let learned = Learned::Found { bodiless: false };
    Recorded {
        copy: Some(lies.clone()),
        learned,
        by_pointer: is_left(lies),
        ..told(&settlement, Keeper::Broker)
    }
}

/// Whether the ledger leaves the body of what lies there.
fn is_left(lies: &SourceRef) -> bool {
    lies.offset.is_some_and(|offset| offset % 3 != 0)
}

impl History {
    async fn new() -> Self {
        let world = World::new().await;
        let topics = Topics::of(&world.store);
        Self { world, outer: Outer::default(), in_hand: Vec::new(), handled: BTreeSet::new(), topics }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Publish => {
                self.outer.offset += 1;
                let id = format!("m{}", self.outer.published.len());
                self.outer.originals.push(original(&id, self.outer.offset));
                self.outer.published.insert(id);
            }
            Step::Outer { copy: None, how, dies } => self.original(how, dies).await,
            Step::Outer { copy: Some(place), how, dies } => self.copy(place, how, dies).await,
            Step::Home { place, how } => self.settle_home(place, how).await,
            Step::Tell { count, twice } => self.tell(count, twice).await,
            Step::Forget => {
                let ended = |one: &Recorded| one.settlement.outcome == Outcome::Ack;
                self.outer.late.retain(|one| !ended(one) || one.settlement.lane.is_some());
            }
            Step::Overdue => self.overdue().await,
            Step::Act { deed, place } => self.act(deed, place).await,
            Step::Replay { max } => {
                let new = NewReplay {
                    filter: Filter::default(),
                    ids: Vec::new(),
                    rate: None,
                    max: Some(max),
                    canary: None,
                };
                let id = EntryId::now_v7();
                let now = self.world.now();
                self.world.store.begin_replay(id, &new, &ann(), now).await.unwrap();
                self.world.store.step_replay(id, max, now).await.unwrap();
            }
            Step::Wait { millis } => self.world.fixture.clock.advance(millis),
            Step::Hop { place } => {
                let count = self.outer.copies.len().max(1);
                if let Some((_, copy, _)) = self.outer.copies.get_mut(place % count) {
                    self.outer.offset += 1;
                    copy.source.offset = Some(self.outer.offset);
                    self.topics.put(&copy.source, &copy.message);
                }
            }
            Step::Look => self.look().await,
            Step::Reopen => {
                self.in_hand.clear();
                for lost in self.outer.late.drain(..) {
                    // What the handler dropped without a word leaves no trace anywhere.
                    if lost.settlement.outcome == Outcome::Discard {
                        self.handled.insert(lost.settlement.delivery.message.id.to_string());
                    }
                }
                self.world.reopen().await;
                self.topics.serve(&self.world.store);
                self.overdue().await;
            }
        }
    }

    async fn original(&mut self, how: usize, dies: bool) {
        let Some(delivery) = self.outer.originals.first().cloned() else { return };
        if self.settle_outer(delivery, how, dies).await {
            self.outer.originals.remove(0);
        }
    }

    async fn copy(&mut self, place: usize, how: usize, dies: bool) {
        let now = self.world.now();
        let due: Vec<usize> =
            (0..self.outer.copies.len()).filter(|place| self.outer.copies[*place].0 <= now).collect();
        let Some(place) = due.get(place % due.len().max(1)).copied() else { return };
        let delivery = self.outer.copies[place].1.clone();
        let (message, attempts) = (delivery.message.id.clone(), delivery.trail.attempt);
        let copied = Copied { entry: entry_of(&delivery).unwrap(), message, attempts };
        let expected = match self.world.store.expected(FLOW, &[copied]).await.unwrap()[0] {
            Expected::No => false,
            Expected::Yes | Expected::Unknown => true,
            Expected::AfterAll => {
                let after_all = found(&self.outer.copies[place].2, &delivery.source);
                self.world.record(&[after_all]).await;
                true
            }
            Expected::Anothers => panic!("{delivery:?} is another's"),
        };
        // The copy of a copy is added behind it, so its place stays the same.
        if !expected || self.settle_outer(delivery, how, dies).await {
            self.outer.copies.remove(place);
        }
    }

    /// Ends a delivery of the broker; says whether it is released there.
    async fn settle_outer(&mut self, mut delivery: Delivery, how: usize, dies: bool) -> bool {
        let lane = lane_of(&delivery);
        let mut behind = false;
        if let Some(lane) = &lane {
            let entry = entry_of(&delivery);
            let read_at = ReadAt { source: delivery.source.clone(), published_at: delivery.ready_at };
            let asked = Asked { lane: lane.clone(), entry, read_at: entry.is_none().then_some(read_at) };
            match self.world.store.standings(FLOW, &[asked]).await.unwrap().remove(0) {
                Standing::Known => return true,
                Standing::Behind { .. } => behind = true,
                Standing::Turn { entry: Some(entry), .. } => {
                    let mut trail = (*delivery.trail).clone();
                    trail.entry_id = Some(entry.to_string().into());
                    delivery.trail = trail.into();
                }
                Standing::Open | Standing::Turn { .. } => {}
            }
        }
        let now = self.world.now();
        let until = now + Duration::from_millis(how as u64 * 20);
        let mut settlement = match how {
            _ if behind => held(&delivery, lane.clone().unwrap(), now),
            0..=3 if entry_of(&delivery).is_some() => recovered(&delivery, now),
            0..=3 => Settlement::plain(delivery.clone(), Outcome::Ack),
            4..=8 => self.world.fails(&delivery, Outcome::Delay { until }),
            9 => self.world.fails(&delivery, Outcome::DeadLetter),
            10 => self.world.fails(&delivery, Outcome::Park),
            _ => self.world.fails(&delivery, Outcome::Discard),
        };
        settlement.lane.clone_from(&lane);
        if let Some(record) = &mut settlement.record {
            record.flow = FLOW.into();
        }
        if settlement.outcome == Outcome::Ack {
            self.handled.insert(delivery.message.id.to_string());
        }
        let keeper = if behind || how == 8 { Keeper::Ledger } else { Keeper::Broker };
        let first = settlement.record.is_some() && (lane.is_some() || keeper == Keeper::Ledger);
        if first {
            match self.world.store.record(&[told(&settlement, keeper)]).await.unwrap()[0] {
                Taken::Taken => {}
                Taken::GiveBack => return false,
            }
        }
        if dies {
            // Whoever comes next takes a moment.
            self.world.fixture.clock.advance(1);
            return false;
        }
        self.outer.offset += 1;
        let offset = self.outer.offset;
        if keeper == Keeper::Broker && settlement.record.is_some() {
            self.late(&settlement, offset);
            match settlement.outcome {
                Outcome::Delay { until } => {
                    let copy = copy_of(&settlement, offset);
                    self.outer.copies.push((until, copy, settlement));
                }
                Outcome::DeadLetter | Outcome::Park => {
                    self.outer.shelf.push((place("orders.retry.10s", offset), settlement));
                }
                _ => {}
            }
        }
        true
    }

    /// The copy of a settlement lies there, and the ledger is told later.
    fn late(&mut self, settlement: &Settlement, offset: i64) {
        let lies = place("orders.retry.10s", offset);
        self.topics.put(&lies, &settlement.delivery.message);
        let by_pointer = is_left(&lies);
        self.outer.late.push(Recorded { by_pointer, ..at_broker(settlement, offset) });
    }

    async fn take_home(&mut self) {
        let ready = self.world.home.depth().await.unwrap().ready as usize;
        let open = ready.saturating_sub(self.in_hand.len());
        let taken = self.world.take(open).await;
        self.in_hand.extend(taken);
    }

    async fn settle_home(&mut self, place: usize, how: usize) {
        self.take_home().await;
        if self.in_hand.is_empty() {
            return;
        }
        let delivery = self.in_hand.remove(place % self.in_hand.len());
        let now = self.world.now();
        let until = now + Duration::from_millis(how as u64 * 20);
        let errand = delivery.message.headers.contains(REROUTE_TO);
        assert!(errand || entry_of(&delivery).is_some(), "it carries its entry");
        let body = format!("body of {}", delivery.message.id);
        assert_eq!(delivery.message.body.as_deref(), Some(body.as_bytes()), "it has its body");
        let settlement = match how {
            _ if errand => Settlement::plain(delivery.clone(), Outcome::Ack),
            0..=3 => recovered(&delivery, now),
            4..=7 => self.world.fails(&delivery, Outcome::Delay { until }),
            8 => self.world.fails(&delivery, Outcome::DeadLetter),
            9 => self.world.fails(&delivery, Outcome::Park),
            10 => Settlement::plain(delivery.clone(), Outcome::Return),
            _ => self.world.fails(&delivery, Outcome::Discard),
        };
        if settlement.outcome == Outcome::Ack && !errand {
            self.handled.insert(delivery.message.id.to_string());
        }
        let lane = lane_of(&delivery).filter(|_| !errand);
        let settlement = Settlement { lane, ..settlement };
        crate::fixture::settle_one(&self.world.store, settlement.clone()).await;
        if matches!(settlement.outcome, Outcome::DeadLetter | Outcome::Park) {
            self.outer.offset += 1;
            self.late(&settlement, self.outer.offset);
        }
    }

    async fn tell(&mut self, count: usize, twice: bool) {
        let count = count.min(self.outer.late.len());
        let told: Vec<_> = self.outer.late.drain(..count).collect();
        for _ in 0..=usize::from(twice) {
            self.world.store.record(&told).await.unwrap();
        }
    }

    /// The ledger learns what lies at the broker, after what is to be told, and without what people resolved.
    async fn look(&mut self) {
        self.tell(usize::MAX, false).await;
        let mut all = Vec::new();
        for (_, copy, settlement) in &self.outer.copies {
            all.push(found(settlement, &copy.source));
        }
        for (lies, settlement) in &self.outer.shelf {
            all.push(found(settlement, lies));
        }
        self.world.record(&all).await;
    }

    /// What the broker has released, and the ledger still waits for, has succeeded without a word: where no place that
    /// the ledger knows has it any more.
    async fn overdue(&mut self) {
        let now = self.world.now();
        let mut overdue = self.world.overdue(now).await;
        overdue.retain(|one| !self.outer.copies.iter().any(|(_, copy, _)| copy.source == one.copy));
        self.look().await;
        self.world.store.passed(&overdue, now).await.unwrap();
    }

    async fn act(&mut self, deed: usize, place: usize) {
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
        let entries = self.world.store.search(&Filter::default(), &Page::default()).await.unwrap().entries;
        if let Some(entry) = entries.get(place % entries.len().max(1)) {
            self.world.try_to(deed, entry.id).await;
        }
    }

    /// The ledger never says that a message has succeeded which has not.
    async fn assert_true(&self) {
        assert_sound(&self.world.store).await;
        let all = Page { limit: 1_000, after: None };
        for entry in self.world.store.search(&Filter::default(), &all).await.unwrap().entries {
            let handled = self.handled.contains(&entry.message.id);
            assert!(entry.state != EntryState::Recovered || handled, "{} never succeeded", entry.message.id);
            let kept = self.world.store.payload(entry.id).await.unwrap().is_some();
            assert_eq!(kept, entry.state.is_open(), "the body of {} {}", entry.message.id, entry.state);
        }
    }

    /// Everything is brought back and succeeds, until nothing is left.
    async fn finish(&mut self) {
        use EntryState::{Archived, Dead, Discarded, Parked, Waiting};
        for _ in 0..100 {
            self.world.fixture.clock.advance(60_000);
            while !self.outer.originals.is_empty() {
                let before = self.outer.originals.len();
                self.original(0, false).await;
                if self.outer.originals.len() == before {
                    break;
                }
            }
            for place in (0..self.outer.copies.len()).rev() {
                self.copy(place, 0, false).await;
            }
            self.overdue().await;
            for (deed, state) in
                [(Deed::Restore, vec![Discarded, Archived]), (Deed::RetryNow, vec![Dead, Parked])]
            {
                let selection = Selection::Filter(Filter { state, ..Filter::default() });
                self.world.store.act(&deed, &selection, &ann(), self.world.now()).await.unwrap();
            }
            self.take_home().await;
            while !self.in_hand.is_empty() {
                self.settle_home(0, 0).await;
            }
            let open = [Waiting, EntryState::Held, Dead, Parked, EntryState::Replaying, Discarded, Archived];
            let filter = Filter { state: open.to_vec(), ..Filter::default() };
            let left = self.world.store.search(&filter, &Page::default()).await.unwrap().entries;
            if left.is_empty() && self.outer.originals.is_empty() && self.outer.copies.is_empty() {
                break;
            }
        }
        self.assert_true().await;
        let lost: Vec<_> = self.outer.published.difference(&self.handled).collect();
        assert!(lost.is_empty(), "{lost:?} never came again");
        let counts = self.world.store.counts().await.unwrap();
        assert!(counts.states.iter().all(|one| one.state == EntryState::Recovered), "{counts:?}");
        assert_eq!(self.world.store.held_lanes(FLOW).await, Ok(0));
        assert_eq!(self.world.at_home().await, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4 + 1, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_beside_a_broker_apart(steps in prop::collection::vec(steps(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut history = History::new().await;
            for (n, step) in steps.into_iter().enumerate() {
                history.step(step).await;
                if n % 10 == 9 {
                    history.assert_true().await;
                }
            }
            history.finish().await;
        });
    }
}
