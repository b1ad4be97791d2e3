//! What the flow calls: it takes its time, refuses poison, is down for a while, and counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redrive::Context;
use redrive::Message;
use redrive::engine::handler::{Attempted, Handler};
use redrive_core::Failure;
use tokio::sync::Notify;

/// Whoever waits is told at every so many messages.
const STEP: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    /// How long a call takes.
    takes: Option<Duration>,
    /// How long it is down, from the flow's start.
    down: Duration,
    began: Mutex<Option<Instant>>,
    done: AtomicU64,
    expected: AtomicU64,
    moved: Notify,
}

impl Endpoint {
    /// One whose calls take so long.
    pub(crate) fn slow(takes: Duration) -> Self {
        Self { takes: Some(takes), ..Self::default() }
    }

    /// One that is down for so long.
    pub(crate) fn down(down: Duration) -> Self {
        Self { down, ..Self::default() }
    }

    /// The flow starts now.
    pub(crate) fn begins(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Waits until so many calls have succeeded.
    pub(crate) async fn until(&self, count: u64) {
        self.expected.store(count, Ordering::Relaxed);
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.done.load(Ordering::Relaxed) >= count {
                return;
            }
            moved.await;
        }
    }

    fn is_down(&self) -> bool {
        if self.down.is_zero() {
            return false;
        }
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.is_some_and(|began| began.elapsed() < self.down)
    }
}

#[async_trait]
impl Handler for Endpoint {
    async fn call(&self, message: &Message, _: Context) -> Attempted {
        if let Some(takes) = self.takes {
            tokio::time::sleep(takes).await;
        }
        if self.is_down() {
            return Attempted::failure(Failure::from_message("the endpoint is down").with_status(503));
        }
        if message.id.as_str().starts_with("poison") {
            return Attempted::failure(Failure::from_message("no order at all").with_status(422));
        }
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(STEP) || done >= self.expected.load(Ordering::Relaxed) {
            self.moved.notify_waiters();
        }
        Attempted::success()
    }
}
