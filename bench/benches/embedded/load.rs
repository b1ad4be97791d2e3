//! A load on a real flow: published durably, handled, acknowledged durably.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redrive::engine::handler::Handler;
use redrive::engine::port::{Broker, Clock, Ledger, NewMessage, Published, SystemClock};
use redrive::engine::{Flow, FlowSpec};
use redrive::sqlite::{Options, Store};
use redrive_core::PolicySpec;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Measured;
use crate::place;

/// The body of every message: a small event.
pub(crate) const BODY: &[u8; 256] = &[b'x'; 256];
/// Publishers at work at the same time.
const PUBLISHERS: usize = 4;

/// How much is published, and how.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Messages in all; a multiple of the batch.
    pub(crate) messages: u64,
    /// Messages that one publish carries.
    pub(crate) batch: u64,
    /// Batches that may be published and not handled yet.
    pub(crate) backlog: u64,
}

impl Load {
    /// About so many messages in whole batches, at most 16,384 of them published and not handled yet.
    pub(crate) fn new(messages: u64, batch: u64) -> Self {
        Self { messages: (messages / batch).max(1) * batch, batch, backlog: (16_384 / batch).max(2) }
    }
}

/// How a load went.
pub(crate) struct Ran {
    /// From the first publish to the last durable acknowledgement.
    pub(crate) took: Duration,
    /// Messages that have failed on the way: the ledger knows them.
    pub(crate) failed: u64,
}

/// How many messages have been handled.
#[derive(Default)]
pub(crate) struct Progress {
    done: AtomicU64,
    moved: Notify,
}

impl Progress {
    /// Whoever waits is told at every so many messages.
    const STEP: u64 = 64;

    pub(crate) fn one(&self) {
        if (self.done.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(Self::STEP) {
            self.moved.notify_waiters();
        }
    }

    pub(crate) async fn until(&self, count: u64) {
        loop {
            let moved = self.moved.notified();
            if self.done.load(Ordering::Relaxed) >= count {
                return;
            }
            moved.await;
        }
    }
}

/// Runs the load. `progress` is told by the handler.
pub(crate) async fn run(load: Load, handler: Arc<dyn Handler>, progress: Arc<Progress>) -> Measured<Ran> {
    let place = place()?;
    let store = Store::open(&place.data, Options::default())?;
    let flow = start(&store, handler).await?;
    let began = Instant::now();
    let mut publishers = JoinSet::new();
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..PUBLISHERS {
        publishers.spawn(publish(store.clone(), load, next.clone(), progress.clone()));
    }
    while let Some(ended) = publishers.join_next().await {
        ended??;
    }
    progress.until(load.messages).await;
    while flow.in_hand() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    flow.stop().await;
    for queue in store.queues().await? {
        if queue.depth.ready + queue.depth.waiting > 0 {
            return Err(format!("{:?} is left in the queue", queue.depth).into());
        }
    }
    let failed = store.counts().await?.states.iter().map(|state| state.count).sum();
    Ok(Ran { took, failed })
}

/// A flow on the queue `orders`, as `redrive run` starts it, whose failures are tried again after 20 ms.
pub(crate) async fn start(store: &Store, handler: Arc<dyn Handler>) -> Measured<Flow> {
    let policy: PolicySpec = serde_json::from_str(r#"{ "retry": "20ms" }"#)?;
    let mut spec = FlowSpec::new("orders", "orders", handler);
    spec.policy =
        Arc::new(policy.build().map_err(|findings| format!("the policy cannot be used: {findings:?}"))?);
    let broker: Arc<dyn Broker> = Arc::new(store.clone());
    let ledger: Arc<dyn Ledger> = Arc::new(store.clone());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Ok(Flow::start(spec, broker, ledger, clock).await?)
}

async fn publish(store: Store, load: Load, next: Arc<AtomicU64>, progress: Arc<Progress>) -> Measured<()> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= load.messages / load.batch {
            return Ok(());
        }
        progress.until((number + 1).saturating_sub(load.backlog) * load.batch).await;
        let message = NewMessage { body: Some(Bytes::from_static(BODY)), ..NewMessage::default() };
        let messages = vec![message; load.batch as usize];
        let published = store.publish("orders", messages).await?;
        if let Some(Published::Refused(refusal)) =
            published.into_iter().find(|one| matches!(one, Published::Refused(_)))
        {
            return Err(refusal.to_string().into());
        }
    }
}
