//! Random numbers for jitter, from the thread or from a seed.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use redrive_core::{Random, SplitMix64};

/// Where a retryer's random numbers come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A generator of each thread, so that nobody waits for another's.
    Thread,
    /// One sequence from a seed.
    Seeded(AtomicU64),
}

impl Source {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::Thread, |seed| Self::Seeded(AtomicU64::new(seed)))
    }
}

thread_local! {
    /// The standard library's hash keys are random and need no dependency; jitter needs no more.
    static GENERATOR: RefCell<SplitMix64> = RefCell::new(SplitMix64::new(RandomState::new().hash_one(0_u8)));
}

impl Random for &Source {
    fn next_u64(&mut self) -> u64 {
        match self {
            Source::Thread => GENERATOR.with_borrow_mut(SplitMix64::next_u64),
            Source::Seeded(next) => SplitMix64::new(next.fetch_add(1, Ordering::Relaxed)).next_u64(),
        }
    }
}
