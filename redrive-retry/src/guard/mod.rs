//! What keeps a client from storming, shared between clients, tasks and threads.
//!
//! The rules are those of [`redrive_core::guard`], which knows nothing of threads or waiting. Here is what that takes:
//! a lock around each, a queue where one waits, and beside the lock a count per thread, so that a call that succeeds
//! takes no lock and writes no memory that another thread writes.

mod breaker;
mod budget;
mod bulkhead;
mod rate;
mod slot;
mod tally;

/// The atomics of the counters. The test of all interleavings compiles `tally` with others.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use breaker::Ticket;
pub use breaker::{BreakerChange, BreakerOpen, CircuitBreaker, Permit};
pub use budget::SharedBudget;
pub use bulkhead::{Acquire, Bulkhead, BulkheadFull, Place};
pub use rate::{RateLimiter, RateSpent};

pub use redrive_core::guard::{
    BreakerConfig, BreakerSnapshot, BreakerState, GuardError, Outcome, Rate, RetryBudgetConfig, TripCause,
    Window,
};

/// The state behind a lock. It is plain numbers: a panic elsewhere cannot leave it half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds of a duration, held at the 584 years that fit.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}
