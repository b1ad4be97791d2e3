//! Counting without a lock: each thread in a place of its own, added up under the guard's lock when that matters.
//!
//! A place is written by one thread at a time, so counting is a load and a store and never waits for another core.
//! It counts until its slice of time ends; then its owner takes the lock, hands over what it has, and begins the next
//! slice. Whoever needs the whole sum before that takes what is there, under the same lock, and each count is taken
//! once.

use super::sync::{AtomicU64, AtomicUsize, Ordering};

/// One thread's count, alone on its cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Shard {
    /// Until when this may be counted in. Changed under the lock, by the place's owner.
    ends: AtomicU64,
    /// All that was ever counted here. Written by the place's owner.
    count: AtomicU64,
    /// How much of it was taken. Read and written under the lock.
    taken: AtomicU64,
    /// What the owner may still use up in this slice. Given and taken back under the lock; the place's owner counts it
    /// down without.
    ahead: AtomicU64,
}

/// Counts of many threads.
#[derive(Debug)]
pub(crate) struct Tally {
    shards: Box<[Shard]>,
    /// Places from here on were never used. Read and written under the lock.
    used: AtomicUsize,
}

impl Tally {
    pub(crate) fn new(places: usize) -> Self {
        let zero = || AtomicU64::new(0);
        let shard = |_| Shard { ends: zero(), count: zero(), taken: zero(), ahead: zero() };
        Self { shards: (0..places).map(shard).collect(), used: AtomicUsize::new(0) }
    }

    /// Counts one in the caller's own place; false when that has no place, or its slice is over.
    #[inline]
    pub(crate) fn add(&self, place: usize, now: u64) -> bool {
        let Some(shard) = self.shards.get(place) else { return false };
        if now >= shard.ends.load(Ordering::Relaxed) {
            return false;
        }
        // Nobody else writes here, so nothing can come between the two.
        shard.count.store(shard.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Uses up one of what the caller was given ahead; false when nothing is left, or its slice is over.
    #[inline]
    pub(crate) fn use_ahead(&self, place: usize, now: u64) -> bool {
        let Some(shard) = self.shards.get(place) else { return false };
        if now >= shard.ends.load(Ordering::Relaxed) {
            return false;
        }
        let ahead = &shard.ahead;
        ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ahead| ahead.checked_sub(1)).is_ok()
    }

    /// Takes back what the owner of a place was given ahead and has not used, with the end of the slice that it was for.
    /// Under the lock.
    pub(crate) fn take_back(&self, place: usize) -> Option<(u64, u64)> {
        let shard = self.shards.get(place)?;
        // Most have nothing, and a look costs their owners less than a write.
        if shard.ahead.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let unused = shard.ahead.swap(0, Ordering::Relaxed);
        (unused > 0).then(|| (shard.ends.load(Ordering::Relaxed), unused))
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.shards.len()
    }

    /// Hands over what was not taken yet, with the end of the slice it belongs to. Under the lock.
    pub(crate) fn take(&self, mut each: impl FnMut(u64, u64)) {
        let used = self.used.load(Ordering::Relaxed);
        for shard in self.shards.iter().take(used) {
            let count = shard.count.load(Ordering::Relaxed);
            let new = count.wrapping_sub(shard.taken.load(Ordering::Relaxed));
            if new > 0 {
                shard.taken.store(count, Ordering::Relaxed);
                each(shard.ends.load(Ordering::Relaxed), new);
            }
        }
    }

    /// Begins the next slice of the caller's own place, with so much to use up in it. Under the lock, after
    /// [`take`](Self::take) and [`take_back`](Self::take_back).
    pub(crate) fn begin(&self, place: usize, ends: u64, ahead: u64) {
        if let Some(shard) = self.shards.get(place) {
            shard.ends.store(ends, Ordering::Relaxed);
            shard.ahead.store(ahead, Ordering::Relaxed);
            self.used.store(self.used.load(Ordering::Relaxed).max(place + 1), Ordering::Relaxed);
        }
    }
}
