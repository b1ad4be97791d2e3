//! Another answer, as a layer.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::Once;
use super::once::take_ready;
use crate::WithFallback;

/// Answers with something else what a service could not answer.
#[derive(Debug, Clone)]
pub struct FallbackLayer<F> {
    fallback: F,
}

impl<F> FallbackLayer<F> {
    /// A layer that asks this function, with the error, for another answer.
    pub fn new(fallback: F) -> Self {
        Self { fallback }
    }
}

impl<S, F: Clone> Layer<S> for FallbackLayer<F> {
    type Service = Fallback<S, F>;

    fn layer(&self, service: S) -> Self::Service {
        Fallback { service, fallback: self.fallback.clone() }
    }
}

/// A service with something to fall back on; see [`FallbackLayer`].
#[derive(Debug, Clone)]
pub struct Fallback<S, F> {
    service: S,
    fallback: F,
}

impl<S, F, Fut, X, Req> Service<Req> for Fallback<S, F>
where
    S: Service<Req> + Clone,
    F: FnOnce(S::Error) -> Fut + Clone,
    Fut: Future<Output = Result<S::Response, X>>,
{
    type Response = S::Response;
    type Error = X;
    type Future = WithFallback<Once<S, Req>, F, Fut>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The call waits for the service itself, so that what goes wrong there is answered too.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        WithFallback::new(Once::new(take_ready(&mut self.service), Some(request)), self.fallback.clone())
    }
}
