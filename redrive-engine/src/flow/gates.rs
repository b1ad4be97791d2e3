//! Gates: what stands still for one message that is retried in hand.
//!
//! Where the broker has partitions a gate closes the message's own, else the whole flow. What stands behind a gate keeps its
//! order and goes back to its place when the gate opens.

use std::collections::{BTreeMap, VecDeque};

use super::job::Job;
use crate::port::Tag;

#[derive(Debug)]
pub(crate) struct Gates {
    by_stream: bool,
    closed: BTreeMap<u32, Gate>,
}

/// Whether a gate is closed for a message.
#[derive(Debug)]
pub(crate) enum Closing {
    /// Since now; these go back to where they came from.
    Now(Vec<Box<Job>>),
    /// It was.
    Before,
    /// It is closed for another.
    No,
}

#[derive(Debug)]
struct Gate {
    /// The message that it is closed for.
    tag: Tag,
    /// That message, between two of its attempts.
    keeper: Option<Box<Job>>,
    behind: VecDeque<Box<Job>>,
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
        self.closed.get(&self.key(tag)).is_some_and(|gate| gate.tag == tag)
    }

    /// Closes the gate for a message, unless another was first. Those of the queues that stand behind it are taken out of
    /// them. Where others go on meanwhile, those that were not tried yet are given back, so that a partition that stands
    /// for long does not take the room of all others.
    pub(crate) fn close(&mut self, tag: Tag, queues: [&mut VecDeque<Box<Job>>; 2]) -> Closing {
        let key = self.key(tag);
        if let Some(gate) = self.closed.get(&key) {
            return if gate.tag == tag { Closing::Before } else { Closing::No };
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
        self.closed.insert(key, Gate { tag, keeper: None, behind });
        Closing::Now(back)
    }

    /// Opens the gate that was closed for a message; answers with those behind it.
    pub(crate) fn open(&mut self, tag: Tag) -> Option<VecDeque<Box<Job>>> {
        if !self.is_for(tag) {
            return None;
        }
        let gate = self.closed.remove(&self.key(tag))?;
        let mut behind = gate.behind;
        behind.extend(gate.keeper);
        Some(behind)
    }

    /// Opens the gates that were closed for messages which are lost; answers with those behind them, when there are any.
    pub(crate) fn open_lost(&mut self, lost: impl Fn(Tag) -> bool) -> Option<VecDeque<Box<Job>>> {
        let before = self.closed.len();
        let opened = self.closed.extract_if(.., |_, gate| lost(gate.tag));
        let behind = opened.flat_map(|(_, gate)| gate.behind.into_iter().chain(gate.keeper)).collect();
        (self.closed.len() < before).then_some(behind)
    }

    /// Puts a message behind its gate, or before it; answers with it when there is none.
    pub(crate) fn put(&mut self, job: Box<Job>) -> Option<Box<Job>> {
        if self.closed.is_empty() {
            return Some(job);
        }
        let key = self.key(job.delivery.tag);
        let Some(gate) = self.closed.get_mut(&key) else { return Some(job) };
        if gate.tag == job.delivery.tag {
            gate.keeper = Some(job);
        } else {
            gate.behind.push_back(job);
        }
        None
    }

    pub(crate) fn has_keeper(&self) -> bool {
        self.closed.values().any(|gate| gate.keeper.is_some())
    }

    /// A message that a gate is closed for, and whose next attempt can begin.
    pub(crate) fn take_keeper(&mut self) -> Option<Box<Job>> {
        self.closed.values_mut().find_map(|gate| gate.keeper.take())
    }

    /// Whether nobody stands at or behind a gate.
    pub(crate) fn are_idle(&self) -> bool {
        self.closed.values().all(|gate| gate.keeper.is_none() && gate.behind.is_empty())
    }

    /// Takes everything out that fits; the gates stay closed for what is elsewhere.
    pub(crate) fn take(&mut self, fits: impl Fn(&Job) -> bool) -> Vec<Box<Job>> {
        let mut taken = Vec::new();
        for gate in self.closed.values_mut() {
            if gate.keeper.as_deref().is_some_and(&fits) {
                taken.extend(gate.keeper.take());
            }
            for job in std::mem::take(&mut gate.behind) {
                if fits(&job) { taken.push(job) } else { gate.behind.push_back(job) }
            }
        }
        taken
    }
}
