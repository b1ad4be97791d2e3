//! Retries stay a small share of the traffic, whatever each message's own policy allows.
//!
//! Policies bound the retries of one message; in an outage every message fails, and together they would multiply
//! the load on an endpoint that is already down. The budget bounds them together. The floor lets a backlog of
//! nothing but retries drain.

use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use super::window::Buckets;
use super::{GuardError, MILLION, Rate, RateLimit, millionths, nanos};

/// The settings of a [`RetryBudget`].
#[derive(Debug, Clone, PartialEq)]
pub struct RetryBudgetConfig {
    /// Retries allowed for each first attempt in the window; from 0 to 10, kept to a millionth. Default: 0.3.
    pub share: f64,
    /// Retries allowed whatever the traffic; `None` for none. Default: `10/s`.
    pub floor: Option<Rate>,
    /// How long a first attempt pays for retries. Default: 10 s.
    pub window: Duration,
}

impl Default for RetryBudgetConfig {
    fn default() -> Self {
        Self { share: 0.3, floor: Rate::per_second(10), window: Duration::from_secs(10) }
    }
}

/// Allows retries up to a share of the first attempts of the last seconds, plus a floor.
///
/// The window moves in tenths: a first attempt pays for at least nine tenths of it and never longer than the whole.
/// A retry draws on the share as long as that has room, and on the floor after. What is guaranteed: in any stretch
/// of up to nine tenths of the window, the retries let through are at most
/// `share × first attempts + floor × stretch + b`, where the first attempts are those of the window that ends with
/// the stretch's last retry drawn on the share, and `b` is one second's worth of the floor (at least 1).
///
/// ```
/// use std::time::Duration;
/// use redrive_core::guard::{RetryBudget, RetryBudgetConfig};
///
/// let mut budget = RetryBudget::new(RetryBudgetConfig { floor: None, ..RetryBudgetConfig::default() })?;
/// let now = Duration::ZERO;
/// assert!(!budget.try_spend(now)); // nothing was attempted yet
/// for _ in 0..10 {
///     budget.deposit(now);
/// }
/// let spent = (0..10).filter(|_| budget.try_spend(now)).count();
/// assert_eq!(spent, 3);
///
/// let mut drains = RetryBudget::default(); // a floor of 10/s
/// let spent = (0..100).filter(|_| drains.try_spend(now)).count();
/// assert_eq!(spent, 10);
/// assert_eq!(drains.next_at(now), Some(Duration::from_millis(100)));
/// # Ok::<(), redrive_core::guard::GuardError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RetryBudget {
    share: u64,
    counts: Buckets<Counts>,
    floor: Option<RateLimit>,
    latest: u64,
}

const BUCKETS: usize = 10;

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    firsts: u64,
    /// Retries that drew on the share; those on the floor are the token bucket's to count.
    retries: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.firsts += other.firsts;
        self.retries += other.retries;
    }
}

impl SubAssign for Counts {
    fn sub_assign(&mut self, other: Self) {
        self.firsts = self.firsts.saturating_sub(other.firsts);
        self.retries = self.retries.saturating_sub(other.retries);
    }
}

impl Counts {
    fn has_room(self, share: u64) -> bool {
        (u128::from(self.retries) + 1) * u128::from(MILLION) <= u128::from(self.firsts) * u128::from(share)
    }

    fn room(self, share: u64) -> u64 {
        let allowed = u128::from(self.firsts) * u128::from(share) / u128::from(MILLION);
        u64::try_from(allowed).unwrap_or(u64::MAX).saturating_sub(self.retries)
    }
}

impl RetryBudget {
    /// A budget with nothing deposited and the floor's second at hand.
    pub fn new(config: RetryBudgetConfig) -> Result<Self, GuardError> {
        let RetryBudgetConfig { share, floor, window } = config;
        if !(0.0..=10.0).contains(&share) {
            return Err(GuardError::new("share", share, "write a share from 0 to 10, such as 0.3"));
        }
        if millionths(share) == 0 && floor.is_none() {
            return Err(GuardError::new(
                "share",
                share,
                "write a share above 0 or a floor such as 10/s, or no retry could ever pass",
            ));
        }
        if window.is_zero() {
            return Err(GuardError::new("window", "0", "write a time such as 10s"));
        }
        Ok(Self::build(&config))
    }

    /// Of settings that were checked.
    fn build(config: &RetryBudgetConfig) -> Self {
        Self {
            share: millionths(config.share),
            counts: Buckets::new(nanos(config.window), BUCKETS),
            floor: config.floor.map(RateLimit::new),
            latest: 0,
        }
    }

    fn tick(&mut self, now: Duration) {
        self.latest = self.latest.max(nanos(now));
        self.counts.advance(self.latest);
    }

    /// Counts a first attempt.
    pub fn deposit(&mut self, now: Duration) {
        self.tick(now);
        self.counts.add(Counts { firsts: 1, retries: 0 });
    }

    /// Counts `n` first attempts of the moment `at`, which may have passed: they pay for as long as if they had been
    /// counted then. For counters beside the budget that are added up now and then.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::guard::{RetryBudget, RetryBudgetConfig};
    ///
    /// let mut budget = RetryBudget::new(RetryBudgetConfig { floor: None, ..RetryBudgetConfig::default() })?;
    /// let second = Duration::from_secs(1);
    /// budget.deposit(20 * second);
    /// budget.deposit_many(15 * second, 9);
    /// budget.deposit_many(5 * second, 1_000); // no longer in the window of 10 s
    /// assert_eq!((0..10).filter(|_| budget.try_spend(20 * second)).count(), 3);
    /// # Ok::<(), redrive_core::guard::GuardError>(())
    /// ```
    pub fn deposit_many(&mut self, at: Duration, n: u64) {
        self.tick(at);
        self.counts.add_at(nanos(at), Counts { firsts: n, retries: 0 });
    }

    /// When the window moves on: first attempts before this moment pay equally long.
    pub fn turns_at(&mut self, now: Duration) -> Duration {
        self.tick(now);
        Duration::from_nanos(self.counts.ends())
    }

    /// Lets a retry through and counts it; false when the budget is spent.
    #[must_use = "a retry may start only when it was let through"]
    pub fn try_spend(&mut self, now: Duration) -> bool {
        self.tick(now);
        if self.counts.total().has_room(self.share) {
            self.counts.add(Counts { firsts: 0, retries: 1 });
            return true;
        }
        let now = Duration::from_nanos(self.latest);
        self.floor.as_mut().is_some_and(|floor| floor.try_take(now, 1).is_ok())
    }

    /// How many retries the share has room for; what the floor lets through comes on top.
    pub fn room(&mut self, now: Duration) -> u64 {
        self.tick(now);
        self.counts.total().room(self.share)
    }

    /// Counts up to `n` retries ahead, as many as the share has room for, and says how many. They may start until the
    /// window [moves on](Self::turns_at): until then nothing leaves it that they were counted against. For whoever
    /// hands them out beside the budget.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::guard::{RetryBudget, RetryBudgetConfig};
    ///
    /// let mut budget = RetryBudget::new(RetryBudgetConfig { floor: None, ..RetryBudgetConfig::default() })?;
    /// let now = Duration::ZERO;
    /// budget.deposit_many(now, 20);
    /// assert_eq!(budget.room(now), 6);
    /// assert_eq!(budget.spend_ahead(now, 4), 4);
    /// assert_eq!(budget.spend_ahead(now, 4), 2);
    /// assert!(!budget.try_spend(now));
    /// # Ok::<(), redrive_core::guard::GuardError>(())
    /// ```
    #[must_use = "only so many retries may start"]
    pub fn spend_ahead(&mut self, now: Duration, n: u64) -> u64 {
        let taken = self.room(now).min(n);
        self.counts.add(Counts { firsts: 0, retries: taken });
        taken
    }

    /// Takes back `n` retries that were [counted ahead](Self::spend_ahead) at the moment `at` and did not start. What has
    /// left the window since then is left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::guard::{RetryBudget, RetryBudgetConfig};
    ///
    /// let mut budget = RetryBudget::new(RetryBudgetConfig { floor: None, ..RetryBudgetConfig::default() })?;
    /// let now = Duration::ZERO;
    /// budget.deposit_many(now, 20);
    /// assert_eq!(budget.spend_ahead(now, 6), 6);
    /// budget.take_back(now, 2);
    /// assert_eq!(budget.room(now), 2);
    /// # Ok::<(), redrive_core::guard::GuardError>(())
    /// ```
    pub fn take_back(&mut self, at: Duration, n: u64) {
        self.counts.take_back_at(nanos(at), Counts { firsts: 0, retries: n });
    }

    /// When a retry may pass if nothing else happens until then; `None` when only more first attempts can bring
    /// that about.
    pub fn next_at(&mut self, now: Duration) -> Option<Duration> {
        self.tick(now);
        let now = Duration::from_nanos(self.latest);
        if self.counts.total().has_room(self.share) {
            return Some(now);
        }
        let by_floor = self.floor.as_ref().map(|floor| now.saturating_add(floor.wait(now, 1)));
        let by_share = (1..=self.counts.len())
            .map(|buckets| self.counts.total_after(buckets))
            .find(|(counts, _)| counts.has_room(self.share))
            .map(|(_, at)| Duration::from_nanos(at));
        match (by_floor, by_share) {
            (Some(floor), Some(share)) => Some(floor.min(share)),
            (floor, share) => floor.or(share),
        }
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::build(&RetryBudgetConfig::default())
    }
}
