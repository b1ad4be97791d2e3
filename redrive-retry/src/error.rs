//! What a call that failed leaves: why it stopped, and every attempt that was made.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use crate::guard::Outcome;
use crate::stop::{Stop, TooLittleTime, shown};

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

impl<E: Error + 'static> Error for Cause<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Error(error) => Some(error),
            Self::TimedOut(_) => None,
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
/// Its source is the last attempt's error, so that whatever reads a chain of causes finds it. Where there is none it is
/// what stands for it:
///
/// | the last attempt | source |
/// |---|---|
/// | did not end within its time, and the call speaks against the endpoint ([`outcome`](Self::outcome)) | an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut) |
/// | did not, and the call says nothing: it had less time than an attempt gets, or was behind a guard | [`TooLittleTime`] |
/// | was not made: a guard refused | [`BreakerOpen`], [`BulkheadFull`] or [`RateSpent`] |
/// | was not made: no call or no time was left | [`CallBudgetSpent`], [`TooLittleTime`] |
///
/// [`BreakerOpen`]: crate::guard::BreakerOpen
/// [`BulkheadFull`]: crate::guard::BulkheadFull
/// [`RateSpent`]: crate::guard::RateSpent
/// [`CallBudgetSpent`]: crate::CallBudgetSpent
pub struct RetryError<E> {
    inner: Box<Inner<E>>,
}

struct Inner<E> {
    stop: Stop,
    history: Vec<Tried<E>>,
    took: Duration,
    outcome: Option<Outcome>,
    /// The source, where the last attempt has no error of its own.
    no_answer: Option<io::Error>,
}

impl<E> RetryError<E> {
    pub(crate) fn new(stop: Stop, history: Vec<Tried<E>>, took: Duration, outcome: Option<Outcome>) -> Self {
        let no_answer = match history.last().map(|tried| &tried.cause) {
            Some(Cause::TimedOut(after)) if outcome == Some(Outcome::Failure) => Some(no_answer(*after)),
            _ => None,
        };
        Self { inner: Box::new(Inner { stop, history, took, outcome, no_answer }) }
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

    /// What this says about the endpoint: its failure, or an answer by which the fault is the caller's or the call was
    /// only put off ([`Outcome::Ignored`]). Nothing when it was not asked: no attempt was made, or each was
    /// [not made](crate::Judged::NotMade) after all. Nothing either when it was asked and given too little time to
    /// answer, because the wait for a turn or a place had used it up, or the message had little left of its own.
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
        let Inner { stop, history, took, outcome, .. } = *self.inner;
        let map = |tried: Tried<E>| {
            let Tried { number, began, took, asked, cause } = tried;
            Tried { number, began, took, asked, cause: cause.map(&mut with) }
        };
        RetryError::new(stop, history.into_iter().map(map).collect(), took, outcome)
    }
}

/// What stands for the error of an attempt whose time was over.
#[cold]
fn no_answer(after: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, Cause::<&str>::TimedOut(after).to_string())
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
        match self.last() {
            Some(Cause::Error(error)) => Some(error),
            Some(Cause::TimedOut(_)) => {
                let no_answer = self.inner.no_answer.as_ref().map(|error| error as &(dyn Error + 'static));
                Some(no_answer.unwrap_or(&TooLittleTime))
            }
            None => self.inner.stop.refusal(),
        }
    }
}
