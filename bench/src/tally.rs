//! What has been handled, since when.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts messages, and knows when the first of them began.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicU64,
    began: OnceLock<Instant>,
}

impl Tally {
    /// A message is being handled.
    pub fn begins(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// A message is done.
    pub fn one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many are done.
    pub async fn until(&self, count: u64) {
        while self.done() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The time since the first began.
    pub fn took(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }
}
