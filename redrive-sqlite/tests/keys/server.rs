//! The server's layer on a file: what was answered is answered again by the next process.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use redrive_retry::http::IdempotencyLayer;
use redrive_sqlite::IdempotencyStore;
use tower::{ServiceBuilder, ServiceExt as _};

/// The answer of a server that has just been started on this file.
async fn answered(file: &Path, orders: &Arc<AtomicUsize>, body: &'static str) -> (u16, bool, Bytes) {
    let taken = Arc::clone(orders);
    let server = ServiceBuilder::new()
        .layer(IdempotencyLayer::new(IdempotencyStore::open(file).unwrap()).scope(|_| "shop".to_owned()))
        .service_fn(move |_: Request<Full<Bytes>>| {
            let number = taken.fetch_add(1, Ordering::SeqCst) + 1;
            let answer = Response::builder().status(201).header("x-order", number.to_string());
            async move { Ok::<_, Infallible>(answer.body(Full::from(format!("order {number}"))).unwrap()) }
        });
    let request = Request::post("/orders").header("idempotency-key", "k").body(Full::from(body)).unwrap();
    let (head, body) = server.oneshot(request).await.unwrap().into_parts();
    let replayed = head.headers.contains_key("idempotency-replayed");
    (head.status.as_u16(), replayed, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn a_server_answers_from_the_file_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (file, orders) = (folder.path().join("keys.db"), Arc::<AtomicUsize>::default());
    assert_eq!(answered(&file, &orders, "a book").await, (201, false, Bytes::from("order 1")));
    assert_eq!(answered(&file, &orders, "a book").await, (201, true, Bytes::from("order 1")));
    assert_eq!(answered(&file, &orders, "two books").await.0, 422);
    assert_eq!(orders.load(Ordering::SeqCst), 1);
}
