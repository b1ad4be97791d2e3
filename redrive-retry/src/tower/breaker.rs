//! A circuit breaker as a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{LayerError, RetriesFail};
use crate::CircuitBreaker;
use crate::guard::{BreakerOpen, Outcome, Ticket};

/// Refuses calls while a breaker is open, and tells it how the others went.
///
/// Every error counts as the endpoint's failure, unless [`judged_by`](Self::judged_by) says otherwise. Around a retry
/// layer, [`around_retries`](Self::around_retries) tells the caller's faults and what a guard refused apart. Retries of
/// HTTP requests hand on their last answer, also when it is a 503: around them say `around_http_retries`.
#[derive(Debug, Clone)]
pub struct BreakerLayer<J = EveryErrorFails> {
    breaker: CircuitBreaker,
    judge: J,
}

/// Every error counts as the endpoint's failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EveryErrorFails;

/// Says what a result means for a breaker. Functions of the result do.
pub trait Verdict<T, E> {
    /// What the result says about the endpoint; nothing when it was not asked, as if the call had not been made.
    fn outcome(&self, result: &Result<T, E>) -> Option<Outcome>;
}

impl<T, E> Verdict<T, E> for EveryErrorFails {
    fn outcome(&self, result: &Result<T, E>) -> Option<Outcome> {
        Some(if result.is_ok() { Outcome::Success } else { Outcome::Failure })
    }
}

impl<T, E, F: Fn(&Result<T, E>) -> Option<Outcome>> Verdict<T, E> for F {
    fn outcome(&self, result: &Result<T, E>) -> Option<Outcome> {
        self(result)
    }
}

impl BreakerLayer {
    /// A layer with this breaker.
    pub fn new(breaker: CircuitBreaker) -> Self {
        Self { breaker, judge: EveryErrorFails }
    }
}

impl<J> BreakerLayer<J> {
    /// For a layer around retries: what they give up is the endpoint's failure, unless the fault is the caller's or a
    /// guard behind them refused.
    ///
    /// For a [`RetryLayer`](super::RetryLayer): a value is a success, and so is the 503 that retries of HTTP requests hand
    /// on, around which it is `around_http_retries`.
    pub fn around_retries(self) -> BreakerLayer<RetriesFail> {
        self.judging(RetriesFail)
    }

    /// Says what a result means: the endpoint's failure, its success, the caller's fault, or nothing when the endpoint
    /// was not asked.
    pub fn judged_by<T, E, F: Fn(&Result<T, E>) -> Option<Outcome>>(self, judge: F) -> BreakerLayer<F> {
        self.judging(judge)
    }

    pub(crate) fn judging<J2>(self, judge: J2) -> BreakerLayer<J2> {
        BreakerLayer { breaker: self.breaker, judge }
    }
}

impl<S, J: Clone> Layer<S> for BreakerLayer<J> {
    type Service = Broken<S, J>;

    fn layer(&self, service: S) -> Self::Service {
        Broken { service, breaker: self.breaker.clone(), judge: self.judge.clone() }
    }
}

/// A service behind a breaker; see [`BreakerLayer`].
#[derive(Debug, Clone)]
pub struct Broken<S, J = EveryErrorFails> {
    service: S,
    breaker: CircuitBreaker,
    judge: J,
}

impl<S, J, Req> Service<Req> for Broken<S, J>
where
    S: Service<Req>,
    J: Verdict<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = LayerError<BreakerOpen, S::Error>;
    type Future = BrokenFuture<S::Future, J>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx).map_err(LayerError::Failed)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let began = self.breaker.clock().now();
        match self.breaker.admit_at(began) {
            Ok(ticket) => {
                let permit = OwnPermit { breaker: self.breaker.clone(), ticket: Some(ticket), began };
                let future = self.service.call(request);
                BrokenFuture { step: Step::Called { future, permit, judge: self.judge.clone() } }
            }
            Err(open) => BrokenFuture { step: Step::Refused { open } },
        }
    }
}

/// A permit that owns its breaker.
struct OwnPermit {
    breaker: CircuitBreaker,
    ticket: Option<Ticket>,
    began: Duration,
}

impl OwnPermit {
    /// Without an outcome the call was not made, and the ticket goes back with this permit.
    fn report(&mut self, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        let Some(ticket) = self.ticket.take() else { return };
        let now = self.breaker.clock().now();
        self.breaker.report(now, ticket, outcome, now.saturating_sub(self.began));
    }
}

impl Drop for OwnPermit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.withdraw(ticket);
        }
    }
}

pin_project! {
    /// A call behind a breaker.
    pub struct BrokenFuture<F, J> {
        #[pin]
        step: Step<F, J>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<F, J> {
        Called { #[pin] future: F, permit: OwnPermit, judge: J },
        Refused { open: BreakerOpen },
    }
}

impl<F, T, E, J> Future for BrokenFuture<F, J>
where
    F: Future<Output = Result<T, E>>,
    J: Verdict<T, E>,
{
    type Output = Result<T, LayerError<BreakerOpen, E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepNow::Called { future, permit, judge } => {
                let result = ready!(future.poll(cx));
                permit.report(judge.outcome(&result));
                Poll::Ready(result.map_err(LayerError::Failed))
            }
            StepNow::Refused { open } => Poll::Ready(Err(LayerError::Refused(*open))),
        }
    }
}

impl<F, J> fmt::Debug for BrokenFuture<F, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokenFuture").finish_non_exhaustive()
    }
}
