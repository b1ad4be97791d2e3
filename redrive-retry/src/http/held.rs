//! The right to run a request, from its claim until its answer is remembered.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts as Head;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use super::answer::is_not_yet;
use super::claim::First;
use super::idempotency::Shared;
use super::keeping::{Keeping, answer, store_failed};
use super::refused::Refused;
use super::remembered::{AnswerBody, Read, read, remembered};
use crate::CallBudget;
use crate::idempotency::{KeyStore, Lease};

/// The right to run a request, and to say what came of it.
pub(crate) struct Held<K: KeyStore> {
    shared: Arc<Shared<K>>,
    lease: Option<Lease>,
    /// By which the key can be claimed again, should the store have dropped the lease.
    fingerprint: [u8; 32],
    /// Since when the lease runs.
    since: Instant,
}

/// Another runs the request by now, or has.
struct Lost;

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
        let running = service.call(Request::from_parts(head, B::from(body)));
        match held.renewed(running).await {
            Ok(Ok(answer)) => Ok(held.answered(answer).await),
            Ok(Err(error)) => {
                held.let_go().await;
                Err(error)
            }
            // What the other answers is what is remembered, so that is what this client should get too.
            Err(Lost) => Ok(Refused::Running(shared.settings.retry_after).answer()),
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
    /// A lease that was asked for then.
    pub(crate) fn new(shared: Arc<Shared<K>>, lease: Lease, fingerprint: [u8; 32], since: Instant) -> Self {
        Self { shared, lease: Some(lease), fingerprint, since }
    }

    /// Does the work and renews the lease meanwhile: it is there for a process that has died, and this one has not. Whoever
    /// has lost it stops.
    async fn renewed<T>(&mut self, work: impl Future<Output = T> + Send) -> Result<T, Lost> {
        let (mut work, mut renewals) = (pin!(work), pin!(self.renew()));
        let mut has_waited = false;
        std::future::poll_fn(|cx| {
            // First, because work that is never out of something to do would leave the timer no turn.
            if has_waited && let Poll::Ready(lost) = renewals.as_mut().poll(cx) {
                return Poll::Ready(Err(lost));
            }
            let polled = work.as_mut().poll(cx);
            // Most work ends before it waits, and needs no timer.
            if polled.is_pending() && !has_waited {
                has_waited = true;
                if let Poll::Ready(lost) = renewals.as_mut().poll(cx) {
                    return Poll::Ready(Err(lost));
                }
            }
            polled.map(Ok)
        })
        .await
    }

    /// Renews the lease each time a third of it is over, so that a store may be away for a moment. Ends when it is lost.
    async fn renew(&mut self) -> Lost {
        let Shared { store, settings } = &*self.shared;
        let third = settings.lease / 3;
        let mut pause = third.saturating_sub(self.since.elapsed());
        while let Some(lease) = self.lease.clone() {
            tokio::time::sleep(pause).await;
            pause = third;
            let since = Instant::now();
            match store.extend(&lease, settings.clock.wall() + settings.lease).await {
                Ok(true) => self.since = since,
                Ok(false) => match self.shared.claim_again(&lease, self.fingerprint, None).await {
                    Ok(Some(again)) => (self.lease, self.since) = (Some(again), since),
                    Ok(None) => self.lease = None,
                    Err(error) => store_failed("claim", &error),
                },
                Err(error) => store_failed("extend", &error),
            }
        }
        Lost
    }

    /// Remembers what was answered, or lets the key go.
    async fn answered<A>(&mut self, response: Response<A>) -> Response<AnswerBody<A>>
    where
        A: Body<Data = Bytes> + Unpin + Send,
        A::Error: Send,
    {
        let (parts, body) = response.into_parts();
        if !is_remembered(parts.status, &parts.headers) {
            self.let_go().await;
            return Response::from_parts(parts, AnswerBody::untouched(body));
        }
        let mut reading = pin!(read(body, self.shared.settings.answer_limit, self.shared.settings.lease));
        let whole_or_part = match self.renewed(reading.as_mut()).await {
            Ok(read) => read,
            // It is done, so its client gets its answer whatever another does.
            Err(Lost) => reading.await,
        };
        let (kept, body) = match whole_or_part {
            Read::Whole(bytes, body) => (Some(bytes), body),
            // The head says that it was done, and doing it once more would not mend the body.
            Read::Part(body) => (None, body),
        };
        if let Some(lease) = self.lease.take() {
            let until = self.shared.settings.clock.wall() + self.shared.settings.keep;
            let (shared, answer) = (Arc::clone(&self.shared), answer(&parts, kept));
            let (fingerprint, since) = (self.fingerprint, self.since);
            Keeping { shared, lease, fingerprint, since, answer, until }.keep().await;
        }
        Response::from_parts(parts, body)
    }

    async fn let_go(&mut self) {
        if let Some(lease) = self.lease.take() {
            // At the worst a repetition waits for the lease to be over.
            let released = self.shared.store.release(&lease).await;
            let _ = released.inspect_err(|error| store_failed("release", error));
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
fn is_remembered(status: StatusCode, headers: &HeaderMap) -> bool {
    let asks_again = matches!(status.as_u16(), 408 | 425 | 429) || is_not_yet(status, headers);
    !status.is_server_error() && !asks_again
}
