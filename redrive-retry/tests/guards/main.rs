//! The shared guards against the rules they are made of, and under many threads.

mod breaker;
mod budget;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive_retry::Clock;

/// A clock that a test sets by hand.
#[derive(Debug, Default)]
struct ByHand(AtomicU64);

impl ByHand {
    fn set(&self, now: Duration) {
        self.0.store(now.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
