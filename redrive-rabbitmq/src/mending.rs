//! What the flow needs is made again when a copy finds it missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_engine::adapter::Alarms;
use tokio::time::Instant;

use crate::outbox::Letter;
use crate::topology::Needs;

/// How often it is looked at most: whoever writes tries again sooner than that.
const AGAIN: Duration = Duration::from_secs(2);

/// Makes again what is missing.
#[derive(Debug)]
pub(crate) struct Mending {
    flow: Arc<str>,
    needs: Arc<Needs>,
    alarms: Arc<Alarms>,
    /// When it was looked at last.
    last: tokio::sync::Mutex<Option<Instant>>,
    /// Whether something was missing that could not be made.
    failed: AtomicBool,
}

impl Mending {
    pub(crate) fn new(flow: Arc<str>, needs: Arc<Needs>, alarms: Arc<Alarms>) -> Self {
        Self { flow, needs, alarms, last: tokio::sync::Mutex::default(), failed: AtomicBool::new(false) }
    }

    /// Whether a message goes to something that the flow made, and makes again.
    pub(crate) fn is_own(&self, letter: &Letter) -> bool {
        !letter.exchange.as_str().is_empty() || self.needs.owns(letter.key.as_str())
    }

    /// Whether a queue is the flow's own, and nothing of that was found missing that could not be made.
    pub(crate) fn has_made(&self, queue: &str) -> bool {
        !self.has_failed() && self.needs.owns(queue)
    }

    /// Whether something was missing when it was looked at last, and could not be made.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Something of the flow's own was not there.
    pub(crate) async fn mend(&self) {
        // One look serves all that miss something meanwhile.
        let Ok(mut last) = self.last.try_lock() else { return };
        if last.is_some_and(|last| last.elapsed() < AGAIN) {
            return;
        }
        match self.needs.restore().await {
            Ok(made) => {
                self.failed.store(false, Ordering::Relaxed);
                self.alarms.clear("queue_missing", "");
                tracing::warn!(flow = &*self.flow, made = made.join(", "), "made again what was deleted");
            }
            Err(error) => {
                let why = format!("copies find no way, and what is missing cannot be made: {error}");
                self.failed.store(true, Ordering::Relaxed);
                self.alarms.raise("queue_missing", "", why);
            }
        }
        *last = Some(Instant::now());
    }
}
