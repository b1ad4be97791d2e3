//! Telling what a guard refused from what the endpoint failed at, where guards are layers of their own.

use super::{LayerError, Verdict};
use crate::guard::Outcome;
use crate::{Builder, Classify, Judged, RetryError};

/// Judges what comes through the layer of a guard: what the guard refused was not made and ends the call, and the rest
/// is for the judge inside. See [`Builder::behind_guard`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BehindGuard<C>(C);

impl<T, G, E, C: Classify<T, E>> Classify<T, LayerError<G, E>> for BehindGuard<C> {
    type Error = LayerError<G, C::Error>;

    fn judge(&self, result: Result<T, LayerError<G, E>>) -> Judged<T, Self::Error> {
        let result = match result {
            Err(LayerError::Refused(guard)) => return Judged::NotMade(LayerError::Refused(guard)),
            Err(LayerError::Failed(error)) => Err(error),
            Ok(value) => Ok(value),
        };
        match self.0.judge(result) {
            Judged::Done(value) => Judged::Done(value),
            Judged::Retry { error, after } => Judged::Retry { error: LayerError::Failed(error), after },
            Judged::NotYet { error, after } => Judged::NotYet { error: LayerError::Failed(error), after },
            Judged::Fail(error) => Judged::Fail(LayerError::Failed(error)),
            Judged::NotMade(error) => Judged::NotMade(LayerError::Failed(error)),
        }
    }

    fn let_go(&self, error: &mut Self::Error) {
        if let LayerError::Failed(error) = error {
            self.0.let_go(error);
        }
    }
}

impl<C, H> Builder<C, H> {
    /// For a [`RetryLayer`](super::RetryLayer), or retries of HTTP requests, around the layer of a guard: what that refuses
    /// is not retried, because this client does too much already. Once for each such layer; how errors of the service are
    /// judged is said before.
    ///
    /// From outside of a guard nobody can tell an attempt that hangs from one that waits for its turn or its place. So an
    /// attempt that the retryer itself cuts says nothing about the endpoint. Leave its timeout away, and put a
    /// [`TimeoutLayer`](super::TimeoutLayer) inside of the guards.
    ///
    /// ```
    /// use redrive_retry::Retryer;
    /// use redrive_retry::tower::{BulkheadLayer, RateLimitLayer, RetryLayer, TimeoutLayer};
    /// use redrive_retry::{Bulkhead, Cause, RateLimiter};
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let passes = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    /// let retryer = Retryer::builder()
    ///     .retry_if(move |failed: &Cause<std::io::Error>| failed.error().is_none_or(passes))
    ///     .no_attempt_timeout()
    ///     .behind_guard() // the bulkhead
    ///     .behind_guard() // the rate limit
    ///     .build()?;
    /// let service = ServiceBuilder::new()
    ///     .layer(RetryLayer::new(retryer))
    ///     .layer(RateLimitLayer::new(RateLimiter::new("500/s".parse()?), Duration::from_secs(1)))
    ///     .layer(BulkheadLayer::new(Bulkhead::new(32, 64)?))
    ///     .layer(TimeoutLayer::new(Duration::from_secs(2))?)
    ///     .service_fn(|sku: u64| async move { Ok::<u64, std::io::Error>(sku) });
    /// assert_eq!(service.oneshot(17).await?, 17);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn behind_guard(self) -> Builder<BehindGuard<C>, H> {
        self.wrap_behind_guard(BehindGuard)
    }
}

/// A call failed if its retries say so: see [`RetryError::outcome`]. What the caller did wrong is no failure of the
/// endpoint, and what a guard behind the retries refused says nothing about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetriesFail;

impl<T, E> Verdict<T, RetryError<E>> for RetriesFail {
    fn outcome(&self, result: &Result<T, RetryError<E>>) -> Option<Outcome> {
        result.as_ref().map_or_else(RetryError::outcome, |_| Some(Outcome::Success))
    }
}
