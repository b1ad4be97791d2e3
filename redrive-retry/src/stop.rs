//! Why a call was given up.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use redrive_core::duration::print;

use crate::guard::{BreakerOpen, BulkheadFull, RateSpent};

/// Why no further attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The last failure was one that another attempt cannot help.
    Final,
    /// All attempts are used up.
    Attempts,
    /// The deadline has passed, or passed during the last attempt.
    Deadline,
    /// The next wait could not end before the deadline, so it was not begun.
    NoTimeToWait {
        /// The wait.
        wait: Duration,
        /// The time that was left.
        left: Duration,
    },
    /// The retry budget is spent: too large a share of all calls is retries.
    Budget,
    /// The budget of calls of the message, or of whoever set one, is spent.
    CallBudget,
    /// The operation must not be repeated, such as a POST without an idempotency key, or cannot be, such as an upload whose
    /// body is gone.
    NotRepeatable,
    /// The circuit breaker is open.
    Breaker(BreakerOpen),
    /// The bulkhead has neither a place nor a seat, or had no place soon enough.
    Bulkhead(BulkheadFull),
    /// The rate limit has no turn soon enough.
    Rate(RateSpent),
}

impl Stop {
    /// What a call that was not attempted was refused by.
    pub(crate) fn refusal(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Breaker(open) => Some(open),
            Self::Bulkhead(full) => Some(full),
            Self::Rate(spent) => Some(spent),
            Self::CallBudget => Some(&CallBudgetSpent),
            Self::Deadline | Self::NoTimeToWait { .. } => Some(&TooLittleTime),
            Self::Final | Self::Attempts | Self::Budget | Self::NotRepeatable => None,
        }
    }

    /// When asking again may help, where that is known.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NoTimeToWait { wait, .. } => Some(*wait),
            Self::Breaker(open) => open.retry_after,
            Self::Rate(spent) => Some(spent.wait),
            _ => None,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final => f.write_str("another attempt would not help"),
            Self::Attempts => f.write_str("all attempts are used up"),
            Self::Deadline => f.write_str("the deadline has passed"),
            Self::NoTimeToWait { wait, left } => {
                let (wait, left) = (shown(*wait), shown(*left));
                write!(f, "the next wait takes {wait} and the deadline leaves {left}")
            }
            Self::Budget => f.write_str("the retry budget is spent"),
            Self::CallBudget => f.write_str("the budget of calls is spent"),
            Self::NotRepeatable => f.write_str(
                "it cannot be repeated: it has no idempotency key, or its body cannot be sent again",
            ),
            Self::Breaker(open) => open.fmt(f),
            Self::Bulkhead(full) => full.fmt(f),
            Self::Rate(spent) => spent.fmt(f),
        }
    }
}

/// The [budget of calls](crate::CallBudget) had none left: the source of a [`RetryError`](crate::RetryError) without an
/// attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the budget of calls is spent")]
#[non_exhaustive]
pub struct CallBudgetSpent;

/// Too little of the deadline was left for an attempt, or for one that could have ended: the source of a
/// [`RetryError`](crate::RetryError) whose call says nothing about the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too little time was left")]
#[non_exhaustive]
pub struct TooLittleTime;

/// A time as people read it: whole milliseconds where there are any.
pub(crate) fn shown(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { format!("{time:?}") } else { print(Duration::from_millis(millis)).to_string() }
}
