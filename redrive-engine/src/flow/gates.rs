//! Gates: what stands still for messages that are retried in hand.
//!
//! Where the broker has partitions a gate closes the message's own, else the whole flow. What stands behind a gate keeps its
//! order and goes back to its place when the gate opens.
//!
//! A gate is closed for one message at first. Others of it may be running in that moment, and fail in the same way: then it
//! is closed for each of them. They are tried one after the other, by their places, and the gate opens when all have left.

use std::collections::{BTreeMap, VecDeque};

use redrive_core::Text;

use super::job::Job;
use crate::port::Tag;

#[derive(Debug)]
pub(crate) struct Gates {
    by_stream: bool,
    closed: BTreeMap<u32, Gate>,
}

/// Whether a gate was closed before.
#[derive(Debug)]
pub(crate) enum Closing {
    /// Since now; these go back to where they came from.
    Now(Vec<Box<Job>>),
    /// It was, for this message or for another.
    Before,
}

/// What becomes of a gate when one of those leaves that it was closed for.
#[derive(Debug)]
pub(crate) enum Leaving {
    /// It is the next one's turn.
    Next,
    /// It opens for those behind it.
    Opens(VecDeque<Box<Job>>),
}

#[derive(Debug)]
struct Gate {
    /// The messages that it is closed for, by their places. The first of them is tried.
    keepers: BTreeMap<Place, Keeper>,
    behind: VecDeque<Box<Job>>,
}

/// A message that a gate is closed for.
#[derive(Debug)]
struct Keeper {
    id: Text,
    partition: Option<i32>,
    /// The message, between two of its attempts.
    job: Option<Box<Job>>,
}

/// Where a message lies among those of its gate.
type Place = (u32, u32, u64);

const fn place(tag: Tag) -> Place {
    (tag.stream, tag.epoch, tag.number)
}

impl Gate {
    fn first(&self) -> Option<&Keeper> {
        self.keepers.first_key_value().map(|(_, keeper)| keeper)
    }
}

impl Gates {
    pub(crate) const fn new(by_stream: bool) -> Self {
        Self { by_stream, closed: BTreeMap::new() }
    }

    const fn key(&self, tag: Tag) -> u32 {
        if self.by_stream { tag.stream } else { 0 }
    }

    /// Whether others may run while one is closed.
    pub(crate) const fn are_many(&self) -> bool {
        self.by_stream
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// Whether a gate is closed for this message.
    pub(crate) fn is_for(&self, tag: Tag) -> bool {
        self.closed.get(&self.key(tag)).is_some_and(|gate| gate.keepers.contains_key(&place(tag)))
    }

    /// Whether a gate is closed for this message, and it is the one whose turn it is.
    pub(crate) fn is_first(&self, tag: Tag) -> bool {
        let gate = self.closed.get(&self.key(tag));
        gate.and_then(|gate| gate.keepers.keys().next()).is_some_and(|first| *first == place(tag))
    }

    /// A message that a gate is closed for, and its partition.
    pub(crate) fn first(&self) -> Option<(Text, Option<i32>)> {
        let keeper = self.closed.values().next()?.first()?;
        Some((keeper.id.clone(), keeper.partition))
    }

    /// Closes the gate for a message, beside those that it is closed for already. Those of the queues that stand behind it
    /// are taken out of them. Where others go on meanwhile, those that were not tried yet are given back, so that a partition
    /// that stands for long does not take the room of all others.
    pub(crate) fn close(&mut self, job: &Job, queues: [&mut VecDeque<Box<Job>>; 2]) -> Closing {
        let delivery = &job.delivery;
        let (key, tag) = (self.key(delivery.tag), delivery.tag);
        let keeper =
            || Keeper { id: delivery.message.id.clone(), partition: delivery.source.partition, job: None };
        if let Some(gate) = self.closed.get_mut(&key) {
            gate.keepers.entry(place(tag)).or_insert_with(keeper);
            return Closing::Before;
        }
        let (mut behind, mut back) = (VecDeque::new(), Vec::new());
        for queue in queues {
            for job in std::mem::take(queue) {
                if self.key(job.delivery.tag) != key {
                    queue.push_back(job);
                } else if self.by_stream && job.in_hand == 0 {
                    back.push(job);
                } else {
                    behind.push_back(job);
                }
            }
        }
        self.closed.insert(key, Gate { keepers: BTreeMap::from([(place(tag), keeper())]), behind });
        Closing::Now(back)
    }

    /// A message leaves; answers what becomes of the gate, if one was closed for it.
    pub(crate) fn leave(&mut self, tag: Tag) -> Option<Leaving> {
        let key = self.key(tag);
        let gate = self.closed.get_mut(&key)?;
        let keeper = gate.keepers.remove(&place(tag))?;
        gate.behind.extend(keeper.job);
        if !gate.keepers.is_empty() {
            return Some(Leaving::Next);
        }
        self.closed.remove(&key).map(|gate| Leaving::Opens(gate.behind))
    }

    /// Opens the gates that were closed for nothing but messages which are lost; answers with those behind them, when there
    /// are any.
    pub(crate) fn open_lost(&mut self, lost: impl Fn(Tag) -> bool) -> Option<VecDeque<Box<Job>>> {
        let before = self.closed.len();
        for gate in self.closed.values_mut() {
            let is_lost = |(stream, epoch, number): Place| lost(Tag { stream, epoch, number });
            gate.keepers.retain(|place, _| !is_lost(*place));
        }
        let opened = self.closed.extract_if(.., |_, gate| gate.keepers.is_empty());
        let behind = opened.flat_map(|(_, gate)| gate.behind).collect();
        (self.closed.len() < before).then_some(behind)
    }

    /// Puts a message behind its gate, or before it; answers with it when there is none.
    pub(crate) fn put(&mut self, job: Box<Job>) -> Option<Box<Job>> {
        if self.closed.is_empty() {
            return Some(job);
        }
        let key = self.key(job.delivery.tag);
        let Some(gate) = self.closed.get_mut(&key) else { return Some(job) };
        match gate.keepers.get_mut(&place(job.delivery.tag)) {
            Some(keeper) => keeper.job = Some(job),
            None => gate.behind.push_back(job),
        }
        None
    }

    pub(crate) fn has_keeper(&self) -> bool {
        self.closed.values().any(|gate| gate.first().is_some_and(|keeper| keeper.job.is_some()))
    }

    /// A message that a gate is closed for, whose turn it is, and whose next attempt can begin.
    pub(crate) fn take_keeper(&mut self) -> Option<Box<Job>> {
        self.closed.values_mut().find_map(|gate| gate.keepers.first_entry()?.get_mut().job.take())
    }

    /// Whether nobody stands at or behind a gate.
    pub(crate) fn are_idle(&self) -> bool {
        let nobody = |gate: &Gate| gate.keepers.values().all(|keeper| keeper.job.is_none());
        self.closed.values().all(|gate| nobody(gate) && gate.behind.is_empty())
    }

    /// Takes everything out that fits; the gates stay closed for what is elsewhere.
    pub(crate) fn take(&mut self, fits: impl Fn(&Job) -> bool) -> Vec<Box<Job>> {
        let mut taken = Vec::new();
        for gate in self.closed.values_mut() {
            for keeper in gate.keepers.values_mut() {
                if keeper.job.as_deref().is_some_and(&fits) {
                    taken.extend(keeper.job.take());
                }
            }
            for job in std::mem::take(&mut gate.behind) {
                if fits(&job) { taken.push(job) } else { gate.behind.push_back(job) }
            }
        }
        taken
    }
}
