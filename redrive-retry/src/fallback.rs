//! Another answer when a call has failed.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

pin_project! {
    /// A call with something to fall back on; see [`Call::fallback`](crate::Call::fallback).
    #[must_use = "a call is made only when it is awaited"]
    pub struct WithFallback<A, F, Fut> {
        #[pin]
        step: Step<A, Fut>,
        fallback: Option<F>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<A, Fut> {
        Calling { #[pin] call: A },
        Falling { #[pin] future: Fut },
        Done,
    }
}

impl<A, F, Fut> WithFallback<A, F, Fut> {
    pub(crate) fn new(call: A, fallback: F) -> Self {
        Self { step: Step::Calling { call }, fallback: Some(fallback) }
    }
}

impl<A, T, E, X, F, Fut> Future for WithFallback<A, F, Fut>
where
    A: Future<Output = Result<T, E>>,
    F: FnOnce(E) -> Fut,
    Fut: Future<Output = Result<T, X>>,
{
    type Output = Result<T, X>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let answer = match this.step.as_mut().project() {
                StepNow::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(value) => Ok(value),
                    Err(error) => match this.fallback.take() {
                        Some(fallback) => {
                            let future = fallback(error);
                            this.step.set(Step::Falling { future });
                            continue;
                        }
                        None => return Poll::Pending,
                    },
                },
                StepNow::Falling { future } => ready!(future.poll(cx)),
                StepNow::Done => return Poll::Pending,
            };
            this.step.set(Step::Done);
            return Poll::Ready(answer);
        }
    }
}

impl<A, F, Fut> fmt::Debug for WithFallback<A, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithFallback").finish_non_exhaustive()
    }
}
