//! A retry budget that several clients draw on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::guard::{GuardError, RetryBudget, RetryBudgetConfig};

use super::tally::Tally;
use super::{locked, nanos, slot};
use crate::SharedClock;

/// Retries of all clients together stay a share of their calls: by default 30 %, plus 10 a second.
///
/// Attempts and deadlines bound one call. In an outage every call fails, and together they would multiply the load on
/// an endpoint that is down already; the budget bounds them together. Clones share it. Give every client of one
/// downstream system the same budget, and a client of another its own.
///
/// ```
/// use redrive_retry::SharedBudget;
/// use redrive_retry::guard::RetryBudgetConfig;
///
/// let budget = SharedBudget::new(RetryBudgetConfig { share: 0.5, floor: None, ..Default::default() })?;
/// for _ in 0..10 {
///     budget.deposit(); // ten calls were made
/// }
/// assert_eq!((0..10).filter(|_| budget.try_spend()).count(), 5);
/// # Ok::<(), redrive_retry::guard::GuardError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SharedBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tally: Tally,
    state: Mutex<RetryBudget>,
    clock: SharedClock,
}

impl SharedBudget {
    /// A budget with these settings, or what is wrong with them.
    pub fn new(config: RetryBudgetConfig) -> Result<Self, GuardError> {
        Self::with_clock(config, SharedClock::default())
    }

    /// A budget that goes by another clock.
    pub fn with_clock(config: RetryBudgetConfig, clock: impl Into<SharedClock>) -> Result<Self, GuardError> {
        Ok(Self::of(RetryBudget::new(config)?, clock.into()))
    }

    fn of(budget: RetryBudget, clock: SharedClock) -> Self {
        let tally = Tally::new(slot::places());
        Self { inner: Arc::new(Inner { tally, state: Mutex::new(budget), clock }) }
    }

    /// Counts a call that begins.
    pub fn deposit(&self) {
        self.deposit_at(self.inner.clock.recent());
    }

    /// Lets a retry through and counts it; false when the budget is spent.
    #[must_use = "a retry may start only when it was let through"]
    pub fn try_spend(&self) -> bool {
        self.try_spend_at(self.inner.clock.recent())
    }

    /// Whether two handles share one budget.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }

    #[inline]
    pub(crate) fn deposit_at(&self, now: Duration) {
        let place = slot::mine();
        if !self.inner.tally.add(place, nanos(now)) {
            self.turn(place, now);
        }
    }

    #[cold]
    fn turn(&self, place: usize, now: Duration) {
        let mut budget = locked(&self.inner.state);
        self.add_up(&mut budget, now);
        budget.deposit(now);
        let ends = nanos(budget.turns_at(now));
        self.inner.tally.begin(place, ends);
    }

    fn add_up(&self, budget: &mut RetryBudget, now: Duration) {
        let now = nanos(now);
        self.inner.tally.take(|ends, new| {
            let at = ends.saturating_sub(1).min(now);
            budget.deposit_many(Duration::from_nanos(at), new);
        });
    }

    pub(crate) fn try_spend_at(&self, now: Duration) -> bool {
        let mut budget = locked(&self.inner.state);
        self.add_up(&mut budget, now);
        budget.try_spend(now)
    }
}

impl Default for SharedBudget {
    fn default() -> Self {
        Self::of(RetryBudget::default(), SharedClock::default())
    }
}
