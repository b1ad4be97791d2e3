//! The contract on a file, in real time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::port::{Broker as _, Capabilities};
use redrive_sqlite::{Options, Store};
use testkit::clock::TestClock;
use testkit::contract::{Fixture, Ports};

struct OnFile {
    folder: tempfile::TempDir,
    capabilities: Capabilities,
}

impl OnFile {
    fn new() -> Self {
        let other = tempfile::tempdir().expect("a folder");
        let store = Store::open(other.path().join("x.db"), Options::default()).expect("a store");
        Self { folder: tempfile::tempdir().expect("a folder"), capabilities: store.capabilities() }
    }

    fn ports(&self, clock: Arc<TestClock>) -> Ports {
        let options = Options { clock: clock.clone(), ..Options::default() };
        let store = Store::open(self.folder.path().join("redrive.db"), options).expect("a store");
        Ports { broker: Arc::new(store.clone()), ledger: Arc::new(store), clock }
    }
}

#[async_trait]
impl Fixture for OnFile {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(40)
    }

    async fn open(&self) -> Ports {
        self.ports(Arc::default())
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let clock = ports.clock.clone();
        drop(ports);
        self.ports(clock)
    }
}

testkit::contract_tests!(OnFile::new(), (flavor = "multi_thread", worker_threads = 2));
