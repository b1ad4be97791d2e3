//! Calls stepped through on paused time: every branch, the edges of the deadline, a cancel at every await, clocks
//! that jump.

mod blocking;
mod branches;
mod cancel;
mod clocks;
mod deadline;
mod hooks;
mod queues;
mod script;
mod sources;
mod waits;

use std::time::Duration;

use redrive_retry::{Builder, Retryer, TokioClock};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A retryer on tokio's time whose waits are known: 100 ms, 200 ms, and so on.
fn known() -> Builder {
    Retryer::builder().base(ms(100)).jitter(redrive_retry::Jitter::None).clock(TokioClock)
}
