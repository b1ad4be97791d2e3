//! Streams that are lost while messages of them are in hand.
//!
//! What has not begun goes back at once, what waits in hand is written down as far as it was tried, and what runs may
//! finish; it is tried no more after that. Nothing stands still for it any longer. Whoever has the stream next then finds no
//! more of it in two hands than has to be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::aside::Aside;
use super::shared::Shared;
use crate::port::{Delivery, Revoked, Tag};

/// The last loss of each stream.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    any: AtomicBool,
    epochs: Mutex<HashMap<u32, Epochs>>,
    /// One more is lost.
    news: Notify,
}

/// Of one stream.
#[derive(Debug, Default)]
struct Epochs {
    lost: u32,
    /// That of the last message which came after the loss.
    again: Option<u32>,
}

impl Lost {
    fn epochs(&self) -> MutexGuard<'_, HashMap<u32, Epochs>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, revoked: Revoked) {
        self.epochs().entry(revoked.stream).or_default().lost = revoked.epoch;
        self.any.store(true, Ordering::Release);
        self.news.notify_waiters();
    }

    /// Messages have come, perhaps from a stream that was lost and is back.
    pub(crate) fn look(&self, received: &[Delivery]) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut epochs = self.epochs();
        for delivery in received {
            let Tag { stream, epoch, .. } = delivery.tag;
            if let Some(known) = epochs.get_mut(&stream).filter(|known| epoch > known.lost) {
                known.again = Some(epoch);
            }
        }
    }

    /// Whether the stream that a delivery came from was lost and has come again: what was not settled of it then is handed
    /// out once more, and nothing that is said of this delivery counts.
    pub(crate) fn came_again(&self, tag: Tag) -> bool {
        self.any.load(Ordering::Acquire)
            && self
                .epochs()
                .get(&tag.stream)
                .is_some_and(|known| known.again.is_some_and(|again| tag.epoch < again))
    }

    /// Waits until the stream that a delivery came from is lost.
    pub(crate) async fn lost(&self, tag: Tag) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.had(tag) {
                return;
            }
            news.await;
        }
    }

    /// Whether a delivery came from a stream that was lost since.
    pub(crate) fn had(&self, tag: Tag) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        // An earlier loss of the same stream was a loss as well.
        self.epochs().get(&tag.stream).is_some_and(|known| tag.epoch <= known.lost)
    }
}

/// Gives back what came from lost streams, until the flow stops.
pub(crate) async fn give_back(shared: Arc<Shared>, losses: Option<mpsc::UnboundedReceiver<Revoked>>) {
    let Some(mut losses) = losses else { return };
    loop {
        let revoked = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            revoked = losses.recv() => revoked,
        };
        let Some(revoked) = revoked else { return };
        // First, so that whoever puts a job anywhere and looks afterwards finds it lost if nobody comes for it there.
        shared.revoked.add(revoked);
        let _ = shared.aside.send(Aside::Lost(revoked));
        let lost = shared.desk.revoke(revoked);
        shared.tell_blocked();
        for job in lost {
            shared.put_down(job, Duration::ZERO);
        }
    }
}
