//! The contract on the store in memory, in virtual time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::port::Capabilities;
use testkit::clock::TestClock;
use testkit::contract::{Fixture, Ports};
use testkit::memory::{MemoryBroker, MemoryStore};

/// A store in memory. A restart gives new ports on the same store.
struct InMemory {
    records_in_settle: bool,
    store: Mutex<Option<MemoryStore>>,
}

impl InMemory {
    fn new(records_in_settle: bool) -> Self {
        Self { records_in_settle, store: Mutex::new(None) }
    }

    fn store(&self) -> Option<MemoryStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Fixture for InMemory {
    fn capabilities(&self) -> Capabilities {
        MemoryBroker::can(self.records_in_settle)
    }

    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn open(&self) -> Ports {
        let clock = std::sync::Arc::new(TestClock::default());
        let store = if self.records_in_settle {
            MemoryStore::shared(clock.clone())
        } else {
            MemoryStore::apart(clock.clone())
        };
        let ports = Ports { broker: store.broker(), ledger: store.ledger(), clock };
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        ports
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let store = self.store().expect("an open store");
        Ports { broker: store.broker(), ledger: store.ledger(), clock: ports.clock }
    }

    fn fail_settles(&self, n: u32) -> bool {
        self.store().is_some_and(|store| {
            store.faults().fail_settles(n);
            true
        })
    }

    fn fail_records(&self, n: u32) -> bool {
        self.store().is_some_and(|store| {
            store.faults().fail_records(n);
            true
        })
    }

    fn fail_receives(&self, n: u32) -> bool {
        self.store().is_some_and(|store| {
            store.faults().fail_receives(n);
            true
        })
    }
}

mod one_store {
    testkit::contract_tests!(super::InMemory::new(true), (start_paused = true));
}

mod ledger_apart {
    testkit::contract_tests!(super::InMemory::new(false), (start_paused = true));
}
