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

/// The most that a thread is given ahead.
const AHEAD: u64 = 63;
/// All threads together are given ahead at most one in so many of the retries that there is room for.
const PART: u64 = 16;

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

    /// Counts a call whose first attempt begins.
    pub fn deposit(&self) {
        self.deposit_at(nanos(self.inner.clock.recent()));
    }

    /// Lets a retry through and counts it; false when the budget is spent.
    #[must_use = "a retry may start only when it was let through"]
    pub fn try_spend(&self) -> bool {
        self.try_spend_at(nanos(self.inner.clock.recent()))
    }

    /// Whether two handles share one budget.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }

    #[inline]
    pub(crate) fn deposit_at(&self, now: u64) {
        let place = slot::mine();
        if !self.inner.tally.add(place, now) {
            self.turn(place, Duration::from_nanos(now));
        }
    }

    #[cold]
    fn turn(&self, place: usize, now: Duration) {
        let mut budget = locked(&self.inner.state);
        self.add_up(&mut budget, now);
        self.take_back(&mut budget, place);
        budget.deposit(now);
        let ends = nanos(budget.turns_at(now));
        self.inner.tally.begin(place, ends, 0);
    }

    fn add_up(&self, budget: &mut RetryBudget, now: Duration) {
        let now = nanos(now);
        self.inner.tally.take(|ends, new| {
            let at = ends.saturating_sub(1).min(now);
            budget.deposit_many(Duration::from_nanos(at), new);
        });
    }

    #[inline]
    pub(crate) fn try_spend_at(&self, now: u64) -> bool {
        let place = slot::mine();
        self.inner.tally.use_ahead(place, now) || self.spend(place, Duration::from_nanos(now))
    }

    /// Spends under the lock. While there is plenty, the thread gets a few more to spend without it; when there is
    /// nothing left, what others have not used is taken back.
    #[cold]
    fn spend(&self, place: usize, now: Duration) -> bool {
        let tally = &self.inner.tally;
        let mut budget = locked(&self.inner.state);
        self.add_up(&mut budget, now);
        self.take_back(&mut budget, place);
        let mut room = budget.room(now);
        if room == 0 {
            for other in 0..tally.places() {
                self.take_back(&mut budget, other);
            }
            room = budget.room(now);
        }
        let spent = budget.try_spend(now);
        let part = room.saturating_sub(1) / (PART * tally.places() as u64);
        if part > 0 && place < tally.places() {
            let ahead = budget.spend_ahead(now, part.min(AHEAD));
            tally.begin(place, nanos(budget.turns_at(now)), ahead);
        }
        spent
    }

    fn take_back(&self, budget: &mut RetryBudget, place: usize) {
        if let Some((ends, unused)) = self.inner.tally.take_back(place) {
            budget.take_back(Duration::from_nanos(ends.saturating_sub(1)), unused);
        }
    }
}

impl Default for SharedBudget {
    fn default() -> Self {
        Self::of(RetryBudget::default(), SharedClock::default())
    }
}
