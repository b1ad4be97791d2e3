//! A preloaded queue on a real data file, and the time in which a flow empties it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::Place;
use bytes::Bytes;
use redrive::engine::port::{Broker, Clock, Ledger, NewMessage, Published, SystemClock};
use redrive::engine::{Flow, FlowSpec};
use redrive::sqlite::{Options, Store};
use redrive_core::PolicySpec;

use crate::Measured;
use crate::endpoint::Endpoint;

/// The body of every message: a small event.
const BODY: &[u8; 256] = &[b'x'; 256];
/// Messages that one publish carries.
const BATCH: u64 = 4_096;
/// Over so many keys the messages are spread.
const KEYS: u64 = 1_000;

/// What lies in the queue.
#[derive(Clone, Copy, Default)]
pub(crate) struct Load {
    /// Messages that succeed, sooner or later.
    pub(crate) healthy: u64,
    /// Messages that never do, spread evenly among the others.
    pub(crate) poison: u64,
}

impl Load {
    /// After how many messages one is poison; nothing when none is.
    fn every(self) -> Option<u64> {
        (self.healthy + self.poison).checked_div(self.poison)
    }

    fn message(self, number: u64, every: Option<u64>) -> NewMessage {
        let poison = every.is_some_and(|every| number.is_multiple_of(every) && number / every < self.poison);
        let kind = if poison { "poison" } else { "healthy" };
        NewMessage {
            id: Some(format!("{kind}-{number}")),
            key: Some((number % KEYS).to_string().into()),
            body: Some(Bytes::from_static(BODY)),
            ..NewMessage::default()
        }
    }
}

/// Empties the queue with a flow, changed as asked; tells how long that took from its start until every healthy message
/// was acknowledged durably.
pub(crate) async fn empty(
    load: Load,
    endpoint: Arc<Endpoint>,
    change: impl FnOnce(&mut FlowSpec),
) -> Measured<Duration> {
    let folder = Place::new(env!("CARGO_TARGET_TMPDIR"))?;
    let store = Store::open(&folder.data, Options::default())?;
    fill(&store, load).await?;
    let policy: PolicySpec = serde_json::from_str(r#"{ "retry": "100ms x3" }"#)?;
    let mut spec = FlowSpec::new("orders", "orders", endpoint.clone());
    spec.policy =
        Arc::new(policy.build().map_err(|findings| format!("the policy cannot be used: {findings:?}"))?);
    change(&mut spec);
    let broker: Arc<dyn Broker> = Arc::new(store.clone());
    let ledger: Arc<dyn Ledger> = Arc::new(store.clone());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    endpoint.begins();
    let began = Instant::now();
    let flow = Flow::start(spec, broker, ledger, clock).await?;
    endpoint.until(load.healthy).await;
    while flow.in_hand() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    flow.stop().await;
    let left: u64 = store.queues().await?.iter().map(|queue| queue.depth.ready + queue.depth.waiting).sum();
    if left > 0 {
        return Err(format!("{left} messages are left in the queue").into());
    }
    Ok(took)
}

async fn fill(store: &Store, load: Load) -> Measured<()> {
    let (all, every) = (load.healthy + load.poison, load.every());
    let mut next = 0;
    while next < all {
        let end = (next + BATCH).min(all);
        let messages = (next..end).map(|number| load.message(number, every)).collect();
        next = end;
        let published = store.publish("orders", messages).await?;
        if let Some(Published::Refused(refusal)) =
            published.into_iter().find(|one| matches!(one, Published::Refused(_)))
        {
            return Err(refusal.to_string().into());
        }
    }
    Ok(())
}
