//! What the API works on, and the bounds of what it takes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use redrive_engine::port::{Broker, Clock, Ledger};
use tokio::sync::Semaphore;

use crate::access::{self, Access};
use crate::figures::Figures;
use crate::flows::Flows;
use crate::routes;

const MIB: usize = 1024 * 1024;

/// How much a request may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request that publishes; 64 MiB.
    pub request: usize,
    /// Bytes of one message's body; 16 MiB.
    pub message: usize,
    /// Messages of one request; 50,000.
    pub lines: usize,
    /// Bytes of all request bodies in hand together; 256 MiB. What comes on top waits.
    pub in_hand: usize,
    /// How long a body may take to arrive; 60 s.
    pub arrival: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: 64 * MIB,
            message: 16 * MIB,
            lines: 50_000,
            in_hand: 256 * MIB,
            arrival: Duration::from_secs(60),
        }
    }
}

/// What the API works on. Cloning it is cheap.
#[derive(Clone)]
pub struct Api {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flows: Arc<dyn Flows>,
    pub(crate) metrics: Option<Figures>,
    pub(crate) limits: Limits,
    /// Room for request bodies, in KiB.
    pub(crate) room: Arc<Semaphore>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Api {
    /// An API over these ports.
    pub fn new(
        broker: Arc<dyn Broker>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        flows: Arc<dyn Flows>,
    ) -> Self {
        let limits = Limits::default();
        let room = room(limits);
        Self { broker, ledger, clock, flows, metrics: None, limits, room }
    }

    /// Shows these figures at `/metrics`, besides those that come from the ledger.
    #[must_use]
    pub fn metrics(mut self, figures: Figures) -> Self {
        self.metrics = Some(figures);
        self
    }

    /// Takes other limits than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.room = room(limits);
        self
    }
}

/// A request that may be as large as `request` must fit, or it would wait for ever.
fn room(limits: Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(kib(limits.in_hand.max(limits.request)) as usize))
}

pub(crate) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX >> 3)
}

/// Everything that is served over HTTP, behind the checks of `access`.
pub fn router(api: Api, access: Access) -> Router {
    access::guard(routes::all().with_state(api), access)
}
