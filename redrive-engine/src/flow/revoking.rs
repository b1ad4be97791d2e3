//! Streams that are lost while messages of them are in hand.
//!
//! What has not begun goes back at once, what waits in hand is written down as far as it was tried, and what runs may
//! finish. Whoever has the stream next then finds no more of it in two hands than has to be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::aside::Aside;
use super::shared::Shared;
use crate::port::{Revoked, Tag};

/// The last loss of each stream.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    any: AtomicBool,
    epochs: Mutex<HashMap<u32, u32>>,
}

impl Lost {
    fn add(&self, revoked: Revoked) {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.insert(revoked.stream, revoked.epoch);
        self.any.store(true, Ordering::Release);
    }

    /// Whether a delivery came from a stream that was lost since.
    pub(crate) fn had(&self, tag: Tag) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        // An earlier loss of the same stream was a loss as well.
        epochs.get(&tag.stream).is_some_and(|epoch| tag.epoch <= *epoch)
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
        shared.revoked.add(revoked);
        let _ = shared.aside.send(Aside::Lost(revoked));
        for job in shared.desk.revoke(revoked) {
            shared.put_down(job, Duration::ZERO);
        }
    }
}
