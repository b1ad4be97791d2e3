//! What becomes of a key while its store is away, its service takes long, or its answer does not come to an end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use redrive_core::Timestamp;
use redrive_retry::Clock;
use redrive_retry::http::IdempotencyLayer;
use redrive_retry::idempotency::{Answer, Claim, Claimed, KeyStore, Lease, MemoryStore, StoreError};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer as _, ServiceExt as _};

const LEASE: Duration = Duration::from_mins(1);

/// The time of day goes with the paused time.
#[derive(Debug)]
struct Day(Instant);

impl Clock for Day {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0) + self.0.elapsed()
    }
}

fn layer<K: KeyStore>(store: K) -> IdempotencyLayer<K> {
    IdempotencyLayer::new(store).lease(LEASE).unwrap().clock(Arc::new(Day(Instant::now())))
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/charges").header("idempotency-key", "k").body(Full::from("{}")).unwrap()
}

/// A store that refuses the first few answers.
#[derive(Clone)]
struct Shaky {
    store: MemoryStore,
    refuses: usize,
    asked: Arc<AtomicUsize>,
    kept: Arc<Notify>,
}

impl Shaky {
    fn new(refuses: usize) -> Self {
        Self { store: MemoryStore::default(), refuses, asked: Arc::default(), kept: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl KeyStore for Shaky {
    async fn claim(&self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        self.store.claim(claim).await
    }

    async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        self.store.extend(lease, until).await
    }

    async fn remember(&self, lease: &Lease, answer: Answer, until: Timestamp) -> Result<bool, StoreError> {
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.refuses {
            return Err(StoreError::Unavailable("/srv/keys.db is locked".to_owned()));
        }
        let remembered = self.store.remember(lease, answer, until).await;
        self.kept.notify_one();
        remembered
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.store.release(lease).await
    }
}

/// A service that counts its calls, and answers with what is made of their number.
macro_rules! service {
    ($layer:expr, $calls:expr, $answer:expr) => {{
        let (calls, answer) = (Arc::clone(&$calls), $answer);
        $layer.layer(tower::service_fn(move |_: Request<Full<Bytes>>| {
            let answer = answer(calls.fetch_add(1, Ordering::SeqCst) + 1);
            async move { Ok::<_, Infallible>(Response::new(answer)) }
        }))
    }};
}

async fn text<B: Body<Data = Bytes>>(answer: Response<B>) -> (u16, Bytes) {
    let (head, body) = answer.into_parts();
    let Ok(body) = body.collect().await else { panic!("it broke off") };
    (head.status.as_u16(), body.to_bytes())
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_not_be_kept_at_once_is_kept_a_little_later() {
    let (store, calls) = (Shaky::new(3), Arc::<AtomicUsize>::default());
    let service = service!(layer(store.clone()), calls, |number| Full::from(format!("charge {number}")));
    let first = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(
        (store.asked(), text(first).await),
        (1, (200, Bytes::from("charge 1"))),
        "nobody waited for it"
    );
    assert_eq!(
        service.clone().oneshot(request()).await.unwrap().status(),
        409,
        "the key is claimed meanwhile"
    );
    timeout(LEASE, store.kept.notified()).await.expect("it is tried within the lease");
    sleep(2 * LEASE).await;
    assert_eq!(text(service.oneshot(request()).await.unwrap()).await, (200, Bytes::from("charge 1")));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_kept_holds_its_key_for_the_lease_and_no_longer() {
    let (store, calls) = (Shaky::new(usize::MAX), Arc::<AtomicUsize>::default());
    let service = service!(layer(store.clone()), calls, |number| Full::from(format!("charge {number}")));
    let first = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(text(first).await, (200, Bytes::from("charge 1")));
    sleep(LEASE.saturating_sub(Duration::from_millis(1))).await;
    let again = service.clone().oneshot(request()).await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers().contains_key("retry-after")), (409, true));
    sleep(Duration::from_secs(1)).await;
    let asked = store.asked();
    sleep(100 * LEASE).await;
    assert!((10..100).contains(&asked), "with pauses: {asked}");
    assert_eq!(store.asked(), asked, "the key may be another's by now");
    assert_eq!(text(service.oneshot(request()).await.unwrap()).await, (200, Bytes::from("charge 2")));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_takes_longer_than_its_lease_is_not_run_beside_itself() {
    let (calls, began, finish) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, tells, waits) = (Arc::clone(&calls), Arc::clone(&began), Arc::clone(&finish));
    let service = layer(MemoryStore::default()).layer(tower::service_fn(move |_: Request<Full<Bytes>>| {
        seen.fetch_add(1, Ordering::SeqCst);
        let (tells, waits) = (Arc::clone(&tells), Arc::clone(&waits));
        async move {
            tells.notify_one();
            waits.notified().await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("charged")))
        }
    }));
    let first = tokio::spawn(service.clone().oneshot(request()));
    began.notified().await;
    for _ in 0..10 {
        sleep(LEASE).await;
        assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 409);
    }
    finish.notify_one();
    assert_eq!(text(first.await.unwrap().unwrap()).await, (200, Bytes::from("charged")));
    assert_eq!(text(service.oneshot(request()).await.unwrap()).await, (200, Bytes::from("charged")));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

type Piece = Result<Frame<Bytes>, Infallible>;

#[expect(clippy::unnecessary_wraps, reason = "a stream of a body has results")]
fn piece(text: &'static str) -> Piece {
    Ok(Frame::data(Bytes::from(text)))
}

/// A piece, and then nothing until it is told; it is told of itself when it is dropped.
fn half(told: oneshot::Receiver<()>, dropped: oneshot::Sender<()>) -> impl Stream<Item = Piece> + Unpin {
    let rest = async move {
        let _dropped = dropped;
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
        piece(" an answer")
    };
    futures_util::stream::iter([piece("half")]).chain(futures_util::stream::once(Box::pin(rest)))
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_end_within_the_lease_is_handed_on_and_known_to_be_done() {
    let (calls, (tell, told)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
    let body = std::sync::Mutex::new(Some(half(told, oneshot::channel().0)));
    let answer = Arc::new(move |_| StreamBody::new(body.lock().unwrap().take().expect("it is called once")));
    let service = service!(layer(MemoryStore::default()), calls, Arc::clone(&answer));
    let first = timeout(2 * LEASE, service.clone().oneshot(request())).await;
    let mut body = first.expect("the head is not withheld for ever").unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    tell.send(()).unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), " an answer");
    assert!(body.frame().await.is_none());
    sleep(2 * LEASE).await;
    let again = service.oneshot(request()).await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers().contains_key("retry-after")), (409, false));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_an_end_is_let_go_when_its_client_has_gone() {
    let (calls, (_tell, told), (drops, dropped)) =
        (Arc::new(AtomicUsize::new(0)), oneshot::channel(), oneshot::channel());
    let body = std::sync::Mutex::new(Some(half(told, drops)));
    let answer = Arc::new(move |_| StreamBody::new(body.lock().unwrap().take().expect("it is called once")));
    let service = service!(layer(MemoryStore::default()), calls, Arc::clone(&answer));
    assert!(timeout(LEASE / 2, service.oneshot(request())).await.is_err(), "the client gives up");
    let ended = timeout(2 * LEASE, dropped).await.expect("nobody reads it any more");
    assert!(ended.is_err());
}

#[tokio::test]
async fn pieces_without_anything_in_them_are_not_kept() {
    let calls = Arc::new(AtomicUsize::new(0));
    let service = service!(layer(MemoryStore::default()), calls, |_| {
        let pieces = (0..10_000).map(|_| piece("")).chain([piece("charged")]);
        StreamBody::new(futures_util::stream::iter(pieces))
    });
    let mut body = service.clone().oneshot(request()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "charged");
    assert!(body.frame().await.is_none());
    assert_eq!(text(service.oneshot(request()).await.unwrap()).await, (200, Bytes::from("charged")));
}
