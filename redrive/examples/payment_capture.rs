//! A payment is captured once, though the payment service answers too late to be heard.
//!
//! The worst failure of a call is the one after which nobody knows whether it worked. Here the service captures the
//! money and then takes longer to answer than the caller waits. The attempt is given up, classified as a timeout and
//! made again, and what keeps the customer from paying twice is the idempotency key alone: Redrive gives a message the
//! same one at every attempt and every replay, and the service answers a key that it knows with what it did the first
//! time.
//!
//! The second half leaves the key out, to show what it is for: every attempt takes the money again, until the attempts
//! are spent.
//!
//! ```sh
//! cargo run -p redrive --example payment_capture
//! ```

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use redrive::{Context, Flow, Message, NewMessage};
use tokio::net::TcpListener;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let with_key = run(&folder.path().join("with-key.db"), true).await?;
    println!("with the key:    {} calls, {} captured", with_key.calls, with_key.captures);
    let without = run(&folder.path().join("without-key.db"), false).await?;
    println!("without the key: {} calls, {} captured", without.calls, without.captures);
    Ok(())
}

/// What the payment service did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Calls that reached it.
    pub calls: usize,
    /// How often it took the money.
    pub captures: usize,
}

/// Captures the payment of one order.
pub async fn run(data: &Path, with_key: bool) -> Result<Done, BoxError> {
    let service = PaymentService::start().await?;
    let address = service.address;
    let instance = Flow::from("queue:payments")
        .data(data)
        .timeout(Duration::from_millis(500))
        .retry("20ms x3")
        .handle(move |message: Message, cx: Context| async move {
            let key =
                if with_key { cx.idempotency_key.to_string() } else { format!("attempt-{}", cx.attempt) };
            capture(address, &key, message.body.unwrap_or_default()).await
        })
        .start()
        .await?;
    let order = r#"{ "order": 1001, "cents": 4990 }"#;
    let message =
        NewMessage { id: Some("order-1001".into()), body: Some(order.into()), ..NewMessage::default() };
    instance.publish("payments", message).await?;
    instance.idle(Duration::from_millis(100)).await;
    instance.stop(std::future::pending()).await;
    Ok(service.done())
}

/// The call, as any client makes it: the key travels in the header that payment services agree on.
async fn capture(service: SocketAddr, key: &str, order: Bytes) -> Result<(), BoxError> {
    let request = Request::post(format!("http://{service}/captures"))
        .header("idempotency-key", key)
        .body(Full::new(order))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("the payment service answered {}", answer.status()).into())
}

/// A payment service that takes the money first and answers late: a key that it has not seen is captured, and the
/// answer never comes; one that it knows is answered at once.
struct PaymentService {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    captured: HashSet<String>,
    done: Done,
}

impl PaymentService {
    async fn start() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, book) = (listener.local_addr()?, Arc::new(Mutex::new(Book::default())));
        let shared = Arc::clone(&book);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let book = Arc::clone(&shared);
                let serve = service_fn(move |request| answer(Arc::clone(&book), request));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), serve));
            }
        });
        Ok(Self { address, book })
    }

    fn done(&self) -> Done {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).done
    }
}

async fn answer(
    book: Arc<Mutex<Book>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let is_new = {
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        book.done.calls += 1;
        let is_new = book.captured.insert(key.to_owned());
        book.done.captures += usize::from(is_new);
        is_new
    };
    if is_new {
        // The money is taken, and the caller will not hear of it.
        std::future::pending::<()>().await;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"captured"))))
}
