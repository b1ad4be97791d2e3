//! The server's part of idempotency keys.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use sha2::{Digest as _, Sha256};
use tower_layer::Layer;
use tower_service::Service;

use super::remembered::{AnswerBody, Read, read};
use super::request::IDEMPOTENCY_KEY;
use crate::SharedClock;
use crate::idempotency::{Answer, Claim, Claimed, IdempotencyKey, KeyStore, Lease, StoreError};
use crate::tower::take_ready;

/// Runs a request with an `Idempotency-Key` once, and answers its repetitions with what was answered first.
///
/// | what comes | answer |
/// |---|---|
/// | the first with its key | that of the service, which is remembered for a day |
/// | a repetition | the remembered answer, with `idempotency-replayed: true` |
/// | a repetition while the first is running | 409 with `Retry-After` |
/// | the same key with another method, path or body | 422 |
/// | a key that is none, or none where one is required | 400 |
/// | a body that is too large to be compared | 413 |
/// | anything, while the store cannot be asked | 503 with `Retry-After` |
///
/// Not remembered are answers of 5xx, and 408, 425 and 429: they ask for another attempt. A service that was cut off,
/// because its client went away or its process ended, is not remembered either; the next attempt runs it again, at
/// once or when the lease is over.
///
/// Requests without a key, and those of methods that are idempotent by themselves, pass as they are.
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
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    store: K,
    keep: Duration,
    lease: Duration,
    retry_after: Duration,
    request_limit: usize,
    answer_limit: usize,
    required: bool,
    scope: Option<Scope>,
    clock: SharedClock,
}

type Scope = Box<dyn Fn(&Parts) -> String + Send + Sync>;

/// On an answer that was remembered.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

impl<K: KeyStore> IdempotencyLayer<K> {
    /// A layer on this store.
    pub fn new(store: K) -> Self {
        let shared = Shared {
            store,
            keep: Duration::from_hours(24),
            lease: Duration::from_mins(1),
            retry_after: Duration::from_secs(1),
            request_limit: 1 << 20,
            answer_limit: 1 << 20,
            required: false,
            scope: None,
            clock: SharedClock::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    fn with(mut self, change: impl FnOnce(&mut Shared<K>)) -> Self {
        // While it is being built nobody else has it.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(shared);
        }
        self
    }

    /// How long an answer is remembered. Default: a day.
    #[must_use]
    pub fn keep(self, time: Duration) -> Self {
        self.with(|shared| shared.keep = time)
    }

    /// How long a service may run before its process is taken for dead and a repetition runs it again. It has to be
    /// longer than the service's own timeout. Default: a minute.
    #[must_use]
    pub fn lease(self, time: Duration) -> Self {
        self.with(|shared| shared.lease = time)
    }

    /// When a repetition is asked to come back while the first is running. Default: after a second.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        self.with(|shared| shared.retry_after = time)
    }

    /// How large a request with a key may be, and how large an answer is remembered. Default: a mebibyte each. The
    /// repetition of a request with a larger answer is told that it was done.
    #[must_use]
    pub fn limits(self, request: usize, answer: usize) -> Self {
        self.with(|shared| (shared.request_limit, shared.answer_limit) = (request, answer))
    }

    /// Refuses a POST or PATCH without a key.
    #[must_use]
    pub fn require_key(self) -> Self {
        self.with(|shared| shared.required = true)
    }

    /// Keeps the keys of different callers apart, by tenant or user. Must not change between two attempts of one
    /// call, as a token does that is renewed.
    #[must_use]
    pub fn scope(self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.scope = Some(Box::new(scope)))
    }

    /// Goes by another clock.
    #[must_use]
    pub fn clock(self, clock: impl Into<SharedClock>) -> Self {
        self.with(|shared| shared.clock = clock.into())
    }
}

impl<K> Clone for IdempotencyLayer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
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
        Idempotent { service, shared: Arc::clone(&self.shared) }
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
    A: Body<Data = Bytes> + Unpin + Send,
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
            let Ok(body) = Limited::new(body, shared.request_limit).collect().await else {
                return Ok(Refused::TooLarge(shared.request_limit).answer());
            };
            let body = body.to_bytes();
            let lease = match Shared::claim(&shared, &key, &parts, &body).await {
                Ok(First::Lease(lease)) => lease,
                Ok(First::Answer(answer)) => return Ok(remembered(answer)),
                Err(refused) => return Ok(refused.answer()),
            };
            let answer = service.call(Request::from_parts(parts, B::from(body))).await?;
            lease.answered(answer).await
        })
    }
}

/// A request that is answered without asking the service.
enum Refused {
    NoKey,
    BadKey(String),
    TooLarge(usize),
    Running(Duration),
    Other,
    NotKept,
    Store(StoreError, Duration),
}

impl Refused {
    fn answer<A: Body>(&self) -> Response<AnswerBody<A>> {
        let (status, retry_after, text) = match self {
            Self::NoKey => (
                StatusCode::BAD_REQUEST,
                None,
                "this request needs an Idempotency-Key header: a text of your own that stays the same when the request is repeated".to_owned(),
            ),
            Self::BadKey(why) => (StatusCode::BAD_REQUEST, None, why.clone()),
            Self::TooLarge(limit) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                None,
                format!("a request with an Idempotency-Key is at most {limit} bytes long"),
            ),
            Self::Running(after) => (
                StatusCode::CONFLICT,
                Some(*after),
                "the first request with this Idempotency-Key is still running; repeat it later".to_owned(),
            ),
            Self::Other => (
                StatusCode::UNPROCESSABLE_ENTITY,
                None,
                "this Idempotency-Key was used for another request; a request of its own needs a key of its own".to_owned(),
            ),
            Self::NotKept => (
                StatusCode::CONFLICT,
                None,
                "the request with this Idempotency-Key was done, and its answer was too large to be kept".to_owned(),
            ),
            Self::Store(error, after) => (StatusCode::SERVICE_UNAVAILABLE, Some(*after), error.to_string()),
        };
        let mut answer = Response::new(AnswerBody::whole(Bytes::from(text)));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(after) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
        }
        answer
    }
}

/// Seconds as the header has them, at least 1: less would say to come back at once.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// What a claim leads to.
enum First<K: KeyStore> {
    Lease(Held<K>),
    Answer(Answer),
}

impl<K: KeyStore> Shared<K> {
    /// The key by which the request is known, with its scope; nothing when it passes as it is.
    fn key(&self, parts: &Parts) -> Result<Option<String>, Refused> {
        if ![Method::POST, Method::PATCH].contains(&parts.method) {
            return Ok(None);
        }
        let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let key = match (keys.next(), keys.next()) {
            (None, _) if self.required => return Err(Refused::NoKey),
            (None, _) => return Ok(None),
            (Some(key), None) => key,
            _ => return Err(Refused::BadKey("this request has more than one Idempotency-Key".to_owned())),
        };
        let key = key.to_str().map_err(|_| Refused::BadKey("the Idempotency-Key is no text".to_owned()))?;
        let key: IdempotencyKey = key.parse().map_err(|error| Refused::BadKey(format!("{error}")))?;
        Ok(Some(match &self.scope {
            // A space cannot stand in a key, so no scope and key make another's.
            Some(scope) => format!("{} {key}", scope(parts)),
            None => key.to_string(),
        }))
    }

    async fn claim(shared: &Arc<Self>, key: &str, parts: &Parts, body: &[u8]) -> Result<First<K>, Refused> {
        let claim = Claim {
            key,
            fingerprint: fingerprint(parts, body),
            now: shared.clock.wall(),
            lease: shared.lease,
        };
        match shared.store.claim(claim).await {
            Ok(Claimed::First(lease)) => {
                Ok(First::Lease(Held { shared: Arc::clone(shared), lease: Some(lease) }))
            }
            Ok(Claimed::Done(answer)) if answer.body.is_none() => Err(Refused::NotKept),
            Ok(Claimed::Done(answer)) => Ok(First::Answer(answer)),
            Ok(Claimed::Running) => Err(Refused::Running(shared.retry_after)),
            Ok(Claimed::Other) => Err(Refused::Other),
            // Without the store nobody knows whether this is the first, so it is not run.
            Err(error) => Err(Refused::Store(error, shared.retry_after)),
        }
    }
}

/// What tells one request from another.
fn fingerprint(parts: &Parts, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    for part in [parts.method.as_str().as_bytes(), path.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(body);
    hash.finalize().into()
}

/// The right to run a request. Dropped, because nobody waits for it any more, the key is free again.
struct Held<K: KeyStore> {
    shared: Arc<Shared<K>>,
    lease: Option<Lease>,
}

impl<K: KeyStore> Held<K> {
    /// Remembers what was answered, or lets the key go.
    async fn answered<A, E>(mut self, answer: Response<A>) -> Result<Response<AnswerBody<A>>, E>
    where
        A: Body<Data = Bytes> + Unpin,
    {
        let (parts, body) = answer.into_parts();
        if !is_remembered(parts.status) {
            self.let_go().await;
            return Ok(Response::from_parts(parts, AnswerBody::untouched(body)));
        }
        let (kept, body) = match read(body, self.shared.answer_limit).await {
            Read::Whole(bytes, body) => (Some(bytes), body),
            Read::TooLarge(body) => (None, body),
            Read::Failed(body) => {
                self.let_go().await;
                return Ok(Response::from_parts(parts, body));
            }
        };
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes())))
            .collect();
        let answer = Answer { status: parts.status.as_u16(), headers, body: kept };
        if let Some(lease) = self.lease.take() {
            let until = self.shared.clock.wall() + self.shared.keep;
            // The request was done and is answered either way. What could not be remembered stays claimed until its
            // lease is over.
            let _ = self.shared.store.remember(&lease, answer, until).await;
        }
        Ok(Response::from_parts(parts, body))
    }

    async fn let_go(&mut self) {
        if let Some(lease) = self.lease.take() {
            // At the worst it waits for the lease to be over.
            let _ = self.shared.store.release(&lease).await;
        }
    }
}

impl<K: KeyStore> Drop for Held<K> {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let shared = Arc::clone(&self.shared);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { shared.store.release(&lease).await });
        }
    }
}

/// Whether a repetition gets this answer too. One that asks for another attempt does not stand for good.
fn is_remembered(status: StatusCode) -> bool {
    !status.is_server_error() && !matches!(status.as_u16(), 408 | 425 | 429)
}

fn remembered<A: Body>(answer: Answer) -> Response<AnswerBody<A>> {
    let mut response = Response::new(AnswerBody::whole(answer.body.unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_maybe_shared(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
