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
