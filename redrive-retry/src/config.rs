//! What a retryer can be told, its defaults, and what it refuses to be told.

use std::time::Duration;

use redrive_core::guard::{GuardError, RetryBudgetConfig};
use redrive_core::{Jitter, Limits, Schedule, ScheduleError};

use crate::classify::{ErrorsThat, ResultsBy};
use crate::random::Source;
use crate::retryer::{Inner, Settings, Waits};
use crate::run::NEAR;
use crate::{
    Bulkhead, CircuitBreaker, EveryError, Judged, NoHooks, RateLimiter, Retryer, SharedBudget, SharedClock,
};

/// Attempts of a call, the first included.
pub const ATTEMPTS: u32 = 5;
/// The first wait, before jitter.
pub const BASE: Duration = Duration::from_millis(200);
/// What each wait is multiplied by.
pub const FACTOR: f64 = 2.0;
/// The longest wait, and the longest `Retry-After` that is taken.
pub const CAP: Duration = Duration::from_secs(3);
/// The time of the whole call.
pub const DEADLINE: Duration = Duration::from_secs(8);
/// The time of one attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time to get a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// More than this is a loop and not a retry.
const MOST_ATTEMPTS: u32 = 1_000;

/// Settings of a [`Retryer`].
///
/// | setting | default |
/// |---|---|
/// | [`attempts`](Self::attempts) | 5, the first included; with a schedule of its own, one more than it has waits |
/// | [`base`](Self::base), [`factor`](Self::factor), [`cap`](Self::cap) | 200 ms, 2, 3 s |
/// | [`jitter`](Self::jitter) | full: each wait is uniform from 0 to what the schedule says |
/// | [`deadline`](Self::deadline) | 8 s for the whole call |
/// | [`attempt_timeout`](Self::attempt_timeout) | 2 s |
/// | [`connect_timeout`](Self::connect_timeout) | 3 s, for the clients that this crate makes |
/// | [`retry_after`](Self::retry_after) | taken, at most 3 s |
/// | [`retry_if`](Self::retry_if), [`judge`](Self::judge) | every error is retried |
/// | [`budget`](Self::budget) | its own, of the default settings: 30 % of its calls and 10 a second |
/// | breaker, bulkhead, rate limit, telemetry | none |
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<C = EveryError, H = NoHooks> {
    classifier: C,
    hooks: H,
    given: Given,
}

/// What was said, as it was said: some defaults depend on what else was.
#[derive(Debug, Clone, Default)]
struct Given {
    attempts: Option<u32>,
    base: Option<Duration>,
    factor: Option<f64>,
    cap: Option<Duration>,
    jitter: Option<Jitter>,
    schedule: Option<Schedule>,
    deadline: Choice<Duration>,
    attempt_timeout: Choice<Duration>,
    connect_timeout: Option<Duration>,
    retry_after: Option<(Duration, Duration)>,
    budget: Choice<SharedBudget>,
    breaker: Option<CircuitBreaker>,
    bulkhead: Option<Bulkhead>,
    rate_limit: Option<RateLimiter>,
    behind_guard: bool,
    clock: SharedClock,
    seed: Option<u64>,
    #[cfg(feature = "telemetry")]
    telemetry: Option<crate::telemetry::Telemetry>,
}

/// A setting that has a default and can be left away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Choice<T> {
    #[default]
    Unsaid,
    None,
    Of(T),
}

impl<T> Choice<T> {
    fn or(self, default: T) -> Option<T> {
        match self {
            Self::Unsaid => Some(default),
            Self::None => None,
            Self::Of(value) => Some(value),
        }
    }
}

/// Why settings do not make a retryer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No attempt, or too many.
    #[error("`attempts` is {0}; write 1 to {MOST_ATTEMPTS}, the first attempt included")]
    Attempts(u32),
    /// More attempts than the schedule has waits for.
    #[error(
        "`attempts` is {attempts}, and the schedule ends after {allowed}; leave `attempts` out, or let the schedule go on with `forever`"
    )]
    ScheduleTooShort {
        /// The attempts that were asked for.
        attempts: u32,
        /// The attempts that the schedule allows.
        allowed: u32,
    },
    /// A schedule, and the parts of another.
    #[error(
        "`{0}` was set beside `schedule`, which says that already; leave one of them out (`cap` goes with both)"
    )]
    ScheduleTwice(&'static str),
    /// The waits make no schedule.
    #[error("the waits make no schedule: expected {0}")]
    Schedule(#[from] ScheduleError),
    /// A time of zero.
    #[error("`{0}` is 0, and nothing could be done in no time; write a time such as 2s")]
    NoTime(&'static str),
    /// One attempt is longer than the whole call.
    #[error(
        "`attempt_timeout` is {attempt:?}, longer than the `deadline` of {deadline:?}; write a shorter one"
    )]
    AttemptLongerThanCall {
        /// The timeout of one attempt.
        attempt: Duration,
        /// The deadline.
        deadline: Duration,
    },
    /// The least wait after a `Retry-After` is over the longest.
    #[error("`retry_after` goes from {least:?} to {longest:?}; write the shorter one first")]
    RetryAfter {
        /// The least.
        least: Duration,
        /// The longest.
        longest: Duration,
    },
    /// A guard goes by another clock than the retryer.
    #[error("the {0} goes by another clock than the retryer; make both with the same one")]
    OtherClock(&'static str),
    /// A guard cannot be made of its settings.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { classifier: EveryError, hooks: NoHooks, given: Given::default() }
    }
}

impl<C, H> Builder<C, H> {
    /// How many attempts there may be, the first included.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.given.attempts = Some(attempts);
        self
    }

    /// The first wait, before jitter.
    pub fn base(mut self, base: Duration) -> Self {
        self.given.base = Some(base);
        self
    }

    /// What each wait is multiplied by, from 1 to 1000.
    pub fn factor(mut self, factor: f64) -> Self {
        self.given.factor = Some(factor);
        self
    }

    /// The longest wait.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.given.cap = Some(cap);
        self
    }

    /// How waits are spread.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.given.jitter = Some(jitter);
        self
    }

    /// Waits of any other shape, with their jitter: `"100ms x2, 1s jitter full".parse()?`.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.given.schedule = Some(schedule);
        self
    }

    /// The time of the whole call, attempts and waits together.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.given.deadline = Choice::Of(deadline);
        self
    }

    /// No deadline but that of whoever calls.
    pub fn no_deadline(mut self) -> Self {
        self.given.deadline = Choice::None;
        self
    }

    /// The time of one attempt. An attempt that takes longer is dropped and counts as failed.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.given.attempt_timeout = Choice::Of(timeout);
        self
    }

    /// No time of its own for an attempt, only the deadline.
    pub fn no_attempt_timeout(mut self) -> Self {
        self.given.attempt_timeout = Choice::None;
        self
    }

    /// The time to get a connection, for the clients that this crate makes.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.given.connect_timeout = Some(timeout);
        self
    }

    /// What is made of a `Retry-After`: held between these two. `Duration::ZERO` twice takes no heed of it.
    ///
    /// With a longest that is over the deadline, an endpoint that asks for more time than there is ends the call.
    pub fn retry_after(mut self, least: Duration, longest: Duration) -> Self {
        self.given.retry_after = Some((least, longest));
        self
    }

    /// The budget that retries draw on, shared with other clients of the same endpoint.
    pub fn budget(mut self, budget: SharedBudget) -> Self {
        self.given.budget = Choice::Of(budget);
        self
    }

    /// No budget: each call may use all its attempts, also when every call does.
    pub fn no_budget(mut self) -> Self {
        self.given.budget = Choice::None;
        self
    }

    /// The circuit breaker around the whole call.
    pub fn breaker(mut self, breaker: CircuitBreaker) -> Self {
        self.given.breaker = Some(breaker);
        self
    }

    /// The bulkhead that every attempt takes a place in.
    pub fn bulkhead(mut self, bulkhead: Bulkhead) -> Self {
        self.given.bulkhead = Some(bulkhead);
        self
    }

    /// The rate that attempts start at.
    pub fn rate_limit(mut self, limiter: RateLimiter) -> Self {
        self.given.rate_limit = Some(limiter);
        self
    }

    /// Another clock; [`TokioClock`](crate::TokioClock) follows tokio's time where a test has paused it.
    pub fn clock(mut self, clock: impl Into<SharedClock>) -> Self {
        self.given.clock = clock.into();
        self
    }

    /// Random numbers that follow from a seed, so that a test can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.given.seed = Some(seed);
        self
    }

    /// Counters, a histogram of waits and spans under this name.
    #[cfg(feature = "telemetry")]
    pub fn telemetry(mut self, telemetry: crate::telemetry::Telemetry) -> Self {
        self.given.telemetry = Some(telemetry);
        self
    }

    /// Retries the errors for which the function says so; any other ends the call.
    ///
    /// ```
    /// use std::io;
    /// use redrive_retry::Retryer;
    ///
    /// let retryer = Retryer::builder()
    ///     .retry_if(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset)
    ///     .build()?;
    /// # let _: Result<(), _> = retryer.call_blocking(|_| Err(io::Error::other("no")));
    /// # Ok::<(), redrive_retry::BuildError>(())
    /// ```
    pub fn retry_if<E, F: Fn(&E) -> bool>(self, retry: F) -> Builder<ErrorsThat<F>, H> {
        self.classify(ErrorsThat(retry))
    }

    /// Judges each result, value or error, with a function.
    ///
    /// ```
    /// use redrive_retry::{Judged, Retryer};
    ///
    /// // An empty page is not the answer yet.
    /// let retryer = Retryer::builder()
    ///     .judge(|result: Result<Vec<u8>, String>| match result {
    ///         Ok(page) if page.is_empty() => Judged::retry("an empty page".to_owned()),
    ///         Ok(page) => Judged::Done(page),
    ///         Err(error) => Judged::Fail(error),
    ///     })
    ///     .build()?;
    /// # assert!(retryer.call_blocking(|_| Ok(vec![1])).is_ok());
    /// # Ok::<(), redrive_retry::BuildError>(())
    /// ```
    pub fn judge<T, E, X, F>(self, judge: F) -> Builder<ResultsBy<F>, H>
    where
        F: Fn(Result<T, E>) -> Judged<T, X>,
    {
        self.classify(ResultsBy(judge))
    }

    /// Judges each result with a [`Classify`](crate::Classify) of any other kind.
    pub fn classify<C2>(self, classifier: C2) -> Builder<C2, H> {
        Builder { classifier, hooks: self.hooks, given: self.given }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn wrap_behind_guard<C2>(self, wrap: impl FnOnce(C) -> C2) -> Builder<C2, H> {
        let given = Given { behind_guard: true, ..self.given };
        Builder { classifier: wrap(self.classifier), hooks: self.hooks, given }
    }

    /// What is told about each attempt.
    pub fn hooks<H2>(self, hooks: H2) -> Builder<C, H2> {
        Builder { classifier: self.classifier, hooks, given: self.given }
    }

    /// The retryer, or the first setting that makes no sense.
    pub fn build(self) -> Result<Retryer<C, H>, BuildError> {
        let settings = self.given.settings()?;
        Ok(Retryer::new(Inner { classifier: self.classifier, hooks: self.hooks, settings }))
    }
}

impl Given {
    fn settings(self) -> Result<Settings, BuildError> {
        let (schedule, cap) = self.waits()?;
        let attempts = self.allowed(&schedule)?;
        let deadline = self.deadline.or(DEADLINE);
        let attempt_timeout =
            self.attempt_timeout.or(ATTEMPT_TIMEOUT.min(deadline.unwrap_or(ATTEMPT_TIMEOUT)));
        let connect_timeout = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        let times = [("deadline", deadline), ("attempt_timeout", attempt_timeout)];
        for (name, time) in times.into_iter().chain([("connect_timeout", Some(connect_timeout))]) {
            if time.is_some_and(|time| time.is_zero()) {
                return Err(BuildError::NoTime(name));
            }
        }
        if let (Some(attempt), Some(deadline)) = (attempt_timeout, deadline)
            && attempt > deadline
        {
            return Err(BuildError::AttemptLongerThanCall { attempt, deadline });
        }
        let retry_after = self.retry_after.unwrap_or((Duration::ZERO, CAP));
        if retry_after.0 > retry_after.1 {
            return Err(BuildError::RetryAfter { least: retry_after.0, longest: retry_after.1 });
        }
        let own = SharedBudget::with_clock(RetryBudgetConfig::default(), self.clock.clone())?;
        let budget = self.budget.or(own);
        let clocks = [
            ("retry budget", budget.as_ref().map(SharedBudget::clock)),
            ("circuit breaker", self.breaker.as_ref().map(CircuitBreaker::clock)),
            ("rate limit", self.rate_limit.as_ref().map(RateLimiter::clock)),
        ];
        if let Some((name, _)) =
            clocks.iter().find(|(_, clock)| clock.is_some_and(|clock| !clock.same(&self.clock)))
        {
            return Err(BuildError::OtherClock(name));
        }
        let first_time = match (attempt_timeout, deadline) {
            (Some(attempt), Some(deadline)) => Some(attempt.min(deadline)),
            (attempt, deadline) => attempt.or(deadline),
        };
        let minds_time = self.breaker.as_ref().is_some_and(CircuitBreaker::minds_time);
        #[cfg(feature = "telemetry")]
        let is_observed = self.telemetry.is_some();
        #[cfg(not(feature = "telemetry"))]
        let is_observed = false;
        Ok(Settings {
            is_plain: self.rate_limit.is_none() && self.bulkhead.is_none() && !is_observed,
            is_exact: minds_time || first_time.is_some_and(|time| time < NEAR),
            first_time,
            attempts,
            waits: Waits::of(&schedule),
            schedule,
            limits: Limits { cap, ..Limits::NONE },
            deadline,
            attempt_timeout,
            connect_timeout,
            retry_after,
            budget,
            breaker: self.breaker,
            bulkhead: self.bulkhead,
            rate_limit: self.rate_limit,
            is_behind_guard: self.behind_guard,
            clock: self.clock,
            random: Source::new(self.seed),
            #[cfg(feature = "telemetry")]
            telemetry: self.telemetry,
        })
    }

    /// The schedule, and the cap that holds beside it.
    fn waits(&self) -> Result<(Schedule, Option<Duration>), BuildError> {
        if let Some(schedule) = &self.schedule {
            let twice = [
                ("base", self.base.is_some()),
                ("factor", self.factor.is_some()),
                ("jitter", self.jitter.is_some()),
            ];
            if let Some((name, _)) = twice.into_iter().find(|(_, given)| *given) {
                return Err(BuildError::ScheduleTwice(name));
            }
            return Ok((schedule.clone(), self.cap));
        }
        // A default gives way to what was said beside it.
        let base = self.base.unwrap_or(BASE.min(self.cap.unwrap_or(BASE)));
        let cap = self.cap.unwrap_or(CAP.max(base));
        let jitter = self.jitter.unwrap_or(Jitter::Full);
        let factor = self.factor.unwrap_or(FACTOR);
        let growing = if base.is_zero() {
            // No wait at all, by order; the factor is still looked at.
            Schedule::exponential(BASE, factor).build()?;
            Schedule::fixed(base)
        } else {
            Schedule::exponential(base, factor).max(cap)
        };
        Ok((growing.forever().jitter(jitter).build()?, Some(cap)))
    }

    fn allowed(&self, schedule: &Schedule) -> Result<u32, BuildError> {
        let by_schedule = schedule.len().map(|waits| waits.saturating_add(1));
        let attempts = self.attempts.or(by_schedule).unwrap_or(ATTEMPTS);
        if !(1..=MOST_ATTEMPTS).contains(&attempts) {
            return Err(BuildError::Attempts(attempts));
        }
        match by_schedule.filter(|allowed| attempts > *allowed) {
            Some(allowed) => Err(BuildError::ScheduleTooShort { attempts, allowed }),
            None => Ok(attempts),
        }
    }
}
