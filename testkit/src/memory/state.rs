//! Everything that the store remembers.

use std::collections::{BTreeMap, HashMap};

use redrive_core::{Message, Random as _, SplitMix64, Timestamp};
use redrive_engine::port::{
    Actor, AuditLine, Control, EntryId, EntryState, LaneName, Replay, ReplayItem, Resolved,
};

use super::entries::{Carried, Kept};
use super::lanes::Lane;
use super::queue::Queue;
use super::shadow::Spot;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) entries: BTreeMap<EntryId, Kept>,
    /// What a message was that has left its queue, for a ledger that is told later.
    pub(super) carried: BTreeMap<EntryId, Carried>,
    /// By flow and name.
    pub(super) lanes: BTreeMap<(String, LaneName), Lane>,
    pub(super) audit: Vec<AuditLine>,
    /// What is in force, the oldest first.
    pub(super) controls: Vec<Control>,
    pub(super) marks: BTreeMap<(String, String), Timestamp>,
    pub(super) replays: Vec<(Replay, Vec<ReplayItem>)>,
    /// The most messages that a queue takes.
    pub(super) limit: Option<u64>,
    /// Places of a broker apart, and the entries of what lay there.
    pub(super) spots: HashMap<Spot, EntryId>,
    /// What people brought to an end of messages whose copies lie at a broker apart, by number, with the flow.
    pub(super) resolved: Vec<(u64, String, Resolved)>,
    pub(super) positions: BTreeMap<String, String>,
    /// Of a broker apart: what was published, with its queue, its number and its time.
    pub(super) log: Vec<(String, u64, Timestamp, Message)>,
    /// Of a broker apart: the last word on entries that people brought to an end.
    pub(super) kept_resolved: BTreeMap<EntryId, EntryState>,
    /// Of a broker apart: what a flow reads.
    pub(super) sources: BTreeMap<String, String>,
    pub(super) last_number: u64,
    pub(super) last_epoch: u32,
    minted: u64,
}

impl State {
    /// The number of the next row: never used twice.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// A new id, different from all before.
    pub(super) fn mint(&mut self, now: Timestamp) -> EntryId {
        self.minted += 1;
        let mut random = SplitMix64::new(self.minted);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    /// The queue of that name, made on first use.
    pub(super) fn queue(&mut self, name: &str) -> &mut Queue {
        let stream = self.queues.len() as u32;
        self.queues.entry(name.to_owned()).or_insert_with(|| Queue::new(name, stream))
    }

    pub(super) fn queue_of(&mut self, stream: u32) -> Option<&mut Queue> {
        self.queues.values_mut().find(|queue| queue.stream == stream)
    }

    pub(super) fn note(&mut self, actor: &Actor, what: &str, subject: &str, count: u64, at: Timestamp) {
        self.audit.push(AuditLine {
            number: self.audit.len() as u64 + 1,
            at,
            who: actor.who.clone(),
            what: what.to_owned(),
            subject: subject.to_owned(),
            why: actor.why.clone(),
            count,
        });
    }
}
