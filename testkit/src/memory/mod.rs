//! A broker and a ledger in memory.
//!
//! They keep every promise of the ports in the plainest way (ordered maps behind one lock), so that the contract suite
//! has something to be right against, and so that the engine can be tested in virtual time. There are two kinds: one
//! store for both, as an embedded one is, and [two that stand apart](MemoryApart), as a log and its ledger do.

mod apart;
mod broker;
mod controls;
mod deeds;
mod entries;
mod faults;
mod lanes;
mod ledger;
mod left;
mod outer;
mod queue;
mod replays;
mod search;
mod shadow;
mod source;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_engine::port::Clock;
use tokio::sync::Notify;

pub use apart::MemoryApart;
pub use broker::MemoryBroker;
pub use faults::Faults;
pub use ledger::MemoryLedger;
pub use outer::{OuterBroker, dead_of, parked_of};

use state::State;

/// What lies in memory. Ports are opened on it, any number of times, as on a file.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    news: Notify,
    clock: Arc<dyn Clock>,
    faults: Arc<Faults>,
}

impl MemoryStore {
    /// A store with nothing in it, for a broker and its ledger.
    pub fn shared(clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: Arc::new(Inner {
                state: Mutex::default(),
                news: Notify::new(),
                clock,
                faults: Arc::default(),
            }),
        }
    }

    /// The broker.
    pub fn broker(&self) -> Arc<MemoryBroker> {
        Arc::new(MemoryBroker { store: self.clone() })
    }

    /// The broker alone, without a ledger beside it.
    pub fn outer(&self) -> Arc<OuterBroker> {
        Arc::new(OuterBroker { store: self.clone() })
    }

    /// The ledger.
    pub fn ledger(&self) -> Arc<MemoryLedger> {
        Arc::new(MemoryLedger { store: self.clone() })
    }

    /// What goes wrong, on request.
    pub fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.inner.faults)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_readers(&self) {
        self.inner.news.notify_waiters();
    }
}
