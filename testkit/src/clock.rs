//! Clocks that a test can set.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::Timestamp;
use redrive_engine::port::Clock;
use tokio::time::Instant;

/// 2026-07-01T09:00:00Z, where every test begins.
const BASE: i64 = 1_782_896_400_000;

/// A clock that follows tokio's time, paused or not, and whose wall time can be set.
#[derive(Debug)]
pub struct TestClock {
    origin: Instant,
    offset_ms: AtomicI64,
}

impl Default for TestClock {
    fn default() -> Self {
        Self { origin: Instant::now(), offset_ms: AtomicI64::new(0) }
    }
}

impl TestClock {
    /// Sets the wall clock forward.
    pub fn forward(&self, by: Duration) {
        self.offset_ms.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Sets the wall clock back. Monotonic time goes on.
    pub fn back(&self, by: Duration) {
        self.offset_ms.fetch_sub(millis(by), Ordering::SeqCst);
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = millis(self.origin.elapsed());
        Timestamp::from_millis(BASE + passed + self.offset_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct HandClock {
    millis: AtomicI64,
}

impl Default for HandClock {
    fn default() -> Self {
        Self { millis: AtomicI64::new(BASE) }
    }
}

impl HandClock {
    /// Moves both of its times on.
    pub fn advance(&self, by: Duration) {
        self.millis.fetch_add(millis(by), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let passed = self.millis.load(Ordering::SeqCst).saturating_sub(BASE);
        Duration::from_millis(u64::try_from(passed).unwrap_or(0))
    }
}
