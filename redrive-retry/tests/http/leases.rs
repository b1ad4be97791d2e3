//! Leases go by the time of day. What becomes of them when that is set, or when a process stood still.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use redrive_core::Timestamp;
use redrive_retry::Clock;
use redrive_retry::http::{AnswerBody, IdempotencyLayer};
use redrive_retry::idempotency::{Answer, Claim, Claimed, KeyStore, Lease, MemoryStore, StoreError};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer as _, Service, ServiceExt as _};

const LEASE: Duration = Duration::from_mins(1);
const HOUR: i64 = 3_600_000;

/// The time of day goes with the paused time, until it is set.
#[derive(Debug)]
struct Day {
    since: Instant,
    set: AtomicI64,
}

impl Day {
    fn new() -> Arc<Self> {
        Arc::new(Self { since: Instant::now(), set: AtomicI64::new(24 * HOUR) })
    }

    fn set(&self, millis: i64) {
        self.set.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Day {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.set.load(Ordering::SeqCst)) + self.since.elapsed()
    }
}

/// A till that charges when it may, and tells when each charge begins and when one is dropped halfway.
#[derive(Clone)]
struct Till {
    charges: Arc<AtomicUsize>,
    may: Arc<Semaphore>,
    tells: mpsc::UnboundedSender<Told>,
}

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Begins(usize),
    Dropped(usize),
}

struct Charge(usize, mpsc::UnboundedSender<Told>);

impl Drop for Charge {
    fn drop(&mut self) {
        let _ = self.1.send(Told::Dropped(self.0));
    }
}

impl Till {
    fn new() -> (Self, mpsc::UnboundedReceiver<Told>) {
        let (tells, told) = mpsc::unbounded_channel();
        (Self { charges: Arc::default(), may: Arc::new(Semaphore::new(0)), tells }, told)
    }

    async fn charge(self) -> Result<Response<Full<Bytes>>, Infallible> {
        let number = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        let halfway = Charge(number, self.tells.clone());
        self.tells.send(Told::Begins(number)).unwrap();
        self.may.acquire().await.unwrap().forget();
        std::mem::forget(halfway);
        Ok(Response::new(Full::from(format!("charge {number}"))))
    }

    fn behind(
        &self,
        clock: &Arc<Day>,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<AnswerBody<Full<Bytes>>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + use<> {
        self.behind_store(clock, MemoryStore::default())
    }

    fn behind_store<K: KeyStore>(
        &self,
        clock: &Arc<Day>,
        store: K,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = Response<AnswerBody<Full<Bytes>>>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + use<K> {
        let till = self.clone();
        let layer = IdempotencyLayer::new(store).lease(LEASE).unwrap();
        layer
            .clock(Arc::clone(clock))
            .layer(tower::service_fn(move |_: Request<Full<Bytes>>| till.clone().charge()))
    }
}

fn request(key: &str) -> Request<Full<Bytes>> {
    Request::post("/charges").header("idempotency-key", key).body(Full::from("{}")).unwrap()
}

async fn text(answer: Response<AnswerBody<Full<Bytes>>>) -> (u16, Bytes) {
    let (head, body) = answer.into_parts();
    (head.status.as_u16(), body.collect().await.unwrap().to_bytes())
}

/// Whatever is awaited here comes within a few leases, or never.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(10 * LEASE, future).await.expect("it does not come to its end")
}

/// A clock that is set forward ends every lease at once, and a request for something else sweeps them out. Where nobody
/// has asked for the key itself, its first call takes it again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_a_clock_has_ended_is_taken_again_when_nobody_else_has_it() {
    let (clock, (till, mut told)) = (Day::new(), Till::new());
    let service = till.behind(&clock);
    let first = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
    clock.set(HOUR);
    let other = tokio::spawn(service.clone().oneshot(request("l")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(2)));
    for _ in 0..5 {
        sleep(LEASE).await;
        let again = soon(service.clone().oneshot(request("k"))).await.unwrap();
        assert_eq!((again.status().as_u16(), again.headers().contains_key("retry-after")), (409, true));
    }
    till.may.add_permits(2);
    assert_eq!(text(soon(first).await.unwrap().unwrap()).await, (200, Bytes::from("charge 1")));
    assert_eq!(
        text(soon(service.oneshot(request("k"))).await.unwrap()).await,
        (200, Bytes::from("charge 1"))
    );
    soon(other).await.unwrap().unwrap();
    assert_eq!(till.charges.load(Ordering::SeqCst), 2);
}

/// The same when the first comes to its end before it would have renewed its lease.
#[tokio::test(start_paused = true)]
async fn an_answer_whose_lease_a_clock_has_ended_is_remembered_all_the_same() {
    let (clock, (till, mut told)) = (Day::new(), Till::new());
    let service = till.behind(&clock);
    let first = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
    clock.set(HOUR);
    let other = tokio::spawn(service.clone().oneshot(request("l")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(2)));
    till.may.add_permits(2);
    assert_eq!(text(soon(first).await.unwrap().unwrap()).await, (200, Bytes::from("charge 1")));
    soon(other).await.unwrap().unwrap();
    assert_eq!(
        text(soon(service.oneshot(request("k"))).await.unwrap()).await,
        (200, Bytes::from("charge 1"))
    );
    assert_eq!(till.charges.load(Ordering::SeqCst), 2);
}

/// A store whose word on one of its claims, or of what it is to remember, is lost on its way, after it was carried out.
#[derive(Clone, Default)]
struct Mute {
    store: MemoryStore,
    claims: Arc<AtomicUsize>,
    /// The number of the claim, from 1.
    lost_claim: usize,
    remembered: Arc<AtomicUsize>,
    lost_answer: usize,
}

/// What is heard, where the one that is counted now may be the one that is lost.
fn heard<T>(carried_out: Result<T, StoreError>, counted: &AtomicUsize, lost: usize) -> Result<T, StoreError> {
    if counted.fetch_add(1, Ordering::SeqCst) + 1 == lost {
        return Err(StoreError::Unavailable("the connection broke".to_owned()));
    }
    carried_out
}

impl KeyStore for Mute {
    async fn claim(&self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        heard(self.store.claim(claim).await, &self.claims, self.lost_claim)
    }

    async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        self.store.extend(lease, until).await
    }

    async fn remember(&self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        heard(self.store.remember(lease, answer, until).await, &self.remembered, self.lost_answer)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.store.release(lease).await
    }
}

/// A claim that was made anew and whose answer nobody heard is the first call's own, and not another's.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_again_unheard_is_its_own() {
    for ends_at_once in [true, false] {
        let (clock, (till, mut told)) = (Day::new(), Till::new());
        let store = Mute { lost_claim: 3, ..Mute::default() };
        let service = till.behind_store(&clock, store.clone());
        let first = tokio::spawn(service.clone().oneshot(request("k")));
        assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
        clock.set(HOUR);
        let other = tokio::spawn(service.clone().oneshot(request("l")));
        assert_eq!(soon(told.recv()).await, Some(Told::Begins(2)));
        if ends_at_once {
            // What is claimed unheard is the claim of the answer.
            till.may.add_permits(2);
        }
        for _ in 0..3 {
            sleep(LEASE).await;
        }
        if !ends_at_once {
            till.may.add_permits(2);
        }
        assert_eq!(text(soon(first).await.unwrap().unwrap()).await, (200, Bytes::from("charge 1")));
        soon(other).await.unwrap().unwrap();
        assert_eq!(
            text(soon(service.oneshot(request("k"))).await.unwrap()).await,
            (200, Bytes::from("charge 1")),
            "{ends_at_once}"
        );
        assert_eq!(till.charges.load(Ordering::SeqCst), 2, "{ends_at_once}");
        assert!(store.claims.load(Ordering::SeqCst) > 3);
    }
}

/// A repetition that comes in between runs. The first notices when it would renew its lease, and stops.
#[tokio::test(start_paused = true)]
async fn a_first_call_whose_lease_another_has_taken_is_stopped() {
    let (clock, (till, mut told)) = (Day::new(), Till::new());
    let service = till.behind(&clock);
    let first = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
    clock.set(HOUR);
    let second = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(2)));
    let stopped = soon(first).await.unwrap().unwrap();
    assert_eq!((stopped.status().as_u16(), stopped.headers().contains_key("retry-after")), (409, true));
    assert_eq!(soon(told.recv()).await, Some(Told::Dropped(1)));
    till.may.add_permits(1);
    for answer in [soon(second).await.unwrap().unwrap(), soon(service.oneshot(request("k"))).await.unwrap()] {
        assert_eq!(text(answer).await, (200, Bytes::from("charge 2")));
    }
}

/// A first call that has its answer hands it on, and does not overwrite the one that is remembered.
#[tokio::test(start_paused = true)]
async fn a_first_call_that_ends_after_another_has_taken_its_lease_changes_nothing() {
    let (clock, (till, mut told)) = (Day::new(), Till::new());
    let service = till.behind(&clock);
    let first = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
    clock.set(HOUR);
    let second = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(2)));
    till.may.add_permits(2);
    assert_eq!(text(soon(first).await.unwrap().unwrap()).await, (200, Bytes::from("charge 1")));
    assert_eq!(text(soon(second).await.unwrap().unwrap()).await, (200, Bytes::from("charge 2")));
    assert_eq!(
        text(soon(service.oneshot(request("k"))).await.unwrap()).await,
        (200, Bytes::from("charge 2"))
    );
}

/// A clock that is set back makes leases and answers last for longer.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_ends_nothing() {
    let (clock, (till, mut told)) = (Day::new(), Till::new());
    let service = till.behind(&clock);
    let first = tokio::spawn(service.clone().oneshot(request("k")));
    assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
    clock.set(-HOUR);
    for _ in 0..5 {
        sleep(LEASE).await;
        assert_eq!(soon(service.clone().oneshot(request("k"))).await.unwrap().status(), 409);
    }
    till.may.add_permits(1);
    assert_eq!(text(soon(first).await.unwrap().unwrap()).await, (200, Bytes::from("charge 1")));
    clock.set(-HOUR);
    assert_eq!(
        text(soon(service.oneshot(request("k"))).await.unwrap()).await,
        (200, Bytes::from("charge 1"))
    );
}

/// What operators are told of a lease that was lost.
#[cfg(feature = "telemetry")]
mod told {
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Visit for Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    impl tracing::Subscriber for Lines {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("redrive_retry")
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn event(&self, event: &tracing::Event<'_>) {
            event.record(&mut self.clone());
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    const LOST: &str = "the lease of an idempotency key was lost: its request is run by another";

    #[tokio::test(start_paused = true)]
    async fn that_another_runs_it() {
        let lines = Lines::default();
        let _listening = tracing::subscriber::set_default(lines.clone());
        let (clock, (till, mut told)) = (Day::new(), Till::new());
        let service = till.behind(&clock);
        let first = tokio::spawn(service.clone().oneshot(request("k")));
        assert_eq!(soon(told.recv()).await, Some(Told::Begins(1)));
        clock.set(HOUR);
        let _second = tokio::spawn(service.oneshot(request("k")));
        assert_eq!(soon(first).await.unwrap().unwrap().status(), 409);
        assert_eq!(*lines.0.lock().unwrap(), [LOST]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_where_its_own_answer_is_remembered() {
        let (lines, store) = (Lines::default(), Mute { lost_answer: 1, ..Mute::default() });
        let _listening = tracing::subscriber::set_default(lines.clone());
        let service =
            IdempotencyLayer::new(store.clone()).layer(tower::service_fn(|_: Request<Full<Bytes>>| async {
                Ok::<_, Infallible>(Response::new(Full::from("charged")))
            }));
        for _ in 0..2 {
            assert_eq!(text(soon(service.clone().oneshot(request("k"))).await.unwrap()).await.1, "charged");
            sleep(LEASE).await;
        }
        assert_eq!(store.remembered.load(Ordering::SeqCst), 2, "it was tried again");
        assert_eq!(*lines.0.lock().unwrap(), ["the store of idempotency keys does not answer"]);
    }
}
