//! A broker and a ledger in two stores.

use std::sync::Arc;

use redrive_engine::port::{Capabilities, Clock};
use redrive_engine::{Apart, ApartOptions};

use super::{MemoryLedger, MemoryStore, OuterBroker};

/// Two stores: a broker in one, its ledger in the other. Ports are opened on them, any number of times, as after a restart.
#[derive(Debug, Clone)]
pub struct MemoryApart {
    /// The broker's.
    pub outer: MemoryStore,
    /// The ledger's.
    pub inner: MemoryStore,
    clock: Arc<dyn Clock>,
}

impl MemoryApart {
    /// What they can do together.
    pub const CAN: Capabilities =
        Capabilities { records_in_settle: true, waiting_is_reachable: true, lanes: true, ..OuterBroker::CAN };

    /// Two stores with nothing in them.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            outer: MemoryStore::shared(Arc::clone(&clock)),
            inner: MemoryStore::shared(Arc::clone(&clock)),
            clock,
        }
    }

    /// Both as one broker for a flow.
    pub fn broker(&self, flow: &str, options: ApartOptions) -> Arc<Apart> {
        let (outer, home, ledger) = (self.outer.outer(), self.inner.broker(), self.inner.ledger());
        Arc::new(Apart::new(outer, home, ledger, flow, Arc::clone(&self.clock), options))
    }

    /// The ledger.
    pub fn ledger(&self) -> Arc<MemoryLedger> {
        self.inner.ledger()
    }
}
