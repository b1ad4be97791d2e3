//! The store itself.

use std::path::Path;
use std::sync::Arc;

use redrive_core::Timestamp;
use redrive_engine::port::PortError;
use rusqlite::params;
use tokio::sync::watch;

use crate::lane_counts::LaneCounts;
use crate::ledger::apart::Brokers;
use crate::lock::Lock;
use crate::reader::Readers;
use crate::reading::Readings;
use crate::writer::Writer;
use crate::{OpenError, Options, open};

/// Queues and ledger in one file. Clones share it; it is closed when the last of them and every reader of a queue is
/// gone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    // Dropped in this order: the lock goes when nothing works on the file any more.
    pub(crate) writer: Writer,
    pub(crate) readers: Arc<Readers>,
    pub(crate) readings: Arc<Readings>,
    pub(crate) lanes: Arc<LaneCounts>,
    pub(crate) brokers: Brokers,
    pub(crate) options: Options,
    pub(crate) _lock: Lock,
    pub(crate) ended: watch::Sender<()>,
}

/// What a queue takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSettings {
    /// The most messages that wait in it; nothing means the default of the options.
    pub limit: Option<u64>,
    /// How long an id is remembered after it was published; nothing means while it is queued.
    pub dedup_ms: Option<u64>,
}

impl Store {
    /// Opens the file, makes it when it is not there, and brings an older one up to date.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        open::open(path.as_ref(), options)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.inner.readers.path()
    }

    /// Sets what a queue takes; makes it when it is not there.
    pub async fn configure_queue(&self, name: &str, settings: QueueSettings) -> Result<(), PortError> {
        let name = name.to_owned();
        self.inner
            .writer
            .run(move |tx| {
                let queue = tx.queue(&name)?;
                let stored = |value: Option<u64>| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
                tx.sql.execute(
                    "UPDATE queues SET size_limit = ?2, dedup_ms = ?3 WHERE id = ?1",
                    params![queue, stored(settings.limit), stored(settings.dedup_ms)],
                )?;
                tx.settings_changed(queue);
                Ok(())
            })
            .await
    }

    /// Is done when the file is closed and free for another process. It keeps nothing open itself.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.inner.ended.subscribe();
        // Nothing is ever told: it ends with the store.
        async move { while ended.changed().await.is_ok() {} }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.options.clock.now()
    }
}
