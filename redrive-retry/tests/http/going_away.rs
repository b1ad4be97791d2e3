//! What becomes of a key when the client, the service or the process does not see the end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use redrive_core::Timestamp;
use redrive_retry::CallBudget;
use redrive_retry::http::{AnswerBody, IdempotencyLayer};
use redrive_retry::idempotency::{Answer, Claim, Claimed, KeyStore, Lease, MemoryStore, StoreError};
use tokio::sync::Notify;
use tower::{Layer as _, Service, ServiceExt as _};

/// A till that charges when it is told to, and counts how often it did.
#[derive(Clone, Default)]
struct Till {
    charged: Arc<AtomicUsize>,
    began: Arc<Notify>,
    finish: Arc<Notify>,
}

impl Till {
    async fn charge(self) -> Result<Response<Full<Bytes>>, Infallible> {
        let number = self.charged.fetch_add(1, Ordering::SeqCst) + 1;
        self.began.notify_one();
        self.finish.notified().await;
        Ok(Response::new(Full::from(format!("charge {number}"))))
    }

    fn behind<K: KeyStore>(
        &self,
        layer: &IdempotencyLayer<K>,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<AnswerBody<Full<Bytes>>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + use<K> {
        let till = self.clone();
        layer.layer(tower::service_fn(move |_: Request<Full<Bytes>>| till.clone().charge()))
    }
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/charges").header("idempotency-key", "k").body(Full::from("{}")).unwrap()
}

/// Comes back for as long as the first is running.
async fn repeated<S, E: std::fmt::Debug>(service: &S) -> (u16, Bytes)
where
    S: Service<Request<Full<Bytes>>, Response = Response<AnswerBody<Full<Bytes>>>, Error = E> + Clone,
{
    loop {
        let (head, body) = service.clone().oneshot(request()).await.unwrap().into_parts();
        if head.status != 409 {
            return (head.status.as_u16(), body.collect().await.unwrap().to_bytes());
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_make_it_run_twice() {
    let till = Till::default();
    let service = till.behind(&IdempotencyLayer::new(MemoryStore::default()));
    let mut first = Box::pin(service.clone().oneshot(request()));
    tokio::select! {
        _ = &mut first => panic!("it cannot end yet"),
        () = till.began.notified() => {}
    }
    drop(first);
    // For whoever runs now, the first or a second.
    till.finish.notify_one();
    assert_eq!(repeated(&service).await, (200, Bytes::from("charge 1")));
    assert_eq!(till.charged.load(Ordering::SeqCst), 1);
}

/// A store that has claimed the key when it suspends, as one does that writes on a thread of its own.
#[derive(Clone, Default)]
struct Far {
    store: MemoryStore,
    claimed: Arc<Notify>,
    tell: Arc<Notify>,
}

impl KeyStore for Far {
    async fn claim(&self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        let claimed = self.store.claim(claim).await;
        if matches!(claimed, Ok(Claimed::First(_))) {
            self.claimed.notify_one();
            self.tell.notified().await;
        }
        claimed
    }

    async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        self.store.extend(lease, until).await
    }

    async fn remember(&self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        self.store.remember(lease, answer, until).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.store.release(lease).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_during_the_claim_does_not_lock_its_key() {
    let (till, store) = (Till::default(), Far::default());
    let service = till.behind(&IdempotencyLayer::new(store.clone()));
    let mut first = Box::pin(service.clone().oneshot(request()));
    tokio::select! {
        _ = &mut first => panic!("it cannot end yet"),
        () = store.claimed.notified() => {}
    }
    drop(first);
    store.tell.notify_one();
    // The time passes only when nobody has anything left to do.
    let began = tokio::time::timeout(Duration::from_secs(1), till.began.notified()).await;
    assert!(began.is_ok(), "the key is claimed, and nobody does the work");
    till.finish.notify_one();
    assert_eq!(repeated(&service).await, (200, Bytes::from("charge 1")));
    assert_eq!(till.charged.load(Ordering::SeqCst), 1);
}

#[test]
fn a_process_that_ends_leaves_its_key_taken_until_the_lease_is_over() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (till, store) = (Till::default(), MemoryStore::default());
    let layer = IdempotencyLayer::new(store.clone());
    let dies = runtime();
    dies.block_on(async {
        tokio::spawn(till.behind(&layer).oneshot(request()));
        till.began.notified().await;
    });
    drop(dies);
    let again = runtime().block_on(till.behind(&layer).oneshot(request())).unwrap();
    assert_eq!((again.status().as_u16(), till.charged.load(Ordering::SeqCst)), (409, 1));
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn a_service_that_panics_or_fails_leaves_its_key_free() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let number = seen.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            match number {
                1 => panic!("the till is broken"),
                2 => Err("the till is closed"),
                _ => Ok(Response::new(Full::from("charged"))),
            }
        }
    });
    let service = IdempotencyLayer::new(MemoryStore::default()).layer(service);
    let panicked = tokio::spawn(service.clone().oneshot(request())).await.unwrap_err();
    assert!(panicked.is_panic(), "it is handed on");
    let failed = loop {
        match service.clone().oneshot(request()).await {
            Ok(answer) => assert_eq!(answer.status(), 409, "the key is being freed"),
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(failed, "the till is closed");
    let done = service.oneshot(request()).await.unwrap();
    assert_eq!((done.status().as_u16(), calls.load(Ordering::SeqCst)), (200, 3));
}

#[tokio::test]
async fn the_budget_of_the_caller_goes_along() {
    let service = tower::service_fn(|_: Request<Full<Bytes>>| async {
        let charged = CallBudget::current().is_some_and(|budget| budget.try_take());
        Ok::<_, Infallible>(Response::new(Full::from(format!("charged: {charged}"))))
    });
    let service = IdempotencyLayer::new(MemoryStore::default()).layer(service);
    let budget = CallBudget::new(Some(1), None);
    let answer = budget.scope(service.oneshot(request())).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "charged: true");
    assert_eq!(budget.used(), 1);
}
