//! Retries around a client of HTTP.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{HttpAnswer, HttpAnswers, HttpCause, HttpFailure, Retried};
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
/// An attempt ends with the head of its answer: the timeout of one attempt does not hold for reading the body.
#[derive(Debug, Clone)]
pub struct HttpRetryLayer<H = NoHooks> {
    retryer: Retryer<HttpAnswers, H>,
    replay: HttpReplay,
}

impl<H> HttpRetryLayer<H> {
    /// A layer with this retryer.
    pub fn new(retryer: Retryer<HttpAnswers, H>) -> Self {
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

impl<S, H> Layer<S> for HttpRetryLayer<H> {
    type Service = HttpRetry<S, H>;

    fn layer(&self, service: S) -> HttpRetry<S, H> {
        HttpRetry { service, retryer: self.retryer.clone(), replay: self.replay }
    }
}

/// A client whose requests are retried; see [`HttpRetryLayer`].
pub struct HttpRetry<S, H = NoHooks> {
    service: S,
    retryer: Retryer<HttpAnswers, H>,
    replay: HttpReplay,
}

impl<S, H> HttpRetry<S, H> {
    /// This client with this retryer.
    pub fn new(client: S, retryer: Retryer<HttpAnswers, H>) -> Self {
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
    pub fn retryer(&self) -> &Retryer<HttpAnswers, H> {
        &self.retryer
    }

    pub(crate) fn send<Req>(&self, service: S, mut request: Req) -> RetriedFuture<S, Req, H>
    where
        S: Service<Req> + Clone,
        Req: HttpRequest,
        HttpAnswers: Classify<S::Response, S::Error, Error = HttpFailure<S::Response, S::Error>>,
    {
        self.replay.prepare(&mut request);
        let operation = SendAgain::new(service, request, self.replay);
        RetriedFuture { call: Call::new(self.retryer.clone(), operation) }
    }
}

impl<S: Clone, H> Clone for HttpRetry<S, H> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), retryer: self.retryer.clone(), replay: self.replay }
    }
}

impl<S, H> fmt::Debug for HttpRetry<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRetry").field("retryer", &self.retryer).finish_non_exhaustive()
    }
}

impl<S, H, Req> Service<Req> for HttpRetry<S, H>
where
    S: Service<Req> + Clone,
    S::Response: HttpAnswer,
    Req: HttpRequest,
    HttpAnswers: Classify<S::Response, S::Error, Error = HttpFailure<S::Response, S::Error>>,
    H: Hooks<HttpFailure<S::Response, S::Error>>,
{
    type Response = S::Response;
    type Error = RetryError<HttpCause<S::Error>>;
    type Future = RetriedFuture<S, Req, H>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Each attempt waits for the client itself, so that what goes wrong there is retried too.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let service = take_ready(&mut self.service);
        self.send(service, request)
    }
}

type Attempts<S, Req, H> = Call<
    Retryer<HttpAnswers, H>,
    SendAgain<S, Req, HttpReplay>,
    HttpFailure<<S as Service<Req>>::Response, <S as Service<Req>>::Error>,
>;

pin_project! {
    /// A request under way, with all its attempts.
    #[must_use = "a request is sent only when it is awaited"]
    pub struct RetriedFuture<S, Req, H>
    where
        S: Service<Req>,
        S: Clone,
        Req: HttpRequest,
    {
        #[pin]
        call: Attempts<S, Req, H>,
    }
}

impl<S, Req, H> Future for RetriedFuture<S, Req, H>
where
    S: Service<Req> + Clone,
    S::Response: HttpAnswer,
    Req: HttpRequest,
    HttpAnswers: Classify<S::Response, S::Error, Error = HttpFailure<S::Response, S::Error>>,
    H: Hooks<HttpFailure<S::Response, S::Error>>,
{
    type Output = Result<S::Response, RetryError<HttpCause<S::Error>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().call.poll(cx)).or_else(last_answer))
    }
}

impl<S: Service<Req> + Clone, Req: HttpRequest, H> fmt::Debug for RetriedFuture<S, Req, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetriedFuture").finish_non_exhaustive()
    }
}

/// The last answer, where there was one.
pub(crate) fn last_answer<A: HttpAnswer, E>(
    mut error: RetryError<HttpFailure<A, E>>,
) -> Result<A, RetryError<HttpCause<E>>> {
    let retried = Retried {
        attempts: error.attempts(),
        stop: error.stop(),
        took: error.took(),
        outcome: error.outcome(),
        retry_after: error.retry_after(),
    };
    let answer = match error.last_mut() {
        Some(Cause::Error(HttpFailure::Status { answer, .. })) => answer.take(),
        _ => None,
    };
    match answer {
        Some(mut answer) => {
            answer.extensions_mut().insert(retried);
            Ok(answer)
        }
        None => Err(error.map(HttpCause::from)),
    }
}
