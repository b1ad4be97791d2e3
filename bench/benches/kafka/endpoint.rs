//! What the real binary calls: an endpoint that answers every call with the same status, and knows who called when.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bench::Measured;
use bench::numbered::number_of;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The calls for one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) count: u32,
    pub(crate) last: Instant,
}

/// A server on a thread of its own, which ends with the process.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<HashMap<u64, Calls>>>,
}

impl Endpoint {
    /// One that answers with this status.
    pub(crate) fn start(status: StatusCode) -> Measured<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let endpoint = Self { address: listener.local_addr()?, calls: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = endpoint.clone();
        std::thread::Builder::new().name("endpoint".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serving.accept(listener, status)) {
                eprintln!("the endpoint has ended: {error}");
            }
        })?;
        Ok(endpoint)
    }

    /// The calls so far, by the record's number.
    pub(crate) fn calls(&self) -> MutexGuard<'_, HashMap<u64, Calls>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there has been a call since then.
    pub(crate) async fn called_since(&self, then: Instant) -> Instant {
        loop {
            let first = self.calls().values().map(|calls| calls.last).filter(|last| *last > then).min();
            if let Some(first) = first {
                return first;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn accept(self, listener: std::net::TcpListener, status: StatusCode) -> std::io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let endpoint = self.clone();
            let service = service_fn(move |request| answer(request, endpoint.clone(), status));
            tokio::spawn(async move {
                // A client that was killed has closed its connection.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    endpoint: Endpoint,
    status: StatusCode,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).ok();
    if let Some(number) = number_of(body.as_deref()) {
        let now = Instant::now();
        let mut calls = endpoint.calls();
        let known = calls.entry(number).or_insert(Calls { count: 0, last: now });
        known.count += 1;
        known.last = now;
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}
