//! Heads: messages that a partition, or their lane, stands still for, and how often each was tried.
//!
//! A blocking retry writes nothing at the broker, since the message is to keep its place. So what was tried of it is kept
//! in the ledger: a small text for each partition, written when a blocking retry begins and when it goes on, and never on
//! the way of a message that succeeds. Whoever has the partition next, with the same ledger, reads it when the partition's
//! first message comes, and goes on where the last one stood.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::port::{Delivery, Ledger, PortError, SourceRef, Tag};

/// The most that are kept of one partition: those that are read again first.
const MOST: usize = 1_000;
/// The most that is kept of a message's id, in bytes.
const ID: usize = 200;

/// What is known of attempts that were made before this process had a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Past {
    /// There were none.
    #[default]
    None,
    /// It was the first that came of its partition: whoever had that before may have tried it, and left no word of it.
    Unknown,
    /// So many were made.
    Attempts(u32),
}

/// What was tried of a message that others wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    offset: i64,
    id: String,
    /// When it was published: another message may have the same place in a topic that was made anew.
    published: i64,
    /// Attempts made in all.
    pub(crate) attempts: u32,
    calls: u32,
    waited_ms: u64,
    held_ms: u64,
    first_attempt: Option<i64>,
    first_failure: Option<i64>,
    /// When the next attempt is due.
    due: i64,
}

impl Head {
    fn of(job: &Job, offset: i64, due: Timestamp) -> Self {
        let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self {
            offset,
            id: shortened(&job.delivery.message.id).to_owned(),
            published: job.delivery.ready_at.as_millis(),
            attempts: job.attempts(),
            calls: job.calls(),
            waited_ms: millis(job.waited()),
            held_ms: millis(job.held()),
            first_attempt: job.first_attempt_at().map(Timestamp::as_millis),
            first_failure: job.first_failure_at().map(Timestamp::as_millis),
            due: due.as_millis(),
        }
    }

    fn is(&self, delivery: &Delivery) -> bool {
        self.published == delivery.ready_at.as_millis() && self.id == shortened(&delivery.message.id)
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    pub(crate) fn waited(&self) -> Duration {
        Duration::from_millis(self.waited_ms)
    }

    pub(crate) fn held(&self) -> Duration {
        Duration::from_millis(self.held_ms)
    }

    pub(crate) fn first_attempt_at(&self) -> Option<Timestamp> {
        self.first_attempt.map(Timestamp::from_millis)
    }

    pub(crate) fn first_failure_at(&self) -> Option<Timestamp> {
        self.first_failure.map(Timestamp::from_millis)
    }

    pub(crate) fn due_at(&self) -> Timestamp {
        Timestamp::from_millis(self.due)
    }
}

fn shortened(id: &str) -> &str {
    &id[..id.floor_char_boundary(ID)]
}

/// A topic and a partition.
type Place = (Arc<str>, i32);

fn place(source: &SourceRef) -> Option<(Place, i64)> {
    Some(((Arc::clone(&source.name), source.partition?), source.offset?))
}

#[derive(Debug, Default)]
struct Partition {
    heads: BTreeMap<i64, Head>,
    /// Counts the changes, and which of them are written down.
    changed: u64,
    written: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The last epoch of each stream, and the first message that came of it.
    met: HashMap<u32, (u32, u64)>,
    partitions: HashMap<Place, Partition>,
}

/// The heads of a flow.
#[derive(Debug)]
pub(crate) struct Heads {
    /// Whether messages have places that they come from again, and there is a ledger.
    kept: bool,
    flow: Arc<str>,
    /// Whether there are any, or were.
    any: AtomicBool,
    state: Mutex<State>,
    /// One writes at a time, and whoever waits meanwhile finds its change written.
    writing: tokio::sync::Mutex<()>,
}

impl Heads {
    pub(crate) fn new(flow: &Arc<str>, kept: bool) -> Self {
        Self {
            kept,
            flow: Arc::clone(flow),
            any: AtomicBool::new(false),
            state: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which the ledger keeps those of a partition.
    fn name(&self, (topic, partition): &Place) -> String {
        format!("blocked/{}/{topic}/{partition}", self.flow)
    }

    /// Looks up what is known of partitions that come for the first time, or again. When the ledger cannot say, nothing is
    /// known of them.
    pub(crate) async fn meet(&self, ledger: &dyn Ledger, received: &[Delivery]) -> Result<(), PortError> {
        if !self.kept {
            return Ok(());
        }
        let mut last = None;
        let mut failed = None;
        for delivery in received {
            let (stream, epoch) = (delivery.tag.stream, delivery.tag.epoch);
            if last.replace((stream, epoch)) == Some((stream, epoch)) {
                continue;
            }
            let Some((place, _)) = place(&delivery.source) else { continue };
            if self.state().met.get(&stream).is_some_and(|(met, _)| *met == epoch) {
                continue;
            }
            let found = ledger.position(&self.name(&place)).await;
            let heads = match found {
                // A text of another version says nothing.
                Ok(text) => text.and_then(|text| serde_json::from_str::<Vec<Head>>(&text).ok()),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            };
            let heads: BTreeMap<i64, Head> =
                heads.unwrap_or_default().into_iter().map(|head| (head.offset, head)).collect();
            if !heads.is_empty() {
                self.any.store(true, Ordering::Release);
            }
            let mut state = self.state();
            state.met.insert(stream, (epoch, delivery.tag.number));
            state.partitions.insert(place, Partition { heads, changed: 0, written: 0 });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether there are any, or were.
    pub(crate) fn are_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What was tried of a message before, if anything is known of it.
    pub(crate) fn find(&self, delivery: &Delivery) -> Option<Head> {
        if !self.are_any() {
            return None;
        }
        let (place, offset) = place(&delivery.source)?;
        let state = self.state();
        state.partitions.get(&place)?.heads.get(&offset).filter(|head| head.is(delivery)).cloned()
    }

    /// Whether somebody else may have tried a message before and left no word of it.
    pub(crate) fn may_be_tried(&self, delivery: &Delivery) -> bool {
        let first = || {
            let met = self.state().met.get(&delivery.tag.stream).copied();
            met == Some((delivery.tag.epoch, delivery.tag.number))
        };
        self.kept && delivery.source.offset.is_some() && (delivery.redelivered || first())
    }

    /// Writes down how often a message was tried and when it is due again; answers whether that is durable.
    pub(crate) async fn keep(
        &self,
        ledger: &dyn Ledger,
        job: &Job,
        due: Timestamp,
    ) -> Result<bool, PortError> {
        let Some((place, offset)) = place(&job.delivery.source).filter(|_| self.kept) else {
            return Ok(false);
        };
        let change = {
            let mut state = self.state();
            let Tag { stream, epoch, .. } = job.delivery.tag;
            // The message has come again since, and what is tried of it now counts.
            if state.met.get(&stream).is_some_and(|(met, _)| *met != epoch) {
                return Ok(false);
            }
            let partition = state.partitions.entry(place.clone()).or_default();
            partition.heads.insert(offset, Head::of(job, offset, due));
            partition.changed += 1;
            partition.changed
        };
        self.any.store(true, Ordering::Release);
        self.write(ledger, &place, change).await?;
        Ok(true)
    }

    /// Takes a message off that has come to its end here; answers with what is to be written then.
    pub(crate) fn forget(&self, delivery: &Delivery) -> Option<(Place, u64)> {
        if !self.are_any() {
            return None;
        }
        let (place, offset) = place(&delivery.source)?;
        let mut state = self.state();
        let partition = state.partitions.get_mut(&place)?;
        partition.heads.remove(&offset)?;
        partition.changed += 1;
        Some((place, partition.changed))
    }

    /// Writes a partition down as it is now, unless that was done since the change.
    pub(crate) async fn write(
        &self,
        ledger: &dyn Ledger,
        place: &Place,
        change: u64,
    ) -> Result<(), PortError> {
        let _turn = self.writing.lock().await;
        let (text, changed) = {
            let state = self.state();
            let Some(partition) = state.partitions.get(place) else { return Ok(()) };
            if partition.written >= change {
                return Ok(());
            }
            let heads: Vec<&Head> = partition.heads.values().take(MOST).collect();
            let text = serde_json::to_string(&heads);
            (text.map_err(|error| PortError::Broken(error.to_string()))?, partition.changed)
        };
        ledger.keep_position(&self.name(place), &text).await?;
        if let Some(partition) = self.state().partitions.get_mut(place) {
            partition.written = partition.written.max(changed);
        }
        Ok(())
    }
}
