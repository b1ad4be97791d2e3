//! A rate that several clients keep to together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::guard::{GuardError, Rate, RateLimit};

use super::locked;
use crate::SharedClock;

/// How often attempts may start, in the order in which they came. Clones share it.
///
/// Inside a [`Retryer`](crate::Retryer) every attempt takes a turn, retries too: a limit that only first attempts keep
/// is none in an outage. A turn that would leave too little of the deadline for an attempt is not taken.
///
/// ```
/// use redrive_retry::RateLimiter;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limiter = RateLimiter::new("500/s".parse()?);
/// limiter.acquire(std::time::Duration::from_secs(1)).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RateLimiter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<RateLimit>,
    clock: SharedClock,
}

/// No turn is free soon enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit has no turn free for {wait:?}, and no more than {longest:?} may be waited for one")]
pub struct RateSpent {
    /// How long the wait would be.
    pub wait: Duration,
    /// How long it may be.
    pub longest: Duration,
}

impl RateLimiter {
    /// A limit with a burst of one second's worth.
    pub fn new(rate: Rate) -> Self {
        Self::of(RateLimit::new(rate), SharedClock::default())
    }

    /// A limit with a burst of its own, at least 1.
    pub fn with_burst(rate: Rate, burst: u32) -> Result<Self, GuardError> {
        Ok(Self::of(RateLimit::with_burst(rate, burst)?, SharedClock::default()))
    }

    /// A limit that goes by another clock.
    pub fn with_clock(rate: Rate, burst: u32, clock: impl Into<SharedClock>) -> Result<Self, GuardError> {
        Ok(Self::of(RateLimit::with_burst(rate, burst)?, clock.into()))
    }

    fn of(limit: RateLimit, clock: SharedClock) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(limit), clock }) }
    }

    /// Waits for a turn, at most so long; refuses at once when that is not long enough.
    ///
    /// A turn that is given up while waiting is lost: the rate is kept from above.
    pub async fn acquire(&self, longest: Duration) -> Result<(), RateSpent> {
        let wait = self.reserve_at(self.inner.clock.now(), longest)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Takes a turn if one is free now; else says how long to wait.
    pub fn try_acquire(&self) -> Result<(), RateSpent> {
        self.reserve_at(self.inner.clock.now(), Duration::ZERO).map(drop)
    }

    pub(crate) fn reserve_at(&self, now: Duration, longest: Duration) -> Result<Duration, RateSpent> {
        locked(&self.inner.state).reserve(now, 1, longest).map_err(|wait| RateSpent { wait, longest })
    }

    pub(crate) fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }
}
