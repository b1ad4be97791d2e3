//! Whether the broker reads nothing, being short of memory or disk, as each of a flow's connections hears it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics;

/// How many of a flow's connections the broker reads nothing from.
#[derive(Debug)]
pub(crate) struct Blocked {
    flow: Arc<str>,
    connections: Mutex<u32>,
}

impl Blocked {
    /// None of this flow's so far.
    pub(crate) fn new(flow: Arc<str>) -> Self {
        Self { flow, connections: Mutex::default() }
    }
}

/// Whether the broker reads nothing from one connection. It says no more of it once it is gone.
#[derive(Debug)]
pub(crate) struct Heard {
    all: Arc<Blocked>,
    blocked: AtomicBool,
}

impl Heard {
    /// Nothing yet.
    pub(crate) fn nothing(all: &Arc<Blocked>) -> Self {
        Self { all: Arc::clone(all), blocked: AtomicBool::new(false) }
    }

    /// Whether it reads nothing now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// What the broker says. Answers with what it said before.
    pub(crate) fn says(&self, blocked: bool) -> bool {
        // Held while the gauge is set, so that it shows what the last one said.
        let mut connections = self.all.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.blocked.swap(blocked, Ordering::Relaxed);
        if before != blocked {
            *connections = if blocked { *connections + 1 } else { connections.saturating_sub(1) };
            metrics::blocked(&self.all.flow, *connections > 0);
        }
        before
    }
}
