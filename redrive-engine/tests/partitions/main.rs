//! Partitions that stand still for a message, and are taken away meanwhile, in virtual time.

mod broker;
mod lost;
mod together;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::{Policy, PolicySpec};
use redrive_engine::port::{Clock as _, Ledger};
use redrive_engine::{Flow, FlowSpec, NoLedger};
use testkit::clock::TestClock;
use testkit::handler::Scripted;
use testkit::memory::MemoryStore;

use broker::Partitions;

const SECOND: Duration = Duration::from_secs(1);
/// How long something is waited for.
const PATIENCE: Duration = Duration::from_secs(3_600);

struct Bench {
    clock: Arc<TestClock>,
    partitions: Partitions,
    ledger: Arc<dyn Ledger>,
    handler: Arc<Scripted>,
}

impl Bench {
    /// With one partition, and nobody who remembers anything.
    fn without_ledger() -> Self {
        Self::new(false, true)
    }

    /// With one partition, and a ledger that remembers what was tried.
    fn with_ledger() -> Self {
        Self::new(true, true)
    }

    /// With one queue, for which the whole flow stands still.
    fn with_a_queue() -> Self {
        Self::new(false, false)
    }

    fn new(ledger: bool, by_partition: bool) -> Self {
        let clock = Arc::new(TestClock::default());
        let kept: Arc<dyn Ledger> =
            if ledger { MemoryStore::shared(clock.clone()).ledger() } else { Arc::new(NoLedger) };
        let partitions = Partitions::new(ledger, by_partition);
        partitions.assign(0);
        Self { clock, partitions, ledger: kept, handler: Scripted::new() }
    }

    fn spec(&self, blocking: &str) -> FlowSpec {
        FlowSpec {
            breaker: None,
            retry_budget: None,
            policy: policy(blocking),
            timeout: SECOND * 1_000,
            ..FlowSpec::new("orders", "orders", self.handler.clone())
        }
    }

    async fn start(&self, spec: FlowSpec) -> Flow {
        let broker = Arc::new(self.partitions.clone());
        Flow::start(spec, broker, self.ledger.clone(), self.clock.clone()).await.expect("the flow starts")
    }

    /// Waits until it is so.
    async fn comes<T: PartialEq + Debug>(&self, what: &str, wanted: T, now: impl Fn() -> T) {
        let began = self.clock.monotonic();
        while now() != wanted {
            let waited = self.clock.monotonic().saturating_sub(began);
            assert!(waited < PATIENCE, "{what}: {:?}, not {wanted:?}", now());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until so many calls have begun.
    async fn called(&self, times: usize) {
        self.comes("calls", times, || self.handler.calls().len()).await;
    }

    /// Waits until nothing is left in the partitions, nor in hand.
    async fn empty(&self, flow: &Flow) {
        self.comes("left", (0, 0), || (self.partitions.unsettled(), flow.in_hand())).await;
    }

    /// Holds that something takes less than this.
    async fn within(&self, most: Duration, what: impl Future<Output = ()>) {
        let began = self.clock.monotonic();
        what.await;
        let took = self.clock.monotonic().saturating_sub(began);
        assert!(took < most, "it took {took:?}");
    }
}

fn policy(blocking: &str) -> Arc<Policy> {
    let written = serde_json::json!({ "blocking": blocking });
    let spec: PolicySpec = serde_json::from_value(written).expect("a policy");
    Arc::new(spec.build().expect("a policy that can be used"))
}
