//! Each part as a `tower` layer.
//!
//! With `ServiceBuilder` the first layer is the outermost, so the [order of the parts](crate#the-order-of-the-parts)
//! is the order in which they are written:
//!
//! ```
//! use redrive_retry::guard::BreakerConfig;
//! use redrive_retry::tower::{
//!     BreakerLayer, BulkheadLayer, FallbackLayer, RateLimitLayer, RetryLayer, TimeoutLayer,
//! };
//! use redrive_retry::{Bulkhead, CircuitBreaker, RateLimiter, Retryer};
//! use std::time::Duration;
//! use tower::{Service, ServiceBuilder, ServiceExt};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let retryer = Retryer::builder().no_attempt_timeout().behind_guard().behind_guard().build()?;
//! let mut prices = ServiceBuilder::new()
//!     .layer(FallbackLayer::new(|_error| async { Ok::<u32, std::convert::Infallible>(100) }))
//!     .layer(BreakerLayer::new(CircuitBreaker::new(BreakerConfig::default())?).around_retries())
//!     .layer(RetryLayer::new(retryer))
//!     .layer(RateLimitLayer::new(RateLimiter::new("500/s".parse()?), Duration::from_secs(1)))
//!     .layer(BulkheadLayer::new(Bulkhead::new(32, 64)?))
//!     .layer(TimeoutLayer::new(Duration::from_secs(2))?)
//!     .service_fn(|_sku: u64| async { Err::<u32, _>("the price service is down") });
//! # tokio::time::pause();
//! assert_eq!(prices.ready().await?.call(17).await?, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What the rate limit and the bulkhead refuse is not retried, and no failure of the endpoint: that is what
//! [`behind_guard`](crate::Builder::behind_guard), once for each of them, and
//! [`around_retries`](BreakerLayer::around_retries) are for. Without, every error is retried and counted.
//!
//! Retries of HTTP requests hand on their last answer, also when it is a 503, so what stands around them is told so:
//! `around_http_retries`, of a breaker and of a fallback.
//!
//! The time of an attempt begins when both have let it through, so it is a [`TimeoutLayer`] inside of them, and the
//! retryer around them has [none of its own](crate::Builder::no_attempt_timeout). What its deadline, or a timeout that it
//! has all the same, cuts behind a guard says nothing about the endpoint: it may have queued all the time.
//!
//! A [`Retryer`](crate::Retryer) that has a breaker, a rate limit and a bulkhead of its own needs the one layer
//! [`RetryLayer`] only, and what these refuse is then told apart by [`RetryError::stop`](crate::RetryError::stop).

mod behind_guard;
mod breaker;
mod bulkhead;
mod fallback;
mod once;
mod rate;
mod retry;
mod timeout;

use std::error::Error;
use std::fmt;

pub use behind_guard::{BehindGuard, RetriesFail};
pub use breaker::{BreakerLayer, Broken, BrokenFuture, EveryErrorFails, Verdict};
pub use bulkhead::{BulkheadLayer, Limited, LimitedFuture};
pub use fallback::{Fallback, FallbackLayer, FallsBack, OnErrors, Parted};
pub use once::Once;
#[cfg(feature = "http")]
pub(crate) use once::take_ready;
pub use rate::{RateLimitLayer, Rated, RatedFuture};
pub use retry::{CloneRequest, Replay, Retry, RetryLayer, SendAgain};
pub use timeout::{Timed, TimedFuture, TimeoutLayer};

/// A guard refused the call, or the call itself failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerError<G, E> {
    /// The guard refused: the call was not made.
    Refused(G),
    /// The call failed.
    Failed(E),
}

impl<G: fmt::Display, E: fmt::Display> fmt::Display for LayerError<G, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(guard) => guard.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<G: Error + 'static, E: Error + 'static> Error for LayerError<G, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(guard) => Some(guard),
            Self::Failed(error) => Some(error),
        }
    }
}
