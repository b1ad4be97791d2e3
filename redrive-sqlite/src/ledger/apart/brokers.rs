//! The brokers that bodies are fetched from, flow by flow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use redrive_engine::port::Broker;

/// Whom to ask for the bodies of a flow's entries. A broker that has ended is as good as none.
#[derive(Debug, Default)]
pub(crate) struct Brokers(Mutex<HashMap<String, Weak<dyn Broker>>>);

impl Brokers {
    fn book(&self) -> MutexGuard<'_, HashMap<String, Weak<dyn Broker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, flow: &str, broker: Weak<dyn Broker>) {
        self.book().insert(flow.to_owned(), broker);
    }

    pub(crate) fn of(&self, flow: &str) -> Option<Arc<dyn Broker>> {
        self.book().get(flow)?.upgrade()
    }
}
