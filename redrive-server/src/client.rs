//! How the command line calls the API: over the socket of the running instance, or in its own process.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tower::ServiceExt as _;

use crate::access::Peer;
use crate::codes::{self, Code};
use crate::socket::{self, SocketPath};

/// The largest answer that is read.
const MOST_ANSWERED: usize = 256 * 1024 * 1024;
/// A check of a large ledger takes its time.
const LONGEST_CALL: Duration = Duration::from_secs(600);

/// A way to call the API without a token.
#[derive(Debug, Clone)]
pub struct Client {
    way: Way,
}

#[derive(Debug, Clone)]
enum Way {
    Socket(PathBuf),
    InProcess(Router),
}

/// A call that brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket is there and cannot be reached: another user's, or the instance ended meanwhile.
    #[error("{}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke off, or the answer is too large.
    #[error("the call broke off: {0}")]
    BrokenOff(String),
    /// Nothing came.
    #[error("no answer within {} s", .0.as_secs())]
    TooSlow(Duration),
}

impl ClientError {
    /// The code of its page.
    pub const fn code(&self) -> Code {
        codes::NO_ANSWER
    }
}

impl Client {
    /// The instance that runs on a data folder; nothing when none does.
    pub async fn connect(folder: &Path) -> Result<Option<Self>, ClientError> {
        match open(folder).await {
            Ok(_) => Ok(Some(Self { way: Way::Socket(folder.to_owned()) })),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
                _ => Err(unreachable(folder, error)),
            },
        }
    }

    /// The API in this process.
    pub fn in_process(router: Router) -> Self {
        Self { way: Way::InProcess(router) }
    }

    /// Whether it reaches a running instance.
    pub fn is_remote(&self) -> bool {
        matches!(self.way, Way::Socket(_))
    }

    /// One call: the request's address is a path such as `/v1/messages?state=dead`.
    pub async fn call(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        let call = async {
            match &self.way {
                Way::Socket(folder) => over_socket(folder, request).await,
                Way::InProcess(router) => in_process(router.clone(), request).await,
            }
        };
        tokio::time::timeout(LONGEST_CALL, call).await.unwrap_or(Err(ClientError::TooSlow(LONGEST_CALL)))
    }
}

async fn open(folder: &Path) -> io::Result<UnixStream> {
    let path = SocketPath::of_folder(folder)?;
    UnixStream::connect(path.as_path()).await
}

fn unreachable(folder: &Path, source: io::Error) -> ClientError {
    ClientError::Unreachable { path: folder.join(socket::NAME), source }
}

fn broken(error: impl std::fmt::Display) -> ClientError {
    ClientError::BrokenOff(error.to_string())
}

async fn over_socket(folder: &Path, mut request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
    let stream = open(folder).await.map_err(|error| unreachable(folder, error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    let exchange = async {
        let response = sender.send_request(request.map(Full::new)).await.map_err(broken)?;
        whole(response).await
    };
    let mut connection = std::pin::pin!(connection);
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = exchange.as_mut() => answer,
        ended = connection.as_mut() => {
            // The last of an answer may stand in the buffer when the other side has already closed.
            let answer = exchange.await;
            match (answer, ended) {
                (Err(_), Err(error)) => Err(broken(error)),
                (answer, _) => answer,
            }
        }
    }
}

async fn in_process(router: Router, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
    let mut request = request.map(Body::from);
    request.extensions_mut().insert(Peer::Local);
    let answered: Result<_, Infallible> = router.oneshot(request).await;
    match answered {
        Ok(response) => whole(response).await,
        Err(never) => match never {},
    }
}

async fn whole<B>(response: Response<B>) -> Result<Response<Bytes>, ClientError>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = response.into_parts();
    let bytes = Limited::new(body, MOST_ANSWERED).collect().await.map_err(broken)?.to_bytes();
    Ok(Response::from_parts(parts, bytes))
}
