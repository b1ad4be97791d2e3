//! Connections for reading. In WAL mode they see a snapshot and never keep the writer waiting.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redrive_engine::port::PortError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::fault::Done;

/// A small pool of connections.
#[derive(Debug)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    free: Arc<Semaphore>,
    path: PathBuf,
}

impl Readers {
    pub(crate) fn new(connections: Vec<Connection>, path: PathBuf) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(connections.len()));
        Arc::new(Self { idle: Mutex::new(connections), free, path })
    }

    /// Runs `work` on a thread for blocking calls. It runs to its end even when nobody waits any more.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, PortError> {
        let ended = || PortError::Unavailable("the readers of the data file have ended".to_owned());
        let permit = self.free.clone().acquire_owned().await.map_err(|_| ended())?;
        let pool = self.clone();
        let running = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let lent = Lent::take(&pool).ok_or_else(ended)?;
            work(lent.connection()?).map_err(|fault| fault.into_port(&pool.path))
        });
        running.await.map_err(|error| PortError::Broken(format!("a reader failed: {error}")))?
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A connection that goes back to the pool, whatever happens.
struct Lent<'p> {
    pool: &'p Readers,
    connection: Option<Connection>,
}

impl<'p> Lent<'p> {
    fn take(pool: &'p Readers) -> Option<Self> {
        let connection = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Self { pool, connection: Some(connection) })
    }

    fn connection(&self) -> Result<&Connection, PortError> {
        self.connection.as_ref().ok_or_else(|| PortError::Broken("the connection is gone".to_owned()))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
