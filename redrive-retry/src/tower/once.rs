//! One request to a service, from waiting for it to be ready until its answer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// One request to a service that need not be ready yet.
    #[must_use = "a request is sent only when it is awaited"]
    pub struct Once<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        step: Step<S, Req, S::Future>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<S, Req, F> {
        Waiting { service: S, request: Option<Req> },
        Sent { #[pin] future: F },
    }
}

impl<S: Service<Req>, Req> Once<S, Req> {
    pub(crate) fn new(service: S, request: Option<Req>) -> Self {
        Self { step: Step::Waiting { service, request } }
    }
}

impl<S: Service<Req>, Req> Future for Once<S, Req> {
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.step.as_mut().project() {
                StepNow::Waiting { service, request } => {
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        return Poll::Ready(Err(error));
                    }
                    let Some(request) = request.take() else { return Poll::Pending };
                    let future = service.call(request);
                    this.step.set(Step::Sent { future });
                }
                StepNow::Sent { future } => return future.poll(cx),
            }
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for Once<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

/// The service that is ready, with a clone left in its place for the next.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let next = service.clone();
    std::mem::replace(service, next)
}
