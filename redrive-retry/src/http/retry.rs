//! Retries around a client of HTTP.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{FailedRequest, HttpAnswer as _, HttpAnswers, HttpJudge, Retried};
use super::request::{HttpReplay, HttpRequest};
use crate::tower::{SendAgain, take_ready};
use crate::{Call, Cause, Classify, Hooks, NoHooks, RetryError, Retryer};

/// Retries the requests of a client.
///
/// The answer is the last one there was, also when it is a 503: its status says so, and its extensions say with
/// [`Retried`] why there was no further attempt. Only a call whose last attempt was not answered is an error. So a
/// breaker or a fallback around these retries has to be told to look for it:
/// [`BreakerLayer::around_http_retries`](crate::tower::BreakerLayer::around_http_retries),
/// [`FallbackLayer::around_http_retries`](crate::tower::FallbackLayer::around_http_retries).
///
/// Around the layer of a guard, its retryer is told so with [`behind_guard`](crate::Builder::behind_guard).
///
/// An attempt ends with the head of its answer: the timeout of one attempt does not hold for reading the body.
#[derive(Debug, Clone)]
pub struct HttpRetryLayer<C = HttpAnswers, H = NoHooks> {
    retryer: Retryer<C, H>,
    replay: HttpReplay,
}

impl<C, H> HttpRetryLayer<C, H> {
    /// A layer with this retryer.
    pub fn new(retryer: Retryer<C, H>) -> Self
    where
        C: HttpJudge,
    {
        Self { retryer, replay: HttpReplay::default() }
    }

    /// Gives every request that may not be repeated without a key and has none a key of its own.
    ///
    /// Only a server that knows the header makes use of it: see [`IdempotencyLayer`](super::IdempotencyLayer).
    #[must_use]
    pub fn generate_keys(mut self) -> Self {
        self.replay.generates_keys = true;
        self
    }
}

impl<S, C, H> Layer<S> for HttpRetryLayer<C, H> {
    type Service = HttpRetry<S, C, H>;

    fn layer(&self, service: S) -> HttpRetry<S, C, H> {
        HttpRetry { service, retryer: self.retryer.clone(), replay: self.replay }
    }
}

/// A client whose requests are retried; see [`HttpRetryLayer`].
pub struct HttpRetry<S, C = HttpAnswers, H = NoHooks> {
    service: S,
    retryer: Retryer<C, H>,
    replay: HttpReplay,
}

impl<S, C, H> HttpRetry<S, C, H> {
    /// This client with this retryer.
    pub fn new(client: S, retryer: Retryer<C, H>) -> Self
    where
        C: HttpJudge,
    {
        HttpRetryLayer::new(retryer).layer(client)
    }

    /// See [`HttpRetryLayer::generate_keys`].
    #[must_use]
    pub fn generate_keys(mut self) -> Self {
        self.replay.generates_keys = true;
        self
    }

    /// The client itself.
    pub fn client(&self) -> &S {
        &self.service
    }

    /// The retryer.
    pub fn retryer(&self) -> &Retryer<C, H> {
        &self.retryer
    }

    pub(crate) fn send<Req>(&self, service: S, mut request: Req) -> RetriedFuture<S, Req, C, H>
    where
        S: Service<Req> + Clone,
        Req: HttpRequest,
        C: Classify<S::Response, S::Error>,
    {
        self.replay.prepare(&mut request);
        let operation = SendAgain::new(service, request, self.replay);
        RetriedFuture { call: Call::new(self.retryer.clone(), operation) }
    }
}

impl<S: Clone, C, H> Clone for HttpRetry<S, C, H> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), retryer: self.retryer.clone(), replay: self.replay }
    }
}

impl<S, C, H> fmt::Debug for HttpRetry<S, C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRetry").field("retryer", &self.retryer).finish_non_exhaustive()
    }
}

impl<S, C, H, Req> Service<Req> for HttpRetry<S, C, H>
where
    S: Service<Req> + Clone,
    Req: HttpRequest,
    C: Classify<S::Response, S::Error>,
    C::Error: FailedRequest<Answer = S::Response>,
    H: Hooks<C::Error>,
{
    type Response = S::Response;
    type Error = RetryError<<C::Error as FailedRequest>::Cause>;
    type Future = RetriedFuture<S, Req, C, H>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Each attempt waits for the client itself, so that what goes wrong there is retried too.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let service = take_ready(&mut self.service);
        self.send(service, request)
    }
}

type Attempts<S, Req, C, H> = Call<
    Retryer<C, H>,
    SendAgain<S, Req, HttpReplay>,
    <C as Classify<<S as Service<Req>>::Response, <S as Service<Req>>::Error>>::Error,
>;

pin_project! {
    /// A request under way, with all its attempts.
    #[must_use = "a request is sent only when it is awaited"]
    pub struct RetriedFuture<S, Req, C, H>
    where
        S: Service<Req>,
        S: Clone,
        Req: HttpRequest,
        C: Classify<S::Response, S::Error>,
    {
        #[pin]
        call: Attempts<S, Req, C, H>,
    }
}

impl<S, Req, C, H> Future for RetriedFuture<S, Req, C, H>
where
    S: Service<Req> + Clone,
    Req: HttpRequest,
    C: Classify<S::Response, S::Error>,
    C::Error: FailedRequest<Answer = S::Response>,
    H: Hooks<C::Error>,
{
    type Output = Result<S::Response, RetryError<<C::Error as FailedRequest>::Cause>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().call.poll(cx)).or_else(last_answer))
    }
}

impl<S, Req, C, H> fmt::Debug for RetriedFuture<S, Req, C, H>
where
    S: Service<Req> + Clone,
    Req: HttpRequest,
    C: Classify<S::Response, S::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetriedFuture").finish_non_exhaustive()
    }
}

/// The last answer, where there was one.
pub(crate) fn last_answer<F: FailedRequest>(
    mut error: RetryError<F>,
) -> Result<F::Answer, RetryError<F::Cause>> {
    let retried = Retried {
        attempts: error.attempts(),
        stop: error.stop(),
        took: error.took(),
        outcome: error.outcome(),
        retry_after: error.retry_after(),
    };
    let answer = match error.last_mut() {
        Some(Cause::Error(failed)) => failed.take_answer(),
        _ => None,
    };
    match answer {
        Some(mut answer) => {
            answer.extensions_mut().insert(retried);
            Ok(answer)
        }
        None => Err(error.map(F::into_cause)),
    }
}
