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

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::job::Job;
use crate::port::{LaneName, Outcome};

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    lanes: HashMap<LaneName, Lane>,
    /// Moves with every look at the source.
    round: u64,
    /// Lanes that gave messages back since the last look began.
    gave_back: Vec<LaneName>,
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
    /// The round in which messages were given back.
    gave_back: Option<u64>,
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
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
        for name in std::mem::take(&mut self.gave_back) {
            self.drop_if_idle(&name);
        }
    }

    /// A message has arrived. It counts as in hand from now on.
    pub(crate) fn arrive(&mut self, name: &LaneName, has_entry: bool) -> (Arrival, Seen) {
        let round = self.round;
        let known = self.lanes.contains_key(name);
        let lane = self.lanes.entry(name.clone()).or_default();
        let seen = Seen { diversions: lane.diversions };
        let arrival = match lane.now(round, has_entry) {
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
        let round = self.round;
        let Some(lane) = self.lanes.get_mut(name) else { return (answer, seen) };
        let now = Seen { diversions: lane.diversions };
        let arrival = match lane.now(round, has_entry) {
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

    /// A message leaves the hand by a settlement. Answers with those behind it: the one whose turn it is, or all of them
    /// when they have to leave too; their settlements are counted already.
    pub(crate) fn leave(&mut self, name: &LaneName, how: &Leave) -> Vec<Box<Job>> {
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
        others
    }

    /// A message that had just arrived is settled without having had its turn.
    pub(crate) fn turned_away(&mut self, name: &LaneName) {
        self.lanes.entry(name.clone()).or_default().sent += 1;
    }

    /// A message that had just arrived is kept behind others.
    pub(crate) fn kept_behind(&mut self, name: &LaneName, head: Option<String>) {
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.sent += 1;
        lane.keeping = Some(Keeping { head, until: lane.sent });
    }

    /// A settlement is durable, or was refused for good.
    pub(crate) fn settled(&mut self, name: &LaneName) {
        let round = self.round;
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.durable += 1;
        if let Some(leaving) = &lane.leaving
            && lane.durable >= leaving.until
        {
            match leaving.how {
                Leave::Returned => {
                    lane.gave_back = Some(round);
                    self.gave_back.push(name.clone());
                }
                _ => lane.diversions += 1,
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
        let round = self.round;
        if self.lanes.get(name).is_some_and(|lane| lane.is_idle(round)) {
            self.lanes.remove(name);
        }
    }

    /// Lanes with something in hand.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }
}

impl Lane {
    /// Where a message that arrives now has to go, as far as that is known without the ledger.
    fn now(&self, round: u64, has_entry: bool) -> Option<Arrival> {
        match &self.leaving {
            Some(Leaving { how: Leave::Diverted { head }, .. }) => Some(Arrival::Hold(Some(head.clone()))),
            Some(Leaving { how: Leave::Returned, .. }) => Some(Arrival::Return),
            // It may have been taken before the others were given back, and would overtake them.
            _ if self.gave_back == Some(round) => Some(Arrival::Return),
            // What has an entry is known to the ledger, and was in front of those that are being kept.
            _ if has_entry => None,
            _ => self.keeping.as_ref().map(|keeping| Arrival::Hold(keeping.head.clone())),
        }
    }

    /// Whether the ledger keeps nobody before whoever arrives: those in front are all here.
    fn is_open(&self) -> bool {
        self.running && self.arriving == 0 && !self.held && self.diversions == 0
    }

    fn is_idle(&self, round: u64) -> bool {
        self.queue.is_empty()
            && !self.running
            && self.arriving == 0
            && self.durable >= self.sent
            && self.leaving.is_none()
            && self.gave_back != Some(round)
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
        let (arrival, seen) = book.arrive(&lane, false);
        assert_eq!(arrival, Arrival::Ask);
        let (late, seen_by_late) = book.arrive(&lane, false);
        assert_eq!(late, Arrival::Ask);
        assert_eq!(book.answered(&lane, seen, false, behind()).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));

        // The head has come through, and the ledger says that the lane is open.
        assert_eq!(book.answered(&lane, seen_by_late, false, Arrival::Queue).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));
        assert_eq!(book.arrive(&lane, false).0, behind());
        book.kept_behind(&lane, Some("head".to_owned()));
        let (known, seen) = book.arrive(&lane, true);
        assert_eq!(known, Arrival::Ask, "what the ledger knows was in front of them");
        assert_eq!(book.answered(&lane, seen, true, Arrival::Queue).0, Arrival::Queue);

        for _ in 0..3 {
            assert_eq!(book.len(), 1);
            book.settled(&lane);
        }
        assert_eq!(book.len(), 0, "all of them are the ledger's");
        assert_eq!(book.arrive(&lane, false).0, Arrival::Ask);
    }
}
