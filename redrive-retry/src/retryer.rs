//! The retryer itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::{Limits, Schedule};

use crate::call::Call;
use crate::guard::nanos;
use crate::random::Source;
use crate::run::NEVER;
use crate::{
    Attempt, Builder, Bulkhead, CircuitBreaker, Classify, EveryError, Hooks, NoHooks, RateLimiter,
    RetryError, SharedBudget, SharedClock,
};

/// Makes calls within a deadline, and repeats those that fail and may work another time. Clones share everything.
///
/// ```
/// use redrive_retry::Retryer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let retryer = Retryer::builder().build()?; // 5 attempts within 8 s; see `Builder` for all defaults
/// let mut calls = 0;
/// let answer = retryer
///     .call(|_attempt| {
///         calls += 1;
///         let result = if calls < 3 { Err("busy") } else { Ok(42) };
///         async move { result }
///     })
///     .await;
/// assert_eq!(answer.ok(), Some(42));
/// assert_eq!(calls, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Retryer<C = EveryError, H = NoHooks> {
    inner: Arc<Inner<C, H>>,
}

#[derive(Debug)]
pub(crate) struct Inner<C, H> {
    pub(crate) classifier: C,
    pub(crate) hooks: H,
    pub(crate) settings: Settings,
}

/// Everything but the types that calls are made of.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Nothing stands before an attempt that would have to be waited for.
    pub(crate) is_plain: bool,
    /// Some time is so short, or of such interest, that a recent reading of the clock will not do.
    pub(crate) is_exact: bool,
    /// The time of a first attempt.
    pub(crate) first_time: Option<Duration>,
    pub(crate) attempts: u32,
    pub(crate) schedule: Schedule,
    pub(crate) waits: Waits,
    pub(crate) limits: Limits,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_after: (Duration, Duration),
    pub(crate) budget: Option<SharedBudget>,
    pub(crate) breaker: Option<CircuitBreaker>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) rate_limit: Option<RateLimiter>,
    /// Attempts may wait for a guard where nobody sees it.
    pub(crate) is_behind_guard: bool,
    pub(crate) clock: SharedClock,
    pub(crate) random: Source,
    #[cfg(feature = "telemetry")]
    pub(crate) telemetry: Option<crate::telemetry::Telemetry>,
}

/// What the waits of a schedule need to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: each is of zero length.
    None,
    /// The time of day.
    Calendar,
    /// The number of the attempt.
    Spans,
}

impl Waits {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        if schedule.longest().is_zero() {
            Self::None
        } else if schedule.follows_calendar() {
            Self::Calendar
        } else {
            Self::Spans
        }
    }
}

impl Settings {
    /// The time in nanoseconds.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        nanos(self.clock.now())
    }

    /// When a call ends that began then.
    #[inline]
    pub(crate) fn end_of(&self, began: u64) -> u64 {
        self.deadline.map_or(NEVER, |deadline| began.saturating_add(nanos(deadline)))
    }

    /// The time in nanoseconds, as exactly as these settings need it.
    #[inline]
    pub(crate) fn reading(&self) -> u64 {
        if self.is_exact { self.now() } else { nanos(self.clock.recent()) }
    }
}

impl Retryer {
    /// A retryer with defaults, to be changed.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<C, H> Retryer<C, H> {
    pub(crate) fn new(inner: Inner<C, H>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn inner(&self) -> &Inner<C, H> {
        &self.inner
    }

    /// Calls an operation until it succeeds, fails for good, or nothing is left to try it with.
    ///
    /// The function is called once for each attempt. The future may be dropped at any moment: the attempt under way is
    /// dropped with it, nothing is held any more, and a breaker is told nothing. What was counted stays counted: the call,
    /// once its first attempt began, and the retry that it waited for, in the retry budget, and the attempts that began, in
    /// the budget of calls. An
    /// attempt that succeeds without a failure before it allocates nothing.
    #[inline]
    pub fn call<F, Fut, T, E>(&self, operation: F) -> Call<&Self, F, C::Error>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
        H: Hooks<C::Error>,
    {
        Call::new(self, operation)
    }

    /// The same on this thread, which sleeps through the waits.
    ///
    /// An operation that blocks cannot be stopped from outside, so the time of an attempt is told to it
    /// ([`Attempt::time`]), for the timeout of its socket. One that comes back late all the same is a success if it
    /// succeeded; if it failed, the deadline decides.
    pub fn call_blocking<T, E>(
        &self,
        operation: impl FnMut(Attempt) -> Result<T, E>,
    ) -> Result<T, RetryError<C::Error>>
    where
        C: Classify<T, E>,
        H: Hooks<C::Error>,
    {
        crate::blocking::call(&self.inner, operation)
    }

    /// How many attempts there may be.
    pub fn attempts(&self) -> u32 {
        self.inner.settings.attempts
    }

    /// The time to get a connection, for whoever makes the client.
    pub fn connect_timeout(&self) -> Duration {
        self.inner.settings.connect_timeout
    }

    /// The budget that retries draw on.
    pub fn budget(&self) -> Option<&SharedBudget> {
        self.inner.settings.budget.as_ref()
    }

    /// The breaker around its calls.
    pub fn breaker(&self) -> Option<&CircuitBreaker> {
        self.inner.settings.breaker.as_ref()
    }
}

impl<C, H> Clone for Retryer<C, H> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C, H> fmt::Debug for Retryer<C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retryer").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}
