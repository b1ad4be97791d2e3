//! The right to run a request, from its claim until its answer is remembered.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts as Head;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;

use super::claim::First;
use super::idempotency::Shared;
use super::remembered::{AnswerBody, Read, read, remembered};
use crate::CallBudget;
use crate::idempotency::{Answer, KeyStore, Lease, StoreError};

/// The right to run a request, and to say what came of it.
pub(crate) struct Held<K: KeyStore> {
    shared: Arc<Shared<K>>,
    lease: Option<Lease>,
}

/// Claims the key, calls the service and remembers its answer, in a task of its own: a client that goes away drops the
/// future that waits here, and must neither leave a key claimed for nothing, nor stop the work halfway, nor let a
/// repetition do it once more.
pub(crate) async fn run<S, K, B, A>(
    shared: Arc<Shared<K>>,
    key: String,
    mut service: S,
    head: Head,
    body: Bytes,
) -> Result<Response<AnswerBody<A>>, S::Error>
where
    S: Service<Request<B>, Response = Response<A>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    K: KeyStore,
    B: From<Bytes> + Send + 'static,
    A: Body<Data = Bytes> + Unpin + Send + 'static,
    A::Error: Send,
{
    let work = async move {
        let mut held = match Shared::claim(&shared, &key, &head, &body).await {
            Ok(First::Lease(held)) => held,
            Ok(First::Answer(answer)) => return Ok(remembered(answer)),
            Err(refused) => return Ok(refused.answer()),
        };
        match service.call(Request::from_parts(head, B::from(body))).await {
            Ok(answer) => Ok(held.answered(answer).await),
            Err(error) => {
                held.let_go().await;
                Err(error)
            }
        }
    };
    match tokio::spawn(CallBudget::carry(work)).await {
        Ok(ended) => ended,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}

impl<K: KeyStore> Held<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>, lease: Lease) -> Self {
        Self { shared, lease: Some(lease) }
    }

    /// Remembers what was answered, or lets the key go.
    async fn answered<A>(&mut self, answer: Response<A>) -> Response<AnswerBody<A>>
    where
        A: Body<Data = Bytes> + Unpin,
    {
        let (parts, body) = answer.into_parts();
        if !is_remembered(parts.status) {
            self.let_go().await;
            return Response::from_parts(parts, AnswerBody::untouched(body));
        }
        let (kept, body) = match read(body, self.shared.settings.answer_limit).await {
            Read::Whole(bytes, body) => (Some(bytes), body),
            // The head says that it was done, and doing it once more would not mend the body.
            Read::Part(body) => (None, body),
        };
        self.remember(&parts, kept).await;
        Response::from_parts(parts, body)
    }

    /// The request was done and is answered, whatever becomes of this. What could not be remembered at all stays
    /// claimed until its lease is over.
    async fn remember(&mut self, parts: &Parts, body: Option<Bytes>) {
        let Some(lease) = self.lease.take() else { return };
        let Shared { store, settings } = &*self.shared;
        let status = parts.status.as_u16();
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        let answer = Answer { status, headers: parts.headers.iter().map(header).collect(), body };
        let until = settings.clock.wall() + settings.keep;
        if let Err(StoreError::Full(_)) = store.remember(&lease, answer, until).await {
            // That it was done takes less room than what was answered.
            let done = Answer { status, headers: Vec::new(), body: None };
            let _ = store.remember(&lease, done, until).await;
        }
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
        // Cut off in the middle, as when the process ends: nobody knows what was done, so the lease has to end first.
        if !std::thread::panicking() {
            return;
        }
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
