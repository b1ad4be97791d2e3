//! Retries as a middleware of `reqwest-middleware`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};

use super::request::HttpReplay;
use super::retry::last_answer;
use super::{FailedRequest, HttpAnswers, HttpJudge};
use crate::tower::Replay as _;
use crate::{Attempt, Call, Classify, Hooks, NoHooks, Operation, Retryer};

/// Retries requests, with everything that comes after it in the chain.
///
/// A call that failed is an [`Error::Middleware`] which holds a [`RetryError`](crate::RetryError) of
/// [`HttpCause`](super::HttpCause)s of that crate's [`Error`].
///
/// A `reqwest` client sends again by itself what HTTP/2 refused, which is neither counted nor within any budget: switch
/// that off, as here.
///
/// ```no_run
/// use redrive_retry::Retryer;
/// use redrive_retry::http::{HttpAnswers, RetryMiddleware};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let retryer = Retryer::builder().classify(HttpAnswers::default()).build()?;
/// let client = reqwest::Client::builder()
///     .connect_timeout(retryer.connect_timeout())
///     .retry(reqwest::retry::never())
///     .build()?;
/// let client = reqwest_middleware::ClientBuilder::new(client)
///     .with(RetryMiddleware::new(retryer).generate_keys())
///     .build();
/// # Ok(())
/// # }
/// ```
pub struct RetryMiddleware<C = HttpAnswers, H = NoHooks> {
    retryer: Retryer<C, H>,
    replay: HttpReplay,
}

impl<C, H> RetryMiddleware<C, H> {
    /// A middleware with this retryer.
    pub fn new(retryer: Retryer<C, H>) -> Self
    where
        C: HttpJudge,
    {
        Self { retryer, replay: HttpReplay::default() }
    }

    /// See [`HttpRetryLayer::generate_keys`](super::HttpRetryLayer::generate_keys).
    #[must_use]
    pub fn generate_keys(mut self) -> Self {
        self.replay.generates_keys = true;
        self
    }
}

impl<C, H> fmt::Debug for RetryMiddleware<C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMiddleware").field("retryer", &self.retryer).finish_non_exhaustive()
    }
}

/// What the rest of the chain makes of a request, as often as it takes.
struct Chain<'a> {
    next: Next<'a>,
    extensions: Extensions,
    /// What the last attempt that came to its end has made of them.
    left: &'a Mutex<Option<Extensions>>,
    request: Option<Request>,
    replay: HttpReplay,
}

type Sent<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + 'a>>;

impl<'a> Operation for Chain<'a> {
    type Value = Response;
    type Error = Error;
    type Future = Sent<'a>;

    fn start(&mut self, _: Attempt) -> Sent<'a> {
        let copy = self.request.as_ref().and_then(|request| self.replay.copy(request));
        let request = copy.or_else(|| self.request.take());
        // Each attempt starts with the extensions of the first.
        let (next, mut extensions, left) = (self.next.clone(), self.extensions.clone(), self.left);
        Box::pin(async move {
            let Some(request) = request else {
                // What was sent itself is not repeatable, so this is never asked for.
                return std::future::pending().await;
            };
            let sent = next.run(request, &mut extensions).await;
            *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(extensions);
            sent
        })
    }

    fn is_repeatable(&self) -> bool {
        self.request.as_ref().is_some_and(|request| self.replay.is_repeatable(request))
    }
}

#[async_trait::async_trait]
impl<C, H> Middleware for RetryMiddleware<C, H>
where
    C: Classify<Response, Error> + Send + Sync + 'static,
    C::Error: FailedRequest<Answer = Response, Cause: std::error::Error + Send + Sync + 'static> + Send,
    H: Hooks<C::Error> + Send + Sync + 'static,
{
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        self.replay.prepare(&mut request);
        let left = Mutex::new(None);
        let chain = Chain {
            next,
            extensions: extensions.clone(),
            left: &left,
            request: Some(request),
            replay: self.replay,
        };
        let ended = Call::new(&self.retryer, chain).await;
        if let Some(left) = left.into_inner().unwrap_or_else(PoisonError::into_inner) {
            *extensions = left;
        }
        ended.or_else(last_answer).map_err(|error| Error::Middleware(error.into()))
    }
}
