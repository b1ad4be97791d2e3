//! The endpoint that both sides of the HTTP figure call: it reads the body and answers 200.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::Measured;
use crate::load::Progress;

/// A server on a thread of its own, which ends with the process.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    progress: Arc<Mutex<Arc<Progress>>>,
}

impl Server {
    pub(crate) fn start() -> Measured<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let server = Self { address: listener.local_addr()?, progress: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = server.clone();
        std::thread::Builder::new().name("endpoint".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serving.accept(listener)) {
                eprintln!("the endpoint has ended: {error}");
            }
        })?;
        Ok(server)
    }

    /// Counts the calls of connections that are opened from now on.
    pub(crate) fn count(&self) -> Arc<Progress> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        *progress = Arc::default();
        progress.clone()
    }

    async fn accept(self, listener: std::net::TcpListener) -> std::io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let service = service_fn(move |request| answer(request, progress.clone()));
            tokio::spawn(async move {
                // A client that closes its connection has had what it wanted.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    progress: Arc<Progress>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    // A body that breaks off is the client's matter: its connection ends.
    let _ = request.into_body().collect().await;
    progress.one();
    Ok(Response::new(Empty::new()))
}
