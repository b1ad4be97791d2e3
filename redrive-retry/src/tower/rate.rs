//! A rate limit as a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use super::once::take_ready;
use super::{LayerError, Once};
use crate::RateLimiter;
use crate::guard::RateSpent;

/// Lets calls start at a rate, in the order in which they came, and refuses those that would wait too long.
#[derive(Debug, Clone)]
pub struct RateLimitLayer {
    limiter: RateLimiter,
    longest: Duration,
}

impl RateLimitLayer {
    /// A layer with this limit, whose turns are waited for no longer than that.
    pub fn new(limiter: RateLimiter, longest: Duration) -> Self {
        Self { limiter, longest }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = Rated<S>;

    fn layer(&self, service: S) -> Rated<S> {
        Rated { service, limiter: self.limiter.clone(), longest: self.longest }
    }
}

/// A service behind a rate limit; see [`RateLimitLayer`].
#[derive(Debug, Clone)]
pub struct Rated<S> {
    service: S,
    limiter: RateLimiter,
    longest: Duration,
}

impl<S: Service<Req> + Clone, Req> Service<Req> for Rated<S> {
    type Response = S::Response;
    type Error = LayerError<RateSpent, S::Error>;
    type Future = RatedFuture<S, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(LayerError::Failed)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let turn = self.limiter.reserve_at(self.limiter.clock().now(), self.longest);
        let (wait, refused) = match turn {
            Ok(wait) => ((!wait.is_zero()).then(|| tokio::time::sleep(wait)), None),
            Err(spent) => (None, Some(spent)),
        };
        RatedFuture { wait, refused, once: Once::new(take_ready(&mut self.service), Some(request)) }
    }
}

pin_project! {
    /// A call behind a rate limit.
    pub struct RatedFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        wait: Option<Sleep>,
        refused: Option<RateSpent>,
        #[pin]
        once: Once<S, Req>,
    }
}

impl<S: Service<Req>, Req> Future for RatedFuture<S, Req> {
    type Output = Result<S::Response, LayerError<RateSpent, S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(spent) = this.refused {
            return Poll::Ready(Err(LayerError::Refused(*spent)));
        }
        if let Some(wait) = this.wait.as_mut().as_pin_mut() {
            ready!(wait.poll(cx));
            this.wait.set(None);
        }
        this.once.poll(cx).map_err(LayerError::Failed)
    }
}

impl<S: Service<Req>, Req> fmt::Debug for RatedFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RatedFuture").finish_non_exhaustive()
    }
}
