//! The downstream: an HTTP endpoint with a temper, and a book of what it took.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::pace::Pace;
use super::script::RETRY_AFTER;
use super::temper::{Answer, Temper};

/// How long it thinks about a call.
const THINKS: Duration = Duration::from_millis(30);

/// What it has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) all: u64,
    pub(crate) failed: u64,
    pub(crate) while_down: u64,
    /// Different orders that it took.
    pub(crate) orders: u64,
}

#[derive(Debug)]
struct Desk {
    pace: Pace,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    temper: Temper,
    calls: Calls,
    /// How often it took each order.
    taken: HashMap<String, u32>,
}

impl Desk {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running downstream. It ends with this.
#[derive(Debug)]
pub(crate) struct Downstream {
    address: SocketAddr,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

impl Downstream {
    pub(crate) async fn start(pace: Pace) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk { pace, book: Mutex::default() });
        let router = Router::new().route("/orders", post(take)).with_state(Arc::clone(&desk));
        let task = tokio::spawn(async move {
            // It goes on until its task is ended.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, desk, task })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    pub(crate) fn calls(&self) -> Calls {
        self.desk.book().calls
    }

    /// How often it took each order.
    pub(crate) fn taken(&self) -> HashMap<String, u32> {
        self.desk.book().taken.clone()
    }

    /// From now on it understands the new schema.
    pub(crate) fn fix(&self) {
        self.desk.book().temper.fixed = true;
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> Response {
    let at = desk.pace.at();
    let id = headers.get("idempotency-key").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let answer = desk.book().note(at, id, &body);
    if !matches!(answer, Answer::Down | Answer::Limited) {
        tokio::time::sleep(desk.pace.takes(THINKS)).await;
    }
    said(answer)
}

impl Book {
    fn note(&mut self, at: Duration, id: String, body: &[u8]) -> Answer {
        let answer = self.temper.answer(at, body);
        self.calls.all += 1;
        self.calls.failed += u64::from(answer != Answer::Accepted);
        self.calls.while_down += u64::from(answer == Answer::Down);
        if answer == Answer::Accepted {
            *self.taken.entry(id).or_default() += 1;
            self.calls.orders = self.taken.len() as u64;
        }
        answer
    }
}

fn said(answer: Answer) -> Response {
    let with = |name: &'static str, value: &'static str, mut response: Response| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        response
    };
    match answer {
        Answer::Accepted => StatusCode::NO_CONTENT.into_response(),
        Answer::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy, try again").into_response(),
        Answer::Down => (StatusCode::SERVICE_UNAVAILABLE, "down").into_response(),
        Answer::Limited => {
            let mut response = (StatusCode::TOO_MANY_REQUESTS, "too many calls").into_response();
            response.headers_mut().insert("retry-after", HeaderValue::from(RETRY_AFTER.as_secs()));
            response
        }
        Answer::Unreadable => (StatusCode::BAD_REQUEST, "the body is not an order").into_response(),
        Answer::UnknownSchema(schema) => {
            let text = format!("schema version {schema} is not understood");
            let response = (StatusCode::UNPROCESSABLE_ENTITY, text).into_response();
            with("redrive-reason", "UNSUPPORTED_SCHEMA_VERSION", response)
        }
    }
}
