//! What an adapter brings to the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::port::{Broker, Capabilities, Depth, Ledger};
use redrive_engine::{Apart, FlowSpec};

use crate::clock::TestClock;

/// An open store: what a flow runs on.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The clock that both of them and the flows read.
    pub clock: Arc<TestClock>,
}

/// An adapter's side of the suite. Each test has a fixture of its own.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// What the adapter can do.
    fn capabilities(&self) -> Capabilities;

    /// The unit of time of every scenario: long enough that what should come at once comes well within it, as
    /// short as patience allows. A second where time is virtual, 20 to 50 ms where it is real.
    fn tick(&self) -> Duration;

    /// Opens a store with nothing in it.
    async fn open(&self) -> Ports;

    /// Closes the store and opens the same one again, as after a restart. Nothing else holds the ports.
    async fn reopen(&self, ports: Ports) -> Ports;

    /// The address of a queue or topic that a scenario names, where tests share one broker.
    fn address(&self, name: &str) -> String {
        name.to_owned()
    }

    /// The broker for a flow, where each flow has one of its own.
    fn broker_for(&self, ports: &Ports, spec: &FlowSpec) -> Arc<dyn Broker> {
        let _ = spec;
        Arc::clone(&ports.broker)
    }

    /// Whether the adapter itself puts a header of this name on what it publishes: an id, a content type.
    fn carries(&self, header: &str) -> bool {
        let _ = header;
        false
    }

    /// How much lies in a queue; nothing where there is none.
    async fn depth(&self, ports: &Ports, address: &str) -> Depth {
        let queues = ports.broker.queues().await.expect("queues");
        queues.into_iter().find(|queue| queue.name == address).map(|queue| queue.depth).unwrap_or_default()
    }

    /// The broker and the ledger as they were put together, where they stand apart.
    fn apart(&self, ports: &Ports) -> Option<Arc<Apart>> {
        let _ = ports;
        None
    }

    /// Closes the store and opens the same broker with a ledger that has nothing in it; nothing where they are one.
    async fn lose_ledger(&self, ports: Ports) -> Option<Ports> {
        drop(ports);
        None
    }

    /// Whether the broker keeps what was read, so that it can be read once more.
    fn keeps_what_was_read(&self) -> bool {
        true
    }

    /// Whether delayed retries wait in a ledger apart rather than at the broker: nothing is settled without it then.
    fn delays_in_ledger(&self) -> bool {
        false
    }

    /// Makes a ledger apart answer nothing from now on, or answer again; no where a test cannot do that.
    fn ledger_away(&self, _away: bool) -> bool {
        false
    }

    /// Makes the broker answer "unavailable" to the next `n` settles; no where a test cannot do that.
    fn fail_settles(&self, _n: u32) -> bool {
        false
    }

    /// The same, to be done from within a handler.
    fn settles_fail(&self) -> Box<dyn Fn(u32) + Send + Sync> {
        Box::new(|_| {})
    }

    /// Makes the ledger deaf for the next `n` times it is told something; no where a test cannot do that.
    fn fail_records(&self, _n: u32) -> bool {
        false
    }

    /// A wait so long that the broker by itself moves a copy to another place before it is over; nothing where it never
    /// does, or where a test [asks for it](Self::move_on).
    fn wait_of_hops(&self) -> Option<Duration> {
        None
    }

    /// Makes the broker move what waits for a source to other places, as one does that has several; no where a test
    /// cannot do that.
    fn move_on(&self, _address: &str) -> bool {
        false
    }

    /// Makes the broker answer "unavailable" to the next `n` receives; no where a test cannot do that.
    fn fail_receives(&self, _n: u32) -> bool {
        false
    }

    /// Lets time go by.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// How long anything is awaited before it counts as missing.
    fn patience(&self) -> Duration {
        (self.tick() * 600).max(Duration::from_secs(30))
    }
}

/// Asks again and again until there is an answer, and fails the test by name when there is none in time.
pub async fn eventually<F, R, T>(fixture: &dyn Fixture, what: &str, ask: F) -> T
where
    F: Fn() -> R,
    R: Future<Output = Result<T, String>>,
{
    let asked_until = tokio::time::Instant::now() + fixture.patience();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(found) if tokio::time::Instant::now() >= asked_until => {
                panic!("waited in vain for {what}; found {found}")
            }
            Err(_) => tokio::time::sleep(fixture.tick() / 10).await,
        }
    }
}
