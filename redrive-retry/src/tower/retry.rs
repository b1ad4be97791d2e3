//! Retries as a layer.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::Once;
use super::once::take_ready;
use crate::{Attempt, Call, Classify, Hooks, Operation, Retryer};

/// How a request is sent again.
pub trait Replay<Req> {
    /// A copy of the request for one attempt; nothing when it has none to give, and then it is sent once.
    fn copy(&self, request: &Req) -> Option<Req>;

    /// Whether the request may be repeated; asked after an attempt that failed.
    fn is_repeatable(&self, _request: &Req) -> bool {
        true
    }
}

/// Sends clones of the request: the default, for requests that are safe to repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CloneRequest;

impl<Req: Clone> Replay<Req> for CloneRequest {
    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

/// Retries what a service fails at. The errors of the service become [`RetryError`](crate::RetryError)s.
#[derive(Debug, Clone)]
pub struct RetryLayer<C, H, P = CloneRequest> {
    retryer: Retryer<C, H>,
    replay: P,
}

impl<C, H> RetryLayer<C, H> {
    /// A layer that sends clones.
    pub fn new(retryer: Retryer<C, H>) -> Self {
        Self { retryer, replay: CloneRequest }
    }
}

impl<C, H, P> RetryLayer<C, H, P> {
    /// Another way to send a request again.
    pub fn replay<P2>(self, replay: P2) -> RetryLayer<C, H, P2> {
        RetryLayer { retryer: self.retryer, replay }
    }
}

impl<S, C, H, P: Clone> Layer<S> for RetryLayer<C, H, P> {
    type Service = Retry<S, C, H, P>;

    fn layer(&self, service: S) -> Self::Service {
        Retry { service, retryer: self.retryer.clone(), replay: self.replay.clone() }
    }
}

/// A service whose failures are retried; see [`RetryLayer`].
#[derive(Debug, Clone)]
pub struct Retry<S, C, H, P = CloneRequest> {
    service: S,
    retryer: Retryer<C, H>,
    replay: P,
}

impl<S, C, H, P, Req> Service<Req> for Retry<S, C, H, P>
where
    S: Service<Req> + Clone,
    P: Replay<Req> + Clone,
    C: Classify<S::Response, S::Error>,
    H: Hooks<C::Error>,
{
    type Response = S::Response;
    type Error = crate::RetryError<C::Error>;
    type Future = Call<Retryer<C, H>, SendAgain<S, Req, P>, C::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Each attempt waits for the service itself, so that what goes wrong there is retried too.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let service = take_ready(&mut self.service);
        Call::new(self.retryer.clone(), SendAgain::new(service, request, self.replay.clone()))
    }
}

/// A request that is sent to a service as often as it takes.
#[derive(Debug)]
pub struct SendAgain<S, Req, P> {
    service: S,
    /// Nothing once it was sent itself.
    request: Option<Req>,
    replay: P,
}

impl<S, Req, P> SendAgain<S, Req, P> {
    pub(crate) fn new(service: S, request: Req, replay: P) -> Self {
        Self { service, request: Some(request), replay }
    }
}

impl<S, Req, P> Operation for SendAgain<S, Req, P>
where
    S: Service<Req> + Clone,
    P: Replay<Req>,
{
    type Value = S::Response;
    type Error = S::Error;
    type Future = Once<S, Req>;

    fn start(&mut self, _: Attempt) -> Self::Future {
        let copy = self.request.as_ref().and_then(|request| self.replay.copy(request));
        // What was sent itself is not repeatable, so there is always one of the two.
        let request = copy.or_else(|| self.request.take());
        Once::new(take_ready(&mut self.service), request)
    }

    fn is_repeatable(&self) -> bool {
        self.request.as_ref().is_some_and(|request| self.replay.is_repeatable(request))
    }
}
