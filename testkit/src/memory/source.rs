//! Reading a queue.

use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::port::{Delivery, Depth, PortError, Room, Source};

use super::MemoryStore;

/// How long nothing is looked at without news: a clock that was set forward is noticed within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct MemorySource {
    pub(super) store: MemoryStore,
    pub(super) queue: String,
    pub(super) epoch: u32,
}

#[async_trait]
impl Source for MemorySource {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        self.store.inner.faults.receive()?;
        loop {
            let news = self.store.inner.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let now = self.store.inner.clock.now();
            let next = {
                let mut state = self.store.lock();
                let queue = state.queue(&self.queue);
                if queue.epoch != self.epoch {
                    return Err(PortError::Unavailable("another reader has taken over".to_owned()));
                }
                let before = into.len();
                queue.take(room, now, into);
                if into.len() > before {
                    return Ok(());
                }
                queue.next_due()
            };
            let wait =
                next.map_or(LOOK_AGAIN, |due| due.since(now).clamp(Duration::from_millis(1), LOOK_AGAIN));
            let _ = tokio::time::timeout(wait, news).await;
        }
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        let now = self.store.inner.clock.now();
        Ok(self.store.lock().queue(&self.queue).depth(now))
    }
}
