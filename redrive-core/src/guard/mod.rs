//! What stands in front of a handler, so that an outage of any length storms nothing.
//!
//! A retry layer without guards turns a short outage into a long one: every failure comes back as more load.
//! The five guards here are plain values. They take the time as an argument, never allocate after they were
//! made, cost O(1) amortised a call, and know nothing of threads, sleeping or messages, so the same code holds
//! a flow of messages and wraps a single outgoing call.
//!
//! | guard | asks |
//! |---|---|
//! | [`Breaker`] | does the endpoint answer at all? |
//! | [`RetryBudget`] | are retries still a small share of the traffic? |
//! | [`RateLimit`] | may another call start in this moment? |
//! | [`ConcurrencyLimit`] | is a place free? |
//! | [`FairShare`] | whose turn is it, a fresh message's or a retried one's? |
//!
//! `now` is the monotonic time since any fixed origin, the same one for every call on one guard. A time before the
//! latest one that the guard has seen counts as that latest one: a clock that is set back delays, it never opens
//! a gate.

mod breaker;
mod concurrency;
mod fair_share;
mod rate;
mod retry_budget;
mod window;

use std::fmt;
use std::time::Duration;

pub use breaker::{
    Admission, Breaker, BreakerConfig, BreakerSnapshot, BreakerState, Outcome, Permit, TripCause, Window,
};
pub use concurrency::ConcurrencyLimit;
pub use fair_share::{FairShare, Turn};
pub use rate::{Rate, RateLimit};
pub use retry_budget::{RetryBudget, RetryBudgetConfig};

/// A setting that no guard can be made of.
///
/// ```
/// use redrive_core::guard::{Breaker, BreakerConfig};
///
/// let refused = Breaker::new(BreakerConfig { failure_share: 1.5, ..BreakerConfig::default() });
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "`failure_share` is 1.5; write a share above 0 and at most 1, such as 0.5"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {found}; {help}")]
pub struct GuardError {
    /// The setting's name.
    pub field: &'static str,
    /// What it was set to.
    pub found: String,
    /// What to write instead.
    pub help: &'static str,
}

impl GuardError {
    pub(crate) fn new(field: &'static str, found: impl fmt::Display, help: &'static str) -> Self {
        Self { field, found: found.to_string(), help }
    }
}

/// Nanoseconds of a duration, held at the 584 years that fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// A share as millionths, so that adding it up never drifts.
const MILLION: u64 = 1_000_000;

/// The nearest number of millionths; the caller has refused NaN, infinities and negative shares.
fn millionths(share: f64) -> u64 {
    (share * MILLION as f64).round() as u64
}
