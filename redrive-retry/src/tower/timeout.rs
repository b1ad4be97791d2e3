//! The time of one attempt as a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use super::Once;
use super::once::take_ready;
use crate::{BuildError, Cause};

/// Gives up what a service has not answered within this time. It is the innermost of the parts.
///
/// The timeout of a [`RetryLayer`](super::RetryLayer)'s own runs while a call waits for its turn or its place in the layers
/// between, and cannot tell those from the endpoint. This one begins when they have let the call through, so say
/// [`no_attempt_timeout`](crate::Builder::no_attempt_timeout) to the retryer around them.
///
/// ```
/// use redrive_retry::tower::{BulkheadLayer, RetryLayer, TimeoutLayer};
/// use redrive_retry::{Bulkhead, Cause, Retryer};
/// use std::time::Duration;
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let retryer = Retryer::builder()
///     .retry_if(|failed: &Cause<&str>| failed.error().is_none_or(|error| *error == "busy")) // a timeout is retried
///     .no_attempt_timeout()
///     .behind_guard()
///     .build()?;
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::new(retryer))
///     .layer(BulkheadLayer::new(Bulkhead::new(32, 64)?))
///     .layer(TimeoutLayer::new(Duration::from_secs(2))?)
///     .service_fn(|sku: u64| async move {
///         if sku == 0 { std::future::pending().await } else { Ok::<u64, &str>(sku) }
///     });
/// assert_eq!(service.clone().oneshot(17).await.ok(), Some(17));
/// assert!(service.oneshot(0).await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TimeoutLayer {
    time: Duration,
}

impl TimeoutLayer {
    /// A layer with this time. None at all is refused.
    pub fn new(time: Duration) -> Result<Self, BuildError> {
        if time.is_zero() { Err(BuildError::NoTime("timeout")) } else { Ok(Self { time }) }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timed<S>;

    fn layer(&self, service: S) -> Timed<S> {
        Timed { service, time: self.time }
    }
}

/// A service whose answers have their time; see [`TimeoutLayer`].
#[derive(Debug, Clone)]
pub struct Timed<S> {
    service: S,
    time: Duration,
}

impl<S: Service<Req> + Clone, Req> Service<Req> for Timed<S> {
    type Response = S::Response;
    type Error = Cause<S::Error>;
    type Future = TimedFuture<S, Req>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The call waits for the service itself, within its time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let once = Once::new(take_ready(&mut self.service), Some(request));
        TimedFuture { time: self.time, timer: None, once }
    }
}

pin_project! {
    /// A call that has its time.
    pub struct TimedFuture<S, Req>
    where
        S: Service<Req>,
    {
        time: Duration,
        // Made when it is first needed: most calls of a quick service never need it.
        #[pin]
        timer: Option<Sleep>,
        #[pin]
        once: Once<S, Req>,
    }
}

impl<S: Service<Req>, Req> Future for TimedFuture<S, Req> {
    type Output = Result<S::Response, Cause<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(answer) = this.once.poll(cx) {
            return Poll::Ready(answer.map_err(Cause::Error));
        }
        if this.timer.is_none() {
            this.timer.set(Some(tokio::time::sleep(*this.time)));
        }
        if let Some(timer) = this.timer.as_pin_mut() {
            ready!(timer.poll(cx));
        }
        Poll::Ready(Err(Cause::TimedOut(*this.time)))
    }
}

impl<S: Service<Req>, Req> fmt::Debug for TimedFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedFuture").finish_non_exhaustive()
    }
}
