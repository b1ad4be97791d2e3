//! How far a stream was read: kept outside of the broker, since a queue of RabbitMQ that is a stream forgets nothing and
//! remembers nobody.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_engine::port::{Ledger, PortError};

/// Keeps how far streams were read.
#[async_trait]
pub trait Positions: fmt::Debug + Send + Sync + 'static {
    /// What was kept under this name; nothing when nothing was.
    async fn load(&self, name: &str) -> Result<Option<String>, PortError>;

    /// Keeps it; when this returns it is durable.
    async fn keep(&self, name: &str, position: &str) -> Result<(), PortError>;
}

/// The positions that a ledger keeps.
pub fn positions_in(ledger: Arc<dyn Ledger>) -> Arc<dyn Positions> {
    Arc::new(InLedger(ledger))
}

#[derive(Debug)]
struct InLedger(Arc<dyn Ledger>);

#[async_trait]
impl Positions for InLedger {
    async fn load(&self, name: &str) -> Result<Option<String>, PortError> {
        self.0.position(name).await
    }

    async fn keep(&self, name: &str, position: &str) -> Result<(), PortError> {
        self.0.keep_position(name, position).await
    }
}

/// The position of one stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamPosition {
    name: String,
    kept: Arc<dyn Positions>,
}

impl StreamPosition {
    /// Of a flow's stream.
    pub(crate) fn new(flow: &str, queue: &str, kept: Arc<dyn Positions>) -> Self {
        Self { name: format!("stream/{flow}/{queue}"), kept }
    }

    /// The next offset to be read; nothing means from the beginning.
    pub(crate) async fn load(&self) -> Result<Option<i64>, PortError> {
        Ok(self.kept.load(&self.name).await?.and_then(|text| text.parse().ok()))
    }

    /// Keeps the next offset to be read.
    pub(crate) async fn keep(&self, next: i64) -> Result<(), PortError> {
        self.kept.keep(&self.name, &next.to_string()).await
    }
}
