//! What the one reader of a queue has in hand.
//!
//! Claims live here and nowhere else: a message that was handed out costs no write, and a process that dies gives
//! everything back. Two cursors say how far the reader has looked, so that a claim costs the same behind ten million
//! waiting messages as behind ten. Whatever becomes deliverable at or before a cursor lowers it.
//!
//! The reader looks at a snapshot that may be older than the last commit. So a row that is released during a look is
//! not free at once: it fades until the next look begins, and that look's snapshot has seen the commit.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_engine::port::HeaderRules;
use tokio::sync::Notify;

/// A message in hand: its place before (0 = ready, else its due time) and its entry, 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) due: i64,
    pub(crate) entry: i64,
}

/// Spreads the numbers of rows. The file numbers them itself, so nobody can choose them to collide.
#[derive(Debug, Default)]
pub(crate) struct RowHasher(u64);

impl Hasher for RowHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, row: i64) {
        self.0 = (self.0 ^ row.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Rows<T> = HashMap<i64, T, BuildHasherDefault<RowHasher>>;
type RowSet = HashSet<i64, BuildHasherDefault<RowHasher>>;

/// The state of one queue's reader.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    state: Mutex<State>,
    /// Something may have become deliverable.
    pub(crate) news: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) subscribed: bool,
    pub(crate) epoch: u32,
    /// How the flow that reads the queue spells and signs its headers.
    pub(crate) rules: HeaderRules,
    pub(crate) claims: Rows<Claim>,
    /// Handed out by an earlier subscription of this process and not settled.
    pub(crate) again: RowSet,
    /// A message was given back: what was read ahead is newer than it.
    pub(crate) given_back: bool,
    fading: RowSet,
    cursor: Cursor,
    lowest: Option<Cursor>,
}

/// How far the reader has looked: everything up to here was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) ready: i64,
    pub(crate) due: (i64, i64),
}

impl Cursor {
    const END: Self = Self { ready: i64::MAX, due: (i64::MAX, i64::MAX) };

    /// Back to before this place.
    fn lower(&mut self, row: i64, due: i64) {
        if due == 0 {
            self.ready = self.ready.min(row - 1);
        } else {
            self.due = self.due.min((due, row - 1));
        }
    }

    fn min(self, other: Self) -> Self {
        Self { ready: self.ready.min(other.ready), due: self.due.min(other.due) }
    }
}

impl State {
    /// Begins a look. What faded is free: the snapshot that follows has seen it go.
    /// Nothing when another subscription has begun since.
    pub(crate) fn begin_look(&mut self, epoch: u32) -> Option<Cursor> {
        if self.epoch != epoch {
            return None;
        }
        self.fading.clear();
        self.lowest = Some(Cursor::END);
        Some(self.cursor)
    }

    pub(crate) fn end_look(&mut self, epoch: u32, reached: Cursor) {
        if self.epoch == epoch {
            self.cursor = reached.min(self.lowest.take().unwrap_or(Cursor::END));
        }
    }

    /// Takes a row unless somebody has it.
    pub(crate) fn claim(&mut self, row: i64, claim: Claim) -> bool {
        if self.fading.contains(&row) {
            return false;
        }
        self.claim_for_writer(row, claim)
    }

    /// Keeps a row from the reader while the writer changes it. A fading row is in nobody's hands.
    pub(crate) fn claim_for_writer(&mut self, row: i64, claim: Claim) -> bool {
        match self.claims.entry(row) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(claim);
                true
            }
        }
    }

    /// Lets a row go; it can be delivered from `due` on, if at all.
    pub(crate) fn release(&mut self, row: i64, due: Option<i64>) {
        // Only a look that runs now can have a snapshot from before the release.
        if self.claims.remove(&row).is_some() && self.lowest.is_some() {
            self.fading.insert(row);
        }
        if let Some(due) = due {
            self.arrived(row, due);
        }
    }

    /// A row can be delivered from `due` on.
    pub(crate) fn arrived(&mut self, row: i64, due: i64) {
        self.cursor.lower(row, due);
        if let Some(lowest) = &mut self.lowest {
            lowest.lower(row, due);
        }
    }

    /// A new subscription: everything that an earlier one took is free again.
    pub(crate) fn restart(&mut self, rules: HeaderRules) -> u32 {
        static EPOCH: AtomicU32 = AtomicU32::new(1);
        self.epoch = EPOCH.fetch_add(1, Ordering::Relaxed);
        self.subscribed = true;
        self.rules = rules;
        self.again = self.claims.drain().map(|(row, _)| row).collect();
        self.given_back = false;
        self.cursor = Cursor::default();
        self.lowest = None;
        self.epoch
    }
}

impl Reading {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The readers of all queues, by the queue's number.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<HashMap<u32, Arc<Reading>>>);

impl Readings {
    pub(crate) fn of(&self, queue: u32) -> Arc<Reading> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(queue).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim = Claim { due: 0, entry: 0 };

    #[test]
    fn a_released_row_fades_until_the_next_look() {
        let mut state = State::default();
        let cursor = state.begin_look(0).unwrap();
        assert!(state.claim(7, CLAIM));
        assert!(!state.claim(7, CLAIM));
        state.release(7, None);
        assert!(!state.claim(7, CLAIM), "the running look's snapshot may still show it");
        state.end_look(0, cursor);
        state.begin_look(0).unwrap();
        assert!(state.claim(7, CLAIM));
    }

    #[test]
    fn a_row_that_is_released_between_looks_does_not_fade() {
        let mut state = State::default();
        let cursor = state.begin_look(0).unwrap();
        assert!(state.claim(7, CLAIM));
        state.end_look(0, cursor);
        state.release(7, Some(0));
        assert!(state.claim(7, CLAIM), "the next snapshot is newer than the release");
    }

    #[test]
    fn what_comes_during_a_look_is_not_passed_over() {
        let mut state = State::default();
        state.begin_look(0).unwrap();
        state.arrived(5, 0);
        state.arrived(6, 900);
        state.end_look(0, Cursor { ready: 40, due: (1_000, 3) });
        let cursor = state.begin_look(0).unwrap();
        assert_eq!(cursor, Cursor { ready: 4, due: (900, 5) });
    }
}
