//! Lanes in hand: what of one order key has been taken in, and whose turn it is.
//!
//! Only what is in hand is known here; a lane that is held without anything in hand is the ledger's business, and is
//! asked for when a message of it arrives. So memory is bounded by what is in flight, not by the keys ever seen nor by
//! the followers kept.
//!
//! Between the moment a head leaves and the moment its settlement is durable, the ledger does not know yet that the lane
//! is held. A lane remembers that (`leaving`), and whoever arrives meanwhile goes where the others of the lane went. In the
//! same way it remembers one that is being kept behind others (`keeping`): the lane may open before that is durable, and
//! whoever arrives after it does not overtake it.
//!
//! What goes back to the source comes again, and what lies behind it there may have been taken already, or be taken before
//! that is durable. So a lane remembers who went back (`away`), and nobody else of it is let in before the first of them is
//! here again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::Text;

use super::job::Job;
use crate::port::{LaneName, Outcome};

/// How long it is waited for what went back. Another instance may have it, or the broker has dropped it; and by then the
/// source's own order holds again.
const AWAY: Duration = Duration::from_secs(5);
/// How often it is looked for those that are not waited for any more.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    lanes: HashMap<LaneName, Lane>,
    /// When the last look at the source began, by the monotonic clock.
    now: Duration,
    /// When lanes were last looked through for those that wait for nothing any more.
    looked_at: Duration,
    /// Lanes that gave messages back and may still wait for them.
    gave_back: HashSet<LaneName>,
}

#[derive(Debug, Default)]
struct Lane {
    /// Taken in and waiting for their turn, in order.
    queue: VecDeque<Box<Job>>,
    running: bool,
    /// Arrived, and the ledger is being asked how they stand.
    arriving: usize,
    /// Settlements handed to the settler, and those of them that are durable.
    sent: u64,
    durable: u64,
    leaving: Option<Leaving>,
    keeping: Option<Keeping>,
    /// Whether the lane is held in the ledger, and it was the turn of one that is here.
    held: bool,
    /// How often the lane has become held since it is known here.
    diversions: u64,
    /// Who went back to the source and is not here again, in order.
    away: VecDeque<Text>,
    /// When the last of them went back.
    away_since: Duration,
}

#[derive(Debug, Clone)]
struct Leaving {
    how: Leave,
    /// Until so many settlements are durable.
    until: u64,
}

#[derive(Debug, Clone)]
struct Keeping {
    /// Behind this message.
    head: Option<String>,
    /// Until so many settlements are durable.
    until: u64,
}

/// How a message leaves, and what that means for those behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It is through: the next one goes.
    Through,
    /// It was diverted: those behind it are kept behind this message.
    Diverted {
        /// Its id.
        head: String,
    },
    /// It went back to the source: those behind it go back too.
    Returned,
}

impl Leave {
    pub(crate) fn of(outcome: &Outcome, id: &str) -> Self {
        match outcome {
            Outcome::Ack | Outcome::Reject { .. } | Outcome::Discard | Outcome::Reroute { .. } => {
                Self::Through
            }
            Outcome::Delay { .. } | Outcome::Hold { .. } | Outcome::DeadLetter | Outcome::Park => {
                Self::Diverted { head: id.to_owned() }
            }
            Outcome::Return => Self::Returned,
        }
    }
}

/// What a message that arrives has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing yet: ask the ledger.
    Ask,
    /// Wait for its turn, which may be now.
    Queue,
    /// Be kept behind this message.
    Hold(Option<String>),
    /// Go back to the source.
    Return,
    /// Leave untried: the ledger has it already.
    Release,
}

/// What a lane was like when the ledger was asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    diversions: u64,
}

impl Lanes {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// A look at the source begins.
    pub(crate) fn begin_look(&mut self, now: Duration) {
        self.now = now;
        if now.saturating_sub(self.looked_at) < LOOK {
            return;
        }
        self.looked_at = now;
        for name in std::mem::take(&mut self.gave_back) {
            let Some(lane) = self.lanes.get_mut(&name) else { continue };
            if now.saturating_sub(lane.away_since) >= AWAY {
                lane.away.clear();
            }
            if lane.away.is_empty() {
                self.drop_if_idle(&name);
            } else {
                self.gave_back.insert(name);
            }
        }
    }

    /// A message has arrived. It counts as in hand from now on.
    pub(crate) fn arrive(&mut self, name: &LaneName, id: &Text, has_entry: bool) -> (Arrival, Seen) {
        let known = self.lanes.contains_key(name);
        let lane = self.lanes.entry(name.clone()).or_default();
        let seen = Seen { diversions: lane.diversions };
        let arrival = match lane.let_in(id, has_entry) {
            Some(arrival) => arrival,
            // Whoever is in front runs or waits here, and has not failed: the lane is open.
            None if known && !has_entry && lane.is_open() => Arrival::Queue,
            None => {
                lane.arriving += 1;
                Arrival::Ask
            }
        };
        (arrival, seen)
    }

    /// The ledger has answered for a message that arrived.
    pub(crate) fn answered(
        &mut self,
        name: &LaneName,
        seen: Seen,
        has_entry: bool,
        answer: Arrival,
    ) -> (Arrival, Seen) {
        let Some(lane) = self.lanes.get_mut(name) else { return (answer, seen) };
        let now = Seen { diversions: lane.diversions };
        let arrival = match lane.now(has_entry) {
            Some(arrival) => arrival,
            // The lane has become held while the ledger was asked.
            None if now != seen => return (Arrival::Ask, now),
            None => answer,
        };
        lane.arriving = lane.arriving.saturating_sub(1);
        (arrival, now)
    }

    /// Puts a message into its lane; answers with it when it is its turn at once. `held` says that the lane is held in the
    /// ledger, and that this is one of those whose turn it is.
    pub(crate) fn queue(&mut self, name: &LaneName, job: Box<Job>, held: bool) -> Option<Box<Job>> {
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.held |= held;
        if lane.running {
            lane.queue.push_back(job);
            return None;
        }
        lane.running = true;
        Some(job)
    }

    /// This message leaves the hand by a settlement. Answers with those behind it: the one whose turn it is, or all of them
    /// when they have to leave too; their settlements are counted already.
    pub(crate) fn leave(&mut self, name: &LaneName, id: &Text, how: &Leave) -> Vec<Box<Job>> {
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.sent += 1;
        if *how == Leave::Through {
            let next = lane.queue.pop_front();
            lane.running = next.is_some();
            return next.into_iter().collect();
        }
        lane.running = false;
        let others: Vec<Box<Job>> = lane.queue.drain(..).collect();
        lane.sent += others.len() as u64;
        lane.leaving = Some(Leaving { how: how.clone(), until: lane.sent });
        if *how == Leave::Returned {
            // They were in hand, so before whoever was turned away. One whose stream was lost meanwhile is there twice when
            // it has come again, and is waited for once.
            let ids = others.iter().map(|job| &job.delivery.message.id);
            for id in ids.rev().chain([id]) {
                lane.away.retain(|away| away != id);
                lane.away.push_front(id.clone());
            }
            self.went_back(name);
        }
        others
    }

    /// A message that had just arrived is settled without having had its turn.
    pub(crate) fn turned_away(&mut self, name: &LaneName) {
        self.lanes.entry(name.clone()).or_default().sent += 1;
    }

    /// A message that was not let in goes back to the source, and comes again in its turn.
    pub(crate) fn sent_back(&mut self, name: &LaneName, id: &Text) {
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.sent += 1;
        if !lane.away.contains(id) {
            lane.away.push_back(id.clone());
        }
        self.went_back(name);
    }

    /// These were let in, in this order, and go back to the source all the same: they come again before whoever is away.
    pub(crate) fn sent_back_again(&mut self, all: &[(LaneName, Text)]) {
        for (name, id) in all.iter().rev() {
            let lane = self.lanes.entry(name.clone()).or_default();
            lane.sent += 1;
            lane.away.push_front(id.clone());
            self.went_back(name);
        }
    }

    fn went_back(&mut self, name: &LaneName) {
        let now = self.now;
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.away_since = now;
        self.gave_back.insert(name.clone());
    }

    /// A message that had just arrived is kept behind others.
    pub(crate) fn kept_behind(&mut self, name: &LaneName, head: Option<String>) {
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.sent += 1;
        lane.keeping = Some(Keeping { head, until: lane.sent });
    }

    /// A settlement is durable, or was refused for good.
    pub(crate) fn settled(&mut self, name: &LaneName) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.durable += 1;
        if let Some(leaving) = &lane.leaving
            && lane.durable >= leaving.until
        {
            if leaving.how != Leave::Returned {
                lane.diversions += 1;
            }
            lane.leaving = None;
        }
        if lane.keeping.as_ref().is_some_and(|keeping| lane.durable >= keeping.until) {
            lane.keeping = None;
            lane.diversions += 1;
        }
        self.drop_if_idle(name);
    }

    fn drop_if_idle(&mut self, name: &LaneName) {
        if self.lanes.get(name).is_some_and(Lane::is_idle) {
            self.lanes.remove(name);
        }
    }

    /// Lanes with something in hand.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }
}

impl Lane {
    /// Where a message that arrives has to go, as far as that is known without the ledger. It is not away any more, unless it
    /// goes back.
    fn let_in(&mut self, id: &Text, has_entry: bool) -> Option<Arrival> {
        let is_first = self.away.front().is_none_or(|first| first == id);
        // What the ledger knows was in front of all that comes from the source, unless it went back itself.
        if !is_first && (!has_entry || self.away.contains(id)) {
            return Some(Arrival::Return);
        }
        let arrival = self.now(has_entry);
        if is_first && arrival != Some(Arrival::Return) {
            self.away.pop_front();
        }
        arrival
    }

    /// Where a message that was let in has to go now.
    fn now(&self, has_entry: bool) -> Option<Arrival> {
        match &self.leaving {
            Some(Leaving { how: Leave::Diverted { head }, .. }) => Some(Arrival::Hold(Some(head.clone()))),
            Some(Leaving { how: Leave::Returned, .. }) => Some(Arrival::Return),
            // What has an entry is known to the ledger, and was in front of those that are being kept.
            _ if has_entry => None,
            _ => self.keeping.as_ref().map(|keeping| Arrival::Hold(keeping.head.clone())),
        }
    }

    /// Whether the ledger keeps nobody before whoever arrives: those in front are all here.
    fn is_open(&self) -> bool {
        self.running && self.arriving == 0 && !self.held && self.diversions == 0
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && !self.running
            && self.arriving == 0
            && self.durable >= self.sent
            && self.leaving.is_none()
            && self.away.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_overtakes_one_that_is_being_kept() {
        let mut book = Book::default();
        let lane = LaneName::of_key(b"k");
        let behind = || Arrival::Hold(Some("head".to_owned()));
        let id = &Text::from("one");
        let (arrival, seen) = book.arrive(&lane, id, false);
        assert_eq!(arrival, Arrival::Ask);
        let (late, seen_by_late) = book.arrive(&lane, id, false);
        assert_eq!(late, Arrival::Ask);
        assert_eq!(book.answered(&lane, seen, false, behind()).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));

        // The head has come through, and the ledger says that the lane is open.
        assert_eq!(book.answered(&lane, seen_by_late, false, Arrival::Queue).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));
        assert_eq!(book.arrive(&lane, id, false).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));
        let (known, seen) = book.arrive(&lane, id, true);
        assert_eq!(known, Arrival::Ask, "what the ledger knows was in front of them");
        assert_eq!(book.answered(&lane, seen, true, Arrival::Queue).0, Arrival::Queue);

        for _ in 0..3 {
            assert_eq!(book.len(), 1);
            book.settled(&lane);
        }
        assert_eq!(book.len(), 0, "all of them are the ledger's");
        assert_eq!(book.arrive(&lane, id, false).0, Arrival::Ask);
    }

    fn text(id: &str) -> Text {
        Text::from(id)
    }

    /// One job of the lane in hand goes back, with those behind it.
    fn goes_back(book: &mut Book, lane: &LaneName, id: &str, behind: &[&str]) {
        for other in behind {
            let message = redrive_core::Message { id: text(other), ..redrive_core::Message::default() };
            let delivery = crate::port::Delivery::from(crate::port::DeliveryParts {
                tag: crate::port::Tag::APART,
                message,
                trail: crate::port::Carried::default(),
                source: crate::port::SourceRef {
                    kind: "test".into(),
                    name: "a".into(),
                    partition: None,
                    offset: None,
                },
                ready_at: redrive_core::Timestamp::default(),
                redelivered: false,
            });
            assert!(book.queue(lane, Box::new(Job::new(delivery)), false).is_none());
        }
        assert_eq!(book.leave(lane, &text(id), &Leave::Returned).len(), behind.len());
    }

    /// Lets one in that has its turn at once.
    fn runs(book: &mut Book, lane: &LaneName, id: &str) {
        let (arrival, seen) = book.arrive(lane, &text(id), false);
        assert_eq!(arrival, Arrival::Ask, "{id}");
        assert_eq!(book.answered(lane, seen, false, Arrival::Queue).0, Arrival::Queue, "{id}");
        book.lanes.get_mut(lane).unwrap().running = true;
    }

    fn is_sent_back(book: &mut Book, lane: &LaneName, id: &str) {
        assert_eq!(book.arrive(lane, &text(id), false).0, Arrival::Return, "{id}");
        book.sent_back(lane, &text(id));
    }

    #[test]
    fn nobody_overtakes_one_that_went_back() {
        let mut book = Book::default();
        let lane = LaneName::of_key(b"k");
        book.begin_look(Duration::from_secs(1));
        runs(&mut book, &lane, "a1");
        goes_back(&mut book, &lane, "a1", &["a2"]);
        // What lay behind them was taken already.
        is_sent_back(&mut book, &lane, "a3");
        // The first comes again before all of that is durable, and then once more.
        is_sent_back(&mut book, &lane, "a1");
        for _ in 0..4 {
            book.settled(&lane);
        }
        is_sent_back(&mut book, &lane, "a2");
        is_sent_back(&mut book, &lane, "a4");
        runs(&mut book, &lane, "a1");
        is_sent_back(&mut book, &lane, "a3");
        let (arrival, _) = book.arrive(&lane, &text("a2"), false);
        assert_eq!(arrival, Arrival::Queue, "it waits behind the first");
        assert_eq!(book.arrive(&lane, &text("a3"), false).0, Arrival::Queue);
        assert_eq!(book.arrive(&lane, &text("a4"), false).0, Arrival::Queue);
    }

    #[test]
    fn those_that_were_let_in_go_back_before_the_others() {
        let mut book = Book::default();
        let lane = LaneName::of_key(b"k");
        runs(&mut book, &lane, "a1");
        goes_back(&mut book, &lane, "a1", &[]);
        is_sent_back(&mut book, &lane, "a2");
        is_sent_back(&mut book, &lane, "a3");
        (0..3).for_each(|_| book.settled(&lane));
        let (_, first) = book.arrive(&lane, &text("a1"), false);
        let (_, second) = book.arrive(&lane, &text("a2"), false);
        for seen in [first, second] {
            let _ = book.answered(&lane, seen, false, Arrival::Return);
        }
        book.sent_back_again(&[(lane.clone(), text("a1")), (lane.clone(), text("a2"))]);
        assert_eq!(book.lanes[&lane].away, [text("a1"), text("a2"), text("a3")]);
    }

    /// Another instance has it, or the broker has dropped it.
    #[test]
    fn who_does_not_come_again_is_not_waited_for_for_ever() {
        let mut book = Book::default();
        let lane = LaneName::of_key(b"k");
        book.begin_look(Duration::from_secs(10));
        runs(&mut book, &lane, "a1");
        goes_back(&mut book, &lane, "a1", &[]);
        book.settled(&lane);
        is_sent_back(&mut book, &lane, "a2");
        book.settled(&lane);
        book.begin_look(Duration::from_secs(14));
        assert_eq!(book.len(), 1);
        book.begin_look(Duration::from_secs(15));
        assert_eq!(book.len(), 0);
        assert_eq!(book.arrive(&lane, &text("a2"), false).0, Arrival::Ask);
    }
}
