//! The server's part of idempotency keys.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use super::held::run;
use super::refused::Refused;
use super::remembered::AnswerBody;
use crate::idempotency::KeyStore;
use crate::tower::take_ready;
use crate::{BuildError, SharedClock};

/// Runs a request with an `Idempotency-Key` once, and answers its repetitions with what was answered first.
///
/// | what comes | answer |
/// |---|---|
/// | the first with its key | that of the service, which is remembered for a day |
/// | a repetition | the remembered answer, with `idempotency-replayed: true` |
/// | a repetition while the first is running | 409 with `Retry-After` |
/// | a repetition of what was done, and whose answer was too large to be kept, took longer than a lease or broke off | 409 without |
/// | a repetition of what was done, while the store refuses to remember it | 409 with `Retry-After`: remembering is tried again until the lease is over, and then the repetition is run |
/// | the same key with another method, path or body | 422 |
/// | a key that is none, or none where one is required | 400 |
/// | a body that is too large to be compared | 413 |
/// | a body that does not come to its end | 400 |
/// | anything, while the store cannot be asked | 503 with `Retry-After` |
///
/// Not remembered are answers of 5xx, 408, 425 and 429, and a 409 with `Retry-After`: they ask for another attempt.
/// Neither is a service that failed or panicked: the next attempt runs it again.
///
/// The key is claimed and the service run in a task of its own, so a client that goes away does not stop it: what it
/// was answered is remembered, and the client's next attempt gets that. The lease is renewed while the service runs and
/// its answer is read. A repetition is run again when the lease is over all the same: the process has ended, or stood
/// still for longer, the store was away for so long, or the time of day, by which leases go, was set forward by more than
/// that. A first call that still runs then notices when it would renew its lease, within a third of it. If a repetition
/// has the key by then, the first is stopped (its future is dropped) and its client asked to come back; if nobody has,
/// it takes the key again.
///
/// The head of an answer is handed on when its body was read to its end, to its limit, or for as long as a lease; a
/// stream that goes on after that goes on to the client, and is not remembered. Answers that are streams for long are
/// better served without a key.
///
/// What waits does so on tokio's timer, which the runtime has to have. With the feature `telemetry`, what a store says
/// when it fails is an event of `tracing`; clients are not told.
///
/// Requests without a key, and those of methods that are [idempotent](super::is_idempotent) by themselves, pass as they
/// are.
///
/// ```
/// use redrive_retry::http::IdempotencyLayer;
/// use redrive_retry::idempotency::MemoryStore;
/// use http_body_util::{BodyExt, Full};
/// use bytes::Bytes;
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let mut orders = 0;
/// let mut service = ServiceBuilder::new()
///     .layer(IdempotencyLayer::new(MemoryStore::default()))
///     .service(tower::service_fn(move |_request: http::Request<Full<Bytes>>| {
///         orders += 1;
///         let answer = http::Response::new(Full::from(format!("order {orders}")));
///         async move { Ok::<_, std::convert::Infallible>(answer) }
///     }));
/// for _ in 0..2 {
///     let request = http::Request::post("/orders").header("idempotency-key", "k-1").body(Full::from("{}"))?;
///     let answer = service.ready().await?.call(request).await?;
///     assert_eq!(answer.into_body().collect().await?.to_bytes(), "order 1");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IdempotencyLayer<K> {
    store: Arc<K>,
    settings: Settings,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) keep: Duration,
    pub(crate) lease: Duration,
    pub(crate) retry_after: Duration,
    request_limit: usize,
    pub(crate) answer_limit: usize,
    pub(crate) required: bool,
    pub(crate) scope: Option<Scope>,
    pub(crate) clock: SharedClock,
}

type Scope = Arc<dyn Fn(&Parts) -> String + Send + Sync>;

/// What the requests of one service have in common.
pub(crate) struct Shared<K> {
    pub(crate) store: Arc<K>,
    pub(crate) settings: Settings,
}

impl<K: KeyStore> IdempotencyLayer<K> {
    /// A layer on this store.
    pub fn new(store: K) -> Self {
        let settings = Settings {
            keep: Duration::from_hours(24),
            lease: Duration::from_mins(1),
            retry_after: Duration::from_secs(1),
            request_limit: 1 << 20,
            answer_limit: 1 << 20,
            required: false,
            scope: None,
            clock: SharedClock::default(),
        };
        Self { store: Arc::new(store), settings }
    }

    /// How long an answer is remembered. Default: a day. Less than a millisecond is refused: each repetition would run
    /// again.
    pub fn keep(mut self, time: Duration) -> Result<Self, BuildError> {
        self.settings.keep = some(time, "keep")?;
        Ok(self)
    }

    /// How long after its last sign a process is taken for dead and a repetition runs the service again. A process
    /// that lives gives a sign each third of it. It should be longer than clocks are ever set by. Also how long an answer's body is read before it is handed on.
    /// Default: a minute. Less than a millisecond is refused.
    pub fn lease(mut self, time: Duration) -> Result<Self, BuildError> {
        self.settings.lease = some(time, "lease")?;
        Ok(self)
    }

    /// When a repetition is asked to come back while the first is running. Default: after a second.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.settings.retry_after = time;
        self
    }

    /// How large a request with a key may be, and how large an answer is remembered. Default: a mebibyte each. The
    /// repetition of a request with a larger answer is told that it was done.
    #[must_use]
    pub fn limits(mut self, request: usize, answer: usize) -> Self {
        (self.settings.request_limit, self.settings.answer_limit) = (request, answer);
        self
    }

    /// Refuses a request without a key whose method is not idempotent by itself, such as POST and PATCH.
    #[must_use]
    pub fn require_key(mut self) -> Self {
        self.settings.required = true;
        self
    }

    /// Keeps the keys of different callers apart, by tenant or user: without it, whoever sends another's key with the same
    /// request gets the other's answer. Must not change between two attempts of one call, as a token does that is
    /// renewed.
    #[must_use]
    pub fn scope(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.settings.scope = Some(Arc::new(scope));
        self
    }

    /// Goes by another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<SharedClock>) -> Self {
        self.settings.clock = clock.into();
        self
    }
}

/// A time that is none is no time. Stores count milliseconds, and to them less than one is none.
fn some(time: Duration, name: &'static str) -> Result<Duration, BuildError> {
    if time.as_millis() == 0 { Err(BuildError::NoTime(name)) } else { Ok(time) }
}

impl<K> Clone for IdempotencyLayer<K> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), settings: self.settings.clone() }
    }
}

impl<K> fmt::Debug for IdempotencyLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").finish_non_exhaustive()
    }
}

impl<S, K> Layer<S> for IdempotencyLayer<K> {
    type Service = Idempotent<S, K>;

    fn layer(&self, service: S) -> Idempotent<S, K> {
        let shared = Shared { store: Arc::clone(&self.store), settings: self.settings.clone() };
        Idempotent { service, shared: Arc::new(shared) }
    }
}

/// A service that runs each key once; see [`IdempotencyLayer`].
pub struct Idempotent<S, K> {
    service: S,
    shared: Arc<Shared<K>>,
}

impl<S: Clone, K> Clone for Idempotent<S, K> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, K> fmt::Debug for Idempotent<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent").finish_non_exhaustive()
    }
}

impl<S, K, B, A> Service<Request<B>> for Idempotent<S, K>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    K: KeyStore,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    A: Body<Data = Bytes> + Unpin + Send + 'static,
    A::Error: Send,
{
    type Response = Response<AnswerBody<A>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut service = take_ready(&mut self.service);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let key = match shared.key(&parts) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    let answer = service.call(Request::from_parts(parts, body)).await?;
                    return Ok(answer.map(AnswerBody::untouched));
                }
                Err(refused) => return Ok(refused.answer()),
            };
            let limit = shared.settings.request_limit;
            let body = match Limited::new(body, limit).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) if error.is::<LengthLimitError>() => return Ok(Refused::TooLarge(limit).answer()),
                Err(error) => return Ok(Refused::BrokenOff(error.to_string()).answer()),
            };
            run(shared, key, service, parts, body).await
        })
    }
}
