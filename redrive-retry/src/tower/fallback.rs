//! Another answer, as a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::Once;
use super::once::take_ready;
use crate::WithFallback;

/// Answers with something else what a service could not answer.
///
/// That is every error. Retries of HTTP requests hand on their last answer, also when it is a 503, which is none: around
/// them say `around_http_retries`.
#[derive(Debug, Clone)]
pub struct FallbackLayer<F, W = OnErrors> {
    fallback: F,
    when: W,
}

/// Says which results a fallback stands in for.
pub trait FallsBack<T, E> {
    /// What the fallback is asked with.
    type Failed;

    /// The value of a call that needs no fallback, or what failed.
    fn parted(&self, result: Result<T, E>) -> Result<T, Self::Failed>;
}

/// Falls back on errors alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnErrors;

impl<T, E> FallsBack<T, E> for OnErrors {
    type Failed = E;

    fn parted(&self, result: Result<T, E>) -> Result<T, E> {
        result
    }
}

impl<F> FallbackLayer<F> {
    /// A layer that asks this function, with the error, for another answer.
    pub fn new(fallback: F) -> Self {
        Self { fallback, when: OnErrors }
    }
}

#[cfg(feature = "http")]
impl<F, W> FallbackLayer<F, W> {
    pub(crate) fn falling_back<W2>(self, when: W2) -> FallbackLayer<F, W2> {
        FallbackLayer { fallback: self.fallback, when }
    }
}

impl<S, F: Clone, W: Clone> Layer<S> for FallbackLayer<F, W> {
    type Service = Fallback<S, F, W>;

    fn layer(&self, service: S) -> Self::Service {
        Fallback { service, layer: self.clone() }
    }
}

/// A service with something to fall back on; see [`FallbackLayer`].
#[derive(Debug, Clone)]
pub struct Fallback<S, F, W = OnErrors> {
    service: S,
    layer: FallbackLayer<F, W>,
}

impl<S, F, W, Fut, X, Req> Service<Req> for Fallback<S, F, W>
where
    S: Service<Req> + Clone,
    W: FallsBack<S::Response, S::Error> + Clone,
    F: FnOnce(W::Failed) -> Fut + Clone,
    Fut: Future<Output = Result<S::Response, X>>,
{
    type Response = S::Response;
    type Error = X;
    type Future = WithFallback<Parted<Once<S, Req>, W>, F, Fut>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The call waits for the service itself, so that what goes wrong there is answered too.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let once = Once::new(take_ready(&mut self.service), Some(request));
        let FallbackLayer { fallback, when } = self.layer.clone();
        WithFallback::new(Parted { call: once, when }, fallback)
    }
}

pin_project! {
    /// A call whose result is parted by what needs a fallback.
    #[must_use = "a request is sent only when it is awaited"]
    pub struct Parted<A, W> {
        #[pin]
        call: A,
        when: W,
    }
}

impl<A, T, E, W> Future for Parted<A, W>
where
    A: Future<Output = Result<T, E>>,
    W: FallsBack<T, E>,
{
    type Output = Result<T, W::Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(this.when.parted(ready!(this.call.poll(cx))))
    }
}

impl<A, W> fmt::Debug for Parted<A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parted").finish_non_exhaustive()
    }
}
