//! The listener: TCP for programs and the console, a socket in the data folder for the command line.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::codes::{self, Code};
use crate::serve::Server;
use crate::socket::{self, SocketPath};
use crate::token::write_private;

/// Where to listen.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// The data folder: `cli.sock` and `address` are put there. It is made when it is not there, and only its owner
    /// can enter it.
    pub folder: PathBuf,
    /// The TCP address; port 0 picks one, nothing listens on the socket alone.
    pub listen: Option<SocketAddr>,
    /// Listens without TLS on an address that others can reach.
    pub insecure: bool,
    /// The most connections over TCP, and again over the socket.
    pub connections: usize,
}

impl ListenOptions {
    /// The defaults: `127.0.0.1:7337`, 256 connections.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 7337))),
            insecure: false,
            connections: 256,
        }
    }
}

/// Why the listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Others could read the token as it passes by.
    #[error(
        "{0} can be reached by others, and TLS is not available; listen on 127.0.0.1 behind a proxy that has it, or say `--insecure`"
    )]
    Open(SocketAddr),
    /// Somebody else listens there.
    #[error("{address} is taken; `lsof -i :{port}` or `ss -ltnp` says by whom; pick another with `--listen {ip}:0`", port = address.port(), ip = address.ip())]
    Taken {
        /// Where.
        address: SocketAddr,
    },
    /// Another instance answers on the socket.
    #[error("another instance answers on {}", .0.display())]
    SocketTaken(PathBuf),
    /// Something that is no socket is in the way.
    #[error("{} is not a socket, and is not removed", .0.display())]
    NotASocket(PathBuf),
    /// The operating system refused.
    #[error("cannot listen on {place}: {source}")]
    System {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// The code of its page.
    pub const fn code(&self) -> Code {
        match self {
            Self::Open(_) => codes::OPEN_ADDRESS,
            Self::Taken { .. } => codes::PORT_TAKEN,
            Self::SocketTaken(_) => codes::SOCKET_TAKEN,
            Self::NotASocket(_) | Self::System { .. } => codes::CANNOT_LISTEN,
        }
    }
}

fn at(place: impl AsRef<Path>) -> impl FnOnce(io::Error) -> ListenError {
    let place = place.as_ref().display().to_string();
    move |source| ListenError::System { place, source }
}

/// Starts listeners.
#[derive(Debug)]
pub struct Listener;

impl Listener {
    /// Binds everything or nothing, and serves until it is stopped.
    pub async fn start(options: ListenOptions, router: Router) -> Result<Running, ListenError> {
        let folder = private_folder(&options.folder)?;
        let tcp = match options.listen {
            Some(address) => Some(bind(address, options.insecure).await?),
            None => None,
        };
        let path = SocketPath::of_folder(&folder).map_err(at(&folder))?;
        clear_stale(&path, &folder).await?;
        let unix = UnixListener::bind(path.as_path()).map_err(at(folder.join(socket::NAME)))?;

        let address = match &tcp {
            Some(listener) => Some(listener.local_addr().map_err(at("the listener"))?),
            None => None,
        };
        let running = Running {
            address,
            folder: folder.clone(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let file = folder.join("address");
        match address {
            Some(address) => {
                write_private(&file, format!("http://{address}\n").as_bytes()).map_err(at(&file))?;
            }
            // An earlier instance may have listened and been killed.
            None => remove(&file).map_err(at(&file))?,
        }
        if let Some(tcp) = tcp {
            let server = running.server(router.clone(), options.connections);
            running.tasks.spawn(server.accept(tcp));
        }
        let server = running.server(router, options.connections);
        running.tasks.spawn(server.accept((unix, path)));
        Ok(running)
    }
}

async fn bind(address: SocketAddr, insecure: bool) -> Result<TcpListener, ListenError> {
    if !insecure && !address.ip().to_canonical().is_loopback() {
        return Err(ListenError::Open(address));
    }
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { address },
        _ => ListenError::System { place: address.to_string(), source },
    })
}

fn private_folder(folder: &Path) -> Result<PathBuf, ListenError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at(folder))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(at(folder))?;
    // The files are removed at the end, also when the process has changed its folder meanwhile.
    fs::canonicalize(folder).map_err(at(folder))
}

/// Removes a socket that nobody answers on: an instance was killed.
async fn clear_stale(path: &SocketPath, folder: &Path) -> Result<(), ListenError> {
    let shown = folder.join(socket::NAME);
    match fs::symlink_metadata(&shown) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(shown)(error)),
        Ok(meta) if !meta.file_type().is_socket() => return Err(ListenError::NotASocket(shown)),
        Ok(_) => {}
    }
    match UnixStream::connect(path.as_path()).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove(&shown).map_err(at(shown)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(shown)(error)),
        Ok(_) => Err(ListenError::SocketTaken(shown)),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A listener that serves. Dropping it ends every connection at once.
#[derive(Debug)]
pub struct Running {
    address: Option<SocketAddr>,
    folder: PathBuf,
    stop: CancellationToken,
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    /// The TCP address, with the port that was picked; nothing when only the socket is listened on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes no more requests, lets those that run finish within `grace`, then cuts what is left.
    pub async fn stop(self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }

    fn server(&self, router: Router, connections: usize) -> Server {
        Server {
            router,
            room: Arc::new(Semaphore::new(connections.max(1))),
            stop: self.stop.clone(),
            cut: self.cut.clone(),
            tasks: self.tasks.clone(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.cut.cancel();
        for name in [socket::NAME, "address"] {
            if let Err(error) = remove(&self.folder.join(name)) {
                tracing::warn!(%error, name, "a file of the listener is left behind");
            }
        }
    }
}
