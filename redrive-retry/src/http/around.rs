//! What stands around retries of HTTP requests: their last answer is handed on as an answer, and may be a 503.

use super::{HttpAnswer, Retried};
use crate::RetryError;
use crate::guard::Outcome;
use crate::tower::{BreakerLayer, FallbackLayer, FallsBack, Verdict};

/// A call failed if its retries say so, in their error or in the answer that they hand on: see [`Retried::outcome`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpRetriesFail;

impl<A: HttpAnswer, E> Verdict<A, RetryError<E>> for HttpRetriesFail {
    fn outcome(&self, result: &Result<A, RetryError<E>>) -> Option<Outcome> {
        match result {
            Ok(answer) => match answer.extensions().get::<Retried>() {
                Some(retried) => retried.outcome,
                None => Some(Outcome::Success),
            },
            Err(error) => error.outcome(),
        }
    }
}

impl<J> BreakerLayer<J> {
    /// For a layer around retries of HTTP requests, such as an [`HttpRetryLayer`](crate::http::HttpRetryLayer): an answer
    /// with which they gave up, such as the last 503, is the endpoint's failure too.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use redrive_retry::guard::{BreakerConfig, BreakerState};
    /// use redrive_retry::http::{HttpAnswers, HttpRetryLayer};
    /// use redrive_retry::tower::BreakerLayer;
    /// use redrive_retry::{CircuitBreaker, Retryer};
    /// use tower::{ServiceBuilder, ServiceExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let breaker = CircuitBreaker::new(BreakerConfig { consecutive: 1, ..BreakerConfig::default() })?;
    /// let retryer = Retryer::builder().schedule("0s x2".parse()?).classify(HttpAnswers::default()).build()?;
    /// let client = ServiceBuilder::new()
    ///     .layer(BreakerLayer::new(breaker.clone()).around_http_retries())
    ///     .layer(HttpRetryLayer::new(retryer))
    ///     .service_fn(|_: http::Request<Full<Bytes>>| async {
    ///         http::Response::builder().status(503).body(Full::<Bytes>::default())
    ///     });
    /// let answer = client.oneshot(http::Request::get("http://orders/17").body(Full::default())?).await?;
    /// assert_eq!(answer.status(), 503);
    /// assert_eq!(breaker.state(), BreakerState::Open);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around_http_retries(self) -> BreakerLayer<HttpRetriesFail> {
        self.judging(HttpRetriesFail)
    }
}

/// Falls back on errors, and on an answer with which retries gave up: the function is asked with the one or the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnLastAnswers;

impl<A: HttpAnswer, E> FallsBack<A, E> for OnLastAnswers {
    type Failed = Result<A, E>;

    fn parted(&self, result: Result<A, E>) -> Result<A, Self::Failed> {
        match result {
            Ok(answer) if answer.extensions().get::<Retried>().is_none() => Ok(answer),
            failed => Err(failed),
        }
    }
}

impl<F, W> FallbackLayer<F, W> {
    /// For a layer around retries of HTTP requests, such as an [`HttpRetryLayer`](crate::http::HttpRetryLayer), also with a
    /// breaker between: the function is asked for another answer too where they gave up with one, such as the last 503. It
    /// gets that answer as `Ok`, and what was not answered as `Err`.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use redrive_retry::Retryer;
    /// use redrive_retry::http::{HttpAnswers, HttpRetryLayer};
    /// use redrive_retry::tower::FallbackLayer;
    /// use tower::{ServiceBuilder, ServiceExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let retryer = Retryer::builder().schedule("0s x2".parse()?).classify(HttpAnswers::default()).build()?;
    /// let fallback = |_last: Result<_, _>| async {
    ///     Ok::<_, std::convert::Infallible>(http::Response::new(Full::<Bytes>::from("the price of yesterday")))
    /// };
    /// let client = ServiceBuilder::new()
    ///     .layer(FallbackLayer::new(fallback).around_http_retries())
    ///     .layer(HttpRetryLayer::new(retryer))
    ///     .service_fn(|_: http::Request<Full<Bytes>>| async {
    ///         http::Response::builder().status(503).body(Full::<Bytes>::default())
    ///     });
    /// let answer = client.oneshot(http::Request::get("http://prices/17").body(Full::default())?).await?;
    /// assert_eq!(answer.status(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around_http_retries(self) -> FallbackLayer<F, OnLastAnswers> {
        self.falling_back(OnLastAnswers)
    }
}
