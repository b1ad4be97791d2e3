//! A bulkhead as a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::once::take_ready;
use super::{LayerError, Once};
use crate::Bulkhead;
use crate::guard::{Acquire, BulkheadFull, Place};

/// Lets so many calls run at once, a few more wait, and refuses the rest.
#[derive(Debug, Clone)]
pub struct BulkheadLayer {
    bulkhead: Bulkhead,
}

impl BulkheadLayer {
    /// A layer with this bulkhead.
    pub fn new(bulkhead: Bulkhead) -> Self {
        Self { bulkhead }
    }
}

impl<S> Layer<S> for BulkheadLayer {
    type Service = Limited<S>;

    fn layer(&self, service: S) -> Limited<S> {
        Limited { service, bulkhead: self.bulkhead.clone() }
    }
}

/// A service behind a bulkhead; see [`BulkheadLayer`].
#[derive(Debug, Clone)]
pub struct Limited<S> {
    service: S,
    bulkhead: Bulkhead,
}

impl<S: Service<Req> + Clone, Req> Service<Req> for Limited<S> {
    type Response = S::Response;
    type Error = LayerError<BulkheadFull, S::Error>;
    type Future = LimitedFuture<S, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(LayerError::Failed)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let once = Once::new(take_ready(&mut self.service), Some(request));
        LimitedFuture { acquire: Some(self.bulkhead.acquire()), place: None, once }
    }
}

pin_project! {
    /// A call behind a bulkhead.
    pub struct LimitedFuture<S, Req>
    where
        S: Service<Req>,
    {
        acquire: Option<Acquire>,
        place: Option<Place>,
        #[pin]
        once: Once<S, Req>,
    }
}

impl<S: Service<Req>, Req> Future for LimitedFuture<S, Req> {
    type Output = Result<S::Response, LayerError<BulkheadFull, S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(acquire) = this.acquire {
            match ready!(Pin::new(acquire).poll(cx)) {
                Ok(place) => *this.place = Some(place),
                Err(full) => return Poll::Ready(Err(LayerError::Refused(full))),
            }
            *this.acquire = None;
        }
        let result = ready!(this.once.poll(cx));
        *this.place = None;
        Poll::Ready(result.map_err(LayerError::Failed))
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LimitedFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedFuture").finish_non_exhaustive()
    }
}
