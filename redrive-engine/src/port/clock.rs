//! The engine's only source of time.

use std::time::Duration;

use redrive_core::Timestamp;

/// What time it is. Waiting is tokio's business; a test that pauses tokio's time brings a clock that follows it.
pub trait Clock: std::fmt::Debug + Send + Sync + 'static {
    /// The wall clock. It may be set back.
    fn now(&self) -> Timestamp;

    /// Time since a fixed origin. It never goes back.
    fn monotonic(&self) -> Duration;
}

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}
