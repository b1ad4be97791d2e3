//! What a result means: done, worth another attempt, or final.

use std::time::Duration;

/// What one attempt's result means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged<T, E> {
    /// It worked: the value goes to the caller.
    Done(T),
    /// It failed, by the endpoint's fault, and may work another time.
    Retry {
        /// What went wrong.
        error: E,
        /// How long the endpoint asked to wait (`Retry-After`), when it did.
        after: Option<Duration>,
    },
    /// It was answered, with the word to come back: what it is about is busy, as while the first request with the same
    /// idempotency key is running. Another attempt may work; the endpoint is well, so no breaker counts it, and for one
    /// that probes it is an answer.
    NotYet {
        /// What was said.
        error: E,
        /// How long the endpoint asked to wait (`Retry-After`), when it did.
        after: Option<Duration>,
    },
    /// It failed for good: another attempt would fail alike. The fault is the caller's, so no breaker counts it; for
    /// one that probes it is an answer all the same. What was never sent is [`NotMade`](Self::NotMade).
    Fail(E),
    /// The endpoint was not asked: a guard refused, or the request cannot be sent as it is. It ends the call, a
    /// breaker is told nothing, and the [budget of calls](crate::CallBudget) gets back what was taken for it.
    NotMade(E),
}

impl<T, E> Judged<T, E> {
    /// Another attempt may work.
    pub const fn retry(error: E) -> Self {
        Self::Retry { error, after: None }
    }
}

/// Tells what a result means, by its error or by its value.
///
/// A value that is a failure in disguise, as an HTTP response with status 503, becomes an error here, so that nothing
/// of it is lost: [`Error`](Self::Error) may hold it.
pub trait Classify<T, E> {
    /// What callers see of a failed attempt.
    type Error;

    /// Judges the result of one attempt.
    fn judge(&self, result: Result<T, E>) -> Judged<T, Self::Error>;

    /// Called for an error that is kept only for the history, because another attempt begins: not before, since a wait
    /// may end with the call being given up. What it holds on to, such as a connection, should go now.
    fn let_go(&self, _error: &mut Self::Error) {}
}

/// Retries every error: the default, for operations that are safe to repeat and fail only for reasons that pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EveryError;

impl<T, E> Classify<T, E> for EveryError {
    type Error = E;

    #[inline]
    fn judge(&self, result: Result<T, E>) -> Judged<T, E> {
        match result {
            Ok(value) => Judged::Done(value),
            Err(error) => Judged::retry(error),
        }
    }
}

/// Retries the errors for which a function says so; see [`Builder::retry_if`](crate::Builder::retry_if).
#[derive(Debug, Clone, Copy)]
pub struct ErrorsThat<F>(pub(crate) F);

impl<T, E, F: Fn(&E) -> bool> Classify<T, E> for ErrorsThat<F> {
    type Error = E;

    #[inline]
    fn judge(&self, result: Result<T, E>) -> Judged<T, E> {
        match result {
            Ok(value) => Judged::Done(value),
            Err(error) if (self.0)(&error) => Judged::retry(error),
            Err(error) => Judged::Fail(error),
        }
    }
}

/// Judges with a function of the whole result; see [`Builder::judge`](crate::Builder::judge).
#[derive(Debug, Clone, Copy)]
pub struct ResultsBy<F>(pub(crate) F);

impl<T, E, X, F: Fn(Result<T, E>) -> Judged<T, X>> Classify<T, E> for ResultsBy<F> {
    type Error = X;

    #[inline]
    fn judge(&self, result: Result<T, E>) -> Judged<T, X> {
        (self.0)(result)
    }
}
