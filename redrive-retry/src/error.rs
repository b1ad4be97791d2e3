//! What a call that failed leaves: why it stopped, and every attempt that was made.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use redrive_core::duration::print;

use crate::guard::{BreakerOpen, BulkheadFull, Outcome, TooMany};

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
    /// The operation must not be repeated, such as a POST without an idempotency key.
    NotRepeatable,
    /// The circuit breaker is open.
    Breaker(BreakerOpen),
    /// The bulkhead has neither a place nor a seat.
    Bulkhead(BulkheadFull),
    /// The rate limit has no turn soon enough.
    Rate(TooMany),
}

impl Stop {
    /// When asking again may help, where that is known.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NoTimeToWait { wait, .. } => Some(*wait),
            Self::Breaker(open) => open.retry_after,
            Self::Rate(too_many) => Some(too_many.wait),
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
            Self::NotRepeatable => f.write_str("it must not be repeated without an idempotency key"),
            Self::Breaker(open) => open.fmt(f),
            Self::Bulkhead(full) => full.fmt(f),
            Self::Rate(too_many) => too_many.fmt(f),
        }
    }
}

/// What went wrong in one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause<E> {
    /// The operation said so.
    Error(E),
    /// It did not end within this time.
    TimedOut(Duration),
}

impl<E> Cause<E> {
    /// The operation's error.
    pub const fn error(&self) -> Option<&E> {
        match self {
            Self::Error(error) => Some(error),
            Self::TimedOut(_) => None,
        }
    }

    pub(crate) fn map<X>(self, with: impl FnOnce(E) -> X) -> Cause<X> {
        match self {
            Self::Error(error) => Cause::Error(with(error)),
            Self::TimedOut(after) => Cause::TimedOut(after),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::TimedOut(after) => write!(f, "no answer within {}", shown(*after)),
        }
    }
}

/// One attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried<E> {
    /// Its number, from 1.
    pub number: u32,
    /// When it began, since the call did.
    pub began: Duration,
    /// How long it took. Of an attempt that ended without waiting for anything, to the tick of the clock.
    pub took: Duration,
    /// How long the endpoint asked to wait (`Retry-After`), when it did: as it said, however long was waited.
    pub asked: Option<Duration>,
    /// What went wrong.
    pub cause: Cause<E>,
}

/// A call failed: the last error, why it stopped there, and the history of all attempts.
///
/// Its source is the last attempt's error, so that whatever reads a chain of causes finds it.
pub struct RetryError<E> {
    inner: Box<Inner<E>>,
}

struct Inner<E> {
    stop: Stop,
    history: Vec<Tried<E>>,
    took: Duration,
    outcome: Option<Outcome>,
}

impl<E> RetryError<E> {
    pub(crate) fn new(stop: Stop, history: Vec<Tried<E>>, took: Duration, outcome: Option<Outcome>) -> Self {
        Self { inner: Box::new(Inner { stop, history, took, outcome }) }
    }

    /// Why no further attempt was made.
    pub fn stop(&self) -> Stop {
        self.inner.stop
    }

    /// Every attempt, the first one first. Empty when a guard refused the call.
    pub fn history(&self) -> &[Tried<E>] {
        &self.inner.history
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        self.inner.history.last().map_or(0, |last| last.number)
    }

    /// What this says about the endpoint: its failure, or an answer by which the fault is the caller's
    /// ([`Outcome::Ignored`]). Nothing when it was not asked: no attempt was made, or each was
    /// [not made](crate::Judged::NotMade) after all.
    pub fn outcome(&self) -> Option<Outcome> {
        self.inner.outcome
    }

    /// When asking again may help, where that is known: what the endpoint asked for last, as it said it, or what the
    /// [stop](Stop::retry_after) says, whichever is later. For whoever puts the work on a queue.
    pub fn retry_after(&self) -> Option<Duration> {
        let asked = self.inner.history.last().and_then(|tried| tried.asked);
        asked.max(self.inner.stop.retry_after())
    }

    /// How long the call took in all.
    pub fn took(&self) -> Duration {
        self.inner.took
    }

    /// What went wrong last; nothing when no attempt was made.
    pub fn last(&self) -> Option<&Cause<E>> {
        self.inner.history.last().map(|tried| &tried.cause)
    }

    #[cfg(feature = "http")]
    pub(crate) fn last_mut(&mut self) -> Option<&mut Cause<E>> {
        self.inner.history.last_mut().map(|tried| &mut tried.cause)
    }

    /// The last attempt's error; nothing when it timed out or none was made.
    pub fn error(&self) -> Option<&E> {
        self.last().and_then(Cause::error)
    }

    /// The last attempt's error by value.
    pub fn into_error(mut self) -> Option<E> {
        match self.inner.history.pop()?.cause {
            Cause::Error(error) => Some(error),
            Cause::TimedOut(_) => None,
        }
    }

    /// Why it stopped, and the attempts by value.
    pub fn into_parts(self) -> (Stop, Vec<Tried<E>>) {
        (self.inner.stop, self.inner.history)
    }

    /// The same with other errors.
    pub fn map<X>(self, mut with: impl FnMut(E) -> X) -> RetryError<X> {
        let Inner { stop, history, took, outcome } = *self.inner;
        let map = |tried: Tried<E>| {
            let Tried { number, began, took, asked, cause } = tried;
            Tried { number, began, took, asked, cause: cause.map(&mut with) }
        };
        RetryError::new(stop, history.into_iter().map(map).collect(), took, outcome)
    }
}

/// A time as people read it: whole milliseconds where there are any.
fn shown(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { format!("{time:?}") } else { print(Duration::from_millis(millis)).to_string() }
}

impl<E: fmt::Display> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = self.inner.stop;
        let Some(last) = self.last() else { return write!(f, "not attempted: {stop}") };
        let attempts = match self.attempts() {
            1 => "1 attempt".to_owned(),
            more => format!("{more} attempts"),
        };
        write!(f, "gave up after {attempts} in {}: {stop}; last: {last}", shown(self.inner.took))
    }
}

impl<E: fmt::Debug> fmt::Debug for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryError")
            .field("stop", &self.inner.stop)
            .field("took", &self.inner.took)
            .field("history", &self.inner.history)
            .finish()
    }
}

impl<E: Error + 'static> Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().map(|error| error as &(dyn Error + 'static))
    }
}
