//! A real HTTP server that answers by a script and keeps what it was sent.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use redrive_core::classify::{Classification, Classifier, Seen, Subject};
use redrive_core::{Failure, Headers, History, Message, Timestamp};
use redrive_engine::handler::http::{HttpHandler, HttpOptions};
use redrive_engine::handler::{Attempted, Context, Handler};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Wed, 01 Jul 2026 09:00:00 GMT
pub const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

pub type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;
type Script = Arc<dyn Fn(&Received) -> Response<AnswerBody> + Send + Sync>;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub struct Endpoint {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Endpoint {
    pub async fn start(script: impl Fn(&Received) -> Response<AnswerBody> + Send + Sync + 'static) -> Self {
        Self::start_with(None, script).await
    }

    /// Answers every request with this status and these headers.
    pub async fn answering(status: u16, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self::start(move |_| answer(status, headers, "")).await
    }

    pub async fn start_with(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Received) -> Response<AnswerBody> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            received: Arc::default(),
        };
        let (connections, received) = (Arc::clone(&endpoint.connections), Arc::clone(&endpoint.received));
        let script: Script = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (tls, script, received) = (tls.clone(), Arc::clone(&script), Arc::clone(&received));
                tokio::spawn(async move {
                    let service =
                        service_fn(move |request| serve(request, Arc::clone(&script), Arc::clone(&received)));
                    let builder = Builder::new(TokioExecutor::new());
                    match tls {
                        None => _ = builder.serve_connection(TokioIo::new(stream), service).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                _ = builder.serve_connection(TokioIo::new(stream), service).await;
                            }
                        }
                    }
                });
            }
        });
        endpoint
    }

    pub fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    pub fn handler(&self) -> HttpHandler {
        HttpHandler::new(&self.url(), HttpOptions::default()).unwrap()
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub fn only(&self) -> Received {
        let received = self.received();
        assert_eq!(received.len(), 1);
        received[0].clone()
    }
}

async fn serve(
    request: Request<Incoming>,
    script: Script,
    received: Arc<Mutex<Vec<Received>>>,
) -> Result<Response<AnswerBody>, hyper::Error> {
    let (head, body) = request.into_parts();
    let seen = Received {
        method: head.method,
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        version: head.version,
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    };
    let response = script(&seen);
    received.lock().unwrap().push(seen);
    Ok(response)
}

pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(body.into()).boxed_unsync()).unwrap()
}

/// A body that begins and never ends.
pub struct Endless(pub Option<Bytes>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(begin) => Poll::Ready(Some(Ok(Frame::data(begin)))),
            None => Poll::Pending,
        }
    }
}

pub fn message(body: &str) -> Message {
    Message { id: "o-1".into(), body: Some(body.to_owned().into()), ..Message::default() }
}

pub fn with_headers(headers: &[(&str, &[u8])]) -> Message {
    let mut all = Headers::new();
    for (name, value) in headers {
        all.push(*name, value.to_vec());
    }
    Message { headers: all, ..message("{}") }
}

pub fn context() -> Context {
    Context::detached("orders", 1, Duration::from_secs(30), NOW)
}

pub async fn call(handler: &dyn Handler, message: &Message) -> Attempted {
    handler.call(message, context()).await
}

pub fn failure(attempted: Attempted) -> Failure {
    *attempted.result.expect_err("a failure")
}

pub fn classify(failure: &Failure) -> Classification {
    let seen = Seen { subject: &Subject::default(), history: &History::first(), failure };
    Classifier::default().classify(&seen)
}
