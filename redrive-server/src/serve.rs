//! Connections: accepted, bounded in number, served, and ended in order.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::access::Peer;
use crate::socket::SocketPath;

/// How long the head of a request may take, and how long an idle connection is kept.
const HEAD: Duration = Duration::from_secs(30);
/// How long to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Something that connections come from.
pub(crate) trait Door: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, remote) = self.accept().await?;
        // An answer is written whole; waiting for more would only delay it.
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        Ok((stream, Peer::Network { local, remote }))
    }
}

impl Door for (UnixListener, SocketPath) {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        Ok((self.0.accept().await?.0, Peer::Local))
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) router: Router,
    /// Room for connections.
    pub(crate) room: Arc<Semaphore>,
    /// Takes no more requests.
    pub(crate) stop: CancellationToken,
    /// Cuts those that run.
    pub(crate) cut: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Server {
    /// Accepts until it is stopped.
    pub(crate) async fn accept(self, door: impl Door) {
        while let Some(accepted) = self.stop.run_until_cancelled(self.one(&door)).await {
            if let Err(error) = accepted {
                tracing::warn!(%error, "a connection could not be accepted");
                self.stop.run_until_cancelled(tokio::time::sleep(NO_ROOM)).await;
            }
        }
    }

    async fn one(&self, door: &impl Door) -> io::Result<()> {
        let Ok(room) = self.room.clone().acquire_owned().await else { return Ok(()) };
        let (stream, peer) = door.next().await?;
        let server = self.clone();
        self.tasks.spawn(async move {
            server.serve(stream, peer).await;
            drop(room);
        });
        Ok(())
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let router = self.router;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let served = async {
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = self.stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        if let Some(Err(error)) = self.cut.run_until_cancelled(served).await {
            tracing::debug!(%error, "a connection broke off");
        }
    }
}
