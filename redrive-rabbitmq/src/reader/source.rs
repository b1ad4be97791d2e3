//! What the flow reads, as the engine sees it.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_engine::port::{Delivery, Depth, PortError, Revoked, Room, Source};
use tokio::sync::mpsc;

use super::pump::Reader;

/// The flow's source.
#[derive(Debug)]
pub(crate) struct RabbitSource {
    reader: Arc<Reader>,
    revoked: Option<mpsc::UnboundedReceiver<Revoked>>,
    /// The flow was told that the broker is away, and not that it is back.
    away: bool,
}

impl RabbitSource {
    pub(crate) fn new(reader: Arc<Reader>, revoked: mpsc::UnboundedReceiver<Revoked>) -> Self {
        Self { reader, revoked: Some(revoked), away: false }
    }
}

#[async_trait]
impl Source for RabbitSource {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        let reader = Arc::clone(&self.reader);
        let _wanted = reader.is_wanted();
        let before = into.len();
        loop {
            // Asked for before looking, so that what arrives in between is not missed.
            let bell = reader.arrived().notified();
            if let Some(trouble) = reader.trouble() {
                if !self.away {
                    self.away = true;
                    return Err(trouble);
                }
            } else if reader.is_reading() {
                if std::mem::take(&mut self.away) {
                    return Ok(());
                }
                reader.hand_out(room, into);
                if into.len() > before {
                    return Ok(());
                }
            }
            bell.await;
        }
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        self.reader.depth().await
    }

    async fn close(&mut self) {
        self.reader.close().await;
    }

    fn revoked(&mut self) -> Option<mpsc::UnboundedReceiver<Revoked>> {
        self.revoked.take()
    }
}

impl Drop for RabbitSource {
    fn drop(&mut self) {
        self.reader.stop();
    }
}
