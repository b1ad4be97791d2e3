//! The server's part of idempotency keys, behind a real socket and in front of real clients.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use redrive_core::Timestamp;
use redrive_retry::http::IdempotencyLayer;
use redrive_retry::idempotency::{
    Answer, Claim, Claimed, KeyStore, Lease, MemoryLimits, MemoryStore, StoreError,
};
use redrive_retry::{BuildError, Clock};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::clients::{ALL, Came, Client, hyper, post, quick};

/// A shop that takes orders, one answer for each that it has really taken.
#[derive(Clone)]
struct Shop {
    orders: Arc<AtomicUsize>,
    status: Arc<dyn Fn(usize) -> u16 + Send + Sync>,
    /// An order is finished when there is a permit for it.
    finish: Arc<Semaphore>,
    began: Arc<Notify>,
    size: usize,
}

impl Shop {
    fn new(status: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Self {
        Self {
            orders: Arc::default(),
            status: Arc::new(status),
            finish: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            began: Arc::default(),
            size: 0,
        }
    }

    fn taken(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    async fn take(self, request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
        let number = self.orders.fetch_add(1, Ordering::SeqCst) + 1;
        let body = request.into_body().collect().await?.to_bytes();
        self.began.notify_one();
        self.finish.acquire().await.expect("it is open").forget();
        let text = format!("order {number}: {}", String::from_utf8_lossy(&body));
        let text = format!("{text}{}", "x".repeat(self.size));
        let answer = Response::builder().status((self.status)(number)).header("x-order", number.to_string());
        Ok(answer.header("set-cookie", "a=1").header("set-cookie", "b=2").body(Full::from(text)).unwrap())
    }

    /// Serves the shop behind the layer.
    async fn open<K: KeyStore>(&self, layer: IdempotencyLayer<K>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shop = self.clone();
        let service = layer.layer(tower::service_fn(move |request| shop.clone().take(request)));
        let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
            let mut service = service.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = Full::from(body.collect().await.unwrap().to_bytes());
                service.ready().await.unwrap().call(Request::from_parts(head, body)).await
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        address
    }
}

async fn order(address: SocketAddr, key: &str, body: &'static str) -> Response<Bytes> {
    let mut request = post(&format!("http://{address}/orders"), body);
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    sent(request).await
}

async fn sent(request: Request<Full<Bytes>>) -> Response<Bytes> {
    let (head, body) = hyper().request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn text(answer: &Response<Bytes>) -> (u16, String) {
    (answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned())
}

#[tokio::test]
async fn a_repetition_gets_the_first_answer_whole() {
    let shop = Shop::new(|_| 201);
    let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
    let first = order(address, "k", "a book").await;
    assert_eq!(text(&first), (201, "order 1: a book".to_owned()));
    assert!(!first.headers().contains_key("idempotency-replayed"));
    for _ in 0..3 {
        let again = order(address, "k", "a book").await;
        assert_eq!(text(&again), text(&first));
        assert_eq!(again.headers()["x-order"], "1");
        assert_eq!(again.headers().get_all("set-cookie").iter().count(), 2);
        assert_eq!(again.headers()["idempotency-replayed"], "true");
    }
    assert_eq!(text(&order(address, "l", "a book").await), (201, "order 2: a book".to_owned()));
    assert_eq!(shop.taken(), 2);
}

#[tokio::test]
async fn the_same_key_for_something_else_is_refused() {
    let shop = Shop::new(|_| 200);
    let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
    order(address, "k", "a book").await;
    let other = order(address, "k", "two books").await;
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(text(&other).1.contains("was used for another request"));
    let mut elsewhere = post(&format!("http://{address}/returns"), "a book");
    elsewhere.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    assert_eq!(sent(elsewhere).await.status(), 422, "another path is another request");
    for (method, path) in [("PATCH", "orders"), ("POST", "orders?gift=1")] {
        let otherwise = Request::builder().method(method).uri(format!("http://{address}/{path}"));
        let otherwise = otherwise.header("idempotency-key", "k").body(Full::from("a book")).unwrap();
        assert_eq!(sent(otherwise).await.status(), 422, "{method} {path} is another request");
    }
    assert_eq!(shop.taken(), 1);
    assert_eq!(text(&order(address, "k", "a book").await), (200, "order 1: a book".to_owned()));
}

#[tokio::test]
async fn while_the_first_is_running_a_repetition_is_asked_to_come_back() {
    let shop = Shop { finish: Arc::new(Semaphore::new(0)), ..Shop::new(|_| 200) };
    let layer = IdempotencyLayer::new(MemoryStore::default()).retry_after(Duration::from_millis(1_500));
    let address = shop.open(layer).await;
    let first = tokio::spawn(order(address, "k", "a book"));
    shop.began.notified().await;
    let again = order(address, "k", "a book").await;
    assert_eq!((again.status().as_u16(), &again.headers()["retry-after"]), (409, &"2".parse().unwrap()));
    assert_eq!(order(address, "k", "two books").await.status(), 422);
    shop.finish.add_permits(10);
    assert_eq!(text(&first.await.unwrap()).0, 200);
    assert_eq!(text(&order(address, "k", "a book").await), (200, "order 1: a book".to_owned()));
    assert_eq!(shop.taken(), 1);
}

/// A store that says when a repetition came while the first was running.
#[derive(Clone, Default)]
struct Watched {
    store: MemoryStore,
    repeated: Arc<Notify>,
}

impl KeyStore for Watched {
    async fn claim(&self, claim: Claim<'_>) -> Result<Claimed, StoreError> {
        let claimed = self.store.claim(claim).await;
        if matches!(claimed, Ok(Claimed::Running)) {
            self.repeated.notify_one();
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

#[tokio::test]
async fn our_own_clients_come_back_and_get_the_first_answer() {
    for client in ALL {
        let shop = Shop { finish: Arc::new(Semaphore::new(0)), ..Shop::new(|_| 200) };
        let store = Watched::default();
        let address = shop.open(IdempotencyLayer::new(store.clone())).await;
        let first = tokio::spawn(order(address, "k", "a book"));
        shop.began.notified().await;
        let mut repeated = post(&format!("http://{address}/orders"), "a book");
        repeated.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        let retries = client.send(repeated, quick().attempts(1_000), false);
        let finish = async {
            // The client has been told to come back, and has done so.
            for _ in 0..2 {
                store.repeated.notified().await;
            }
            shop.finish.add_permits(1);
        };
        let (came, ()) = tokio::join!(retries, finish);
        let expected = Came::Answer { status: 200, body: "order 1: a book".to_owned(), gave_up: None };
        assert_eq!((came, shop.taken()), (expected, 1), "{client:?}");
        first.await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_asks_for_another_attempt_is_not_remembered() {
    for bad in [500, 503, 408, 425, 429] {
        let shop = Shop::new(move |number| if number < 3 { bad } else { 200 });
        let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
        let came = Client::Reqwest.send(post(&format!("http://{address}/"), "a book"), quick(), true).await;
        let expected = Came::Answer { status: 200, body: "order 3: a book".to_owned(), gave_up: None };
        assert_eq!((came, shop.taken()), (expected, 3), "{bad}");
    }
    // A refusal is an answer, and so is a conflict that does not say when to come back.
    for bad in [404, 409] {
        let shop = Shop::new(move |_| bad);
        let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
        for _ in 0..2 {
            assert_eq!(text(&order(address, "k", "a book").await), (bad, "order 1: a book".to_owned()));
        }
    }
}

#[tokio::test]
async fn a_conflict_that_says_when_to_come_back_is_not_remembered() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let is_first = seen.fetch_add(1, Ordering::SeqCst) == 0;
        let answer = Response::builder().status(if is_first { 409 } else { 200 }).header("retry-after", "1");
        async move { Ok::<_, Infallible>(answer.body(Full::<Bytes>::default()).unwrap()) }
    });
    let service = IdempotencyLayer::new(MemoryStore::default()).layer(service);
    let request = || Request::post("/").header("idempotency-key", "k").body(Full::from("{}")).unwrap();
    for (expected, replayed) in [(409, false), (200, false), (200, true)] {
        let answer = service.clone().oneshot(request()).await.unwrap();
        let is_replayed = answer.headers().contains_key("idempotency-replayed");
        assert_eq!((answer.status().as_u16(), is_replayed), (expected, replayed));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_has_no_key_passes_and_bad_keys_do_not() {
    let shop = Shop::new(|_| 200);
    let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
    let url = format!("http://{address}/orders");
    for _ in 0..2 {
        assert_eq!(sent(post(&url, "a book")).await.status(), 200);
        let get = Request::get(&url).header("idempotency-key", "k").body(Full::default()).unwrap();
        assert_eq!(sent(get).await.status(), 200, "a GET may be repeated anyway");
    }
    assert_eq!(shop.taken(), 4);
    let long = "k".repeat(256);
    for key in ["with space", "", &long] {
        let request = Request::post(&url).header("idempotency-key", key).body(Full::default()).unwrap();
        assert_eq!(sent(request).await.status(), 400, "{key:?}");
    }
    let twice = Request::post(&url).header("idempotency-key", "a").header("idempotency-key", "b");
    assert_eq!(sent(twice.body(Full::default()).unwrap()).await.status(), 400);
    let strict = shop.open(IdempotencyLayer::new(MemoryStore::default()).require_key()).await;
    let missing = sent(post(&format!("http://{strict}/"), "a book")).await;
    assert_eq!(missing.status(), 400);
    assert!(text(&missing).1.contains("needs an Idempotency-Key header"));
}

#[tokio::test]
async fn every_method_that_a_client_repeats_with_a_key_is_run_once() {
    let shop = Shop::new(|_| 200);
    let address = shop.open(IdempotencyLayer::new(MemoryStore::default())).await;
    let strict = shop.open(IdempotencyLayer::new(MemoryStore::default()).require_key()).await;
    for (number, method) in ["POST", "PATCH", "LOCK", "X-CHARGE"].into_iter().enumerate() {
        let request =
            |address: SocketAddr| Request::builder().method(method).uri(format!("http://{address}/"));
        for _ in 0..2 {
            let keyed = request(address).header("idempotency-key", method).body(Full::from("{}")).unwrap();
            let expected = (200, format!("order {}: {{}}", number + 1));
            assert_eq!(text(&sent(keyed).await), expected, "{method}");
        }
        let missing = sent(request(strict).body(Full::from("{}")).unwrap()).await;
        assert_eq!((missing.status().as_u16(), shop.taken()), (400, number + 1), "{method}");
    }
    let put = Request::put(format!("http://{strict}/")).body(Full::from("{}")).unwrap();
    assert_eq!(sent(put).await.status(), 200, "it may be repeated without a key");
}

#[tokio::test]
async fn what_is_too_large_is_refused_or_not_kept() {
    let shop = Shop { size: 2_000, ..Shop::new(|_| 200) };
    let address = shop.open(IdempotencyLayer::new(MemoryStore::default()).limits(10, 1_000)).await;
    assert_eq!(order(address, "k", "more than ten bytes").await.status(), 413);
    let first = order(address, "k", "a book").await;
    assert_eq!((first.status().as_u16(), first.body().len()), (200, 2_015), "the answer itself is whole");
    let again = order(address, "k", "a book").await;
    assert_eq!(again.status(), 409);
    assert!(!again.headers().contains_key("retry-after"), "coming back would not help");
    assert_eq!(shop.taken(), 1);
}

#[tokio::test]
async fn what_the_store_has_no_room_for_is_still_known_to_be_done() {
    let shop = Shop { size: 2_000, ..Shop::new(|_| 200) };
    let store = MemoryStore::new(MemoryLimits { bytes: 1_000, ..MemoryLimits::default() });
    let clock = Arc::new(Wall::default());
    let address = shop.open(IdempotencyLayer::new(store).clock(Arc::clone(&clock))).await;
    assert_eq!(order(address, "k", "a book").await.status(), 200);
    for at in [0, 3_600_000] {
        clock.0.store(at, Ordering::SeqCst);
        let again = order(address, "k", "a book").await;
        assert_eq!((again.status().as_u16(), shop.taken()), (409, 1), "after {at} ms");
    }
}

#[tokio::test]
async fn a_setting_holds_for_a_layer_that_was_cloned() {
    let shop = Shop::new(|_| 200);
    let layer = IdempotencyLayer::new(MemoryStore::default());
    let (lax, strict) = (layer.clone(), layer.require_key());
    let lax = shop.open(lax).await;
    let strict = shop.open(strict).await;
    assert_eq!(sent(post(&format!("http://{lax}/"), "a book")).await.status(), 200);
    assert_eq!(sent(post(&format!("http://{strict}/"), "a book")).await.status(), 400);
}

#[test]
fn no_time_at_all_is_refused() {
    let layer = || IdempotencyLayer::new(MemoryStore::default());
    for none in [Duration::ZERO, Duration::from_micros(999)] {
        assert_eq!(layer().keep(none).unwrap_err(), BuildError::NoTime("keep"));
        assert_eq!(layer().lease(none).unwrap_err(), BuildError::NoTime("lease"));
    }
    assert!(layer().keep(Duration::from_millis(1)).is_ok());
}

#[tokio::test]
async fn tenants_have_keys_of_their_own() {
    let shop = Shop::new(|_| 200);
    let layer = IdempotencyLayer::new(MemoryStore::default()).scope(|head| {
        head.headers.get("tenant").map_or_else(String::new, |it| it.to_str().unwrap().to_owned())
    });
    let address = shop.open(layer).await;
    for (tenant, expected) in [("a", "order 1: {}"), ("b", "order 2: {}"), ("a", "order 1: {}")] {
        let request = Request::post(format!("http://{address}/"))
            .header("tenant", tenant)
            .header("idempotency-key", "k")
            .body(Full::from("{}"))
            .unwrap();
        assert_eq!(text(&sent(request).await).1, expected);
    }
}

/// A clock whose time of day a test sets.
#[derive(Debug, Default)]
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn an_answer_is_remembered_for_its_time() {
    let shop = Shop::new(|_| 200);
    let clock = Arc::new(Wall::default());
    let layer = IdempotencyLayer::new(MemoryStore::default()).keep(Duration::from_mins(1)).unwrap();
    let address = shop.open(layer.clock(Arc::clone(&clock))).await;
    for (at, taken) in [(0, 1), (59_999, 1), (60_000, 2), (60_001, 2)] {
        clock.0.store(at, Ordering::SeqCst);
        order(address, "k", "a book").await;
        assert_eq!(shop.taken(), taken, "after {at} ms");
    }
}

/// A store that cannot be reached.
#[derive(Clone, Copy)]
struct Gone;

impl KeyStore for Gone {
    async fn claim(&self, _: Claim<'_>) -> Result<Claimed, StoreError> {
        Err(StoreError::Unavailable("the disk is gone".to_owned()))
    }

    async fn extend(&self, _: &Lease, _: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn remember(&self, _: &Lease, _: Answer, _: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn release(&self, _: &Lease) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn without_its_store_nothing_is_run() {
    let shop = Shop::new(|_| 200);
    let address = shop.open(IdempotencyLayer::new(Gone)).await;
    let refused = order(address, "k", "a book").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    assert_eq!(
        text(&refused).1,
        "whether this Idempotency-Key was used cannot be told now; repeat the request later",
        "what the store said is nothing for a client"
    );
    assert_eq!(shop.taken(), 0);
    let never = shop.open(IdempotencyLayer::new(Gone).retry_after(Duration::MAX)).await;
    let refused = order(never, "k", "a book").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &u64::MAX.into()));
    let full = MemoryStore::new(MemoryLimits { keys: 1, ..MemoryLimits::default() });
    let address = shop.open(IdempotencyLayer::new(full)).await;
    assert_eq!(order(address, "k", "a book").await.status(), 200);
    assert_eq!(order(address, "l", "a book").await.status(), 503, "nothing is forgotten before its time");
    assert_eq!(shop.taken(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_handed_on_and_known_to_be_done() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
        seen.fetch_add(1, Ordering::SeqCst);
        let pieces = [Ok(http_body::Frame::data(Bytes::from("half"))), Err("the disk is gone")];
        let body = StreamBody::new(futures_util::stream::iter(pieces));
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let mut service = IdempotencyLayer::new(MemoryStore::default()).layer(service);
    let request = || Request::post("/").header("idempotency-key", "k").body(Full::from("{}")).unwrap();
    let mut body = service.ready().await.unwrap().call(request()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "the disk is gone");
    let again = service.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!((again.status().as_u16(), calls.load(Ordering::SeqCst)), (409, 1));
    assert!(!again.headers().contains_key("retry-after"), "coming back would not help");
}
