//! The course of one call, without waiting for anything: each step is told the time and says what comes next.
//!
//! The async and the blocking call, and the layers, only carry out what is said here.

use std::time::Duration;

use redrive_core::guard::Outcome;
use redrive_core::{Advice, Timestamp};

use crate::guard::{Ticket, nanos};
use crate::history::{Failed, History};
use crate::hooks::{Hooks, Next};
use crate::observe::Observed;
use crate::retryer::{Inner, Settings, Waits};
use crate::{Attempt, CallBudget, Cause, Classify, Judged, RetryError, Stop};

/// With less than this left, a recent reading of the clock is not good enough to say that the deadline has not passed.
/// A time that is shorter from the start is never measured with one.
pub(crate) const NEAR: Duration = Duration::from_millis(100);
const NEAR_NANOS: u64 = NEAR.as_nanos() as u64;

/// A timer ends with a whole millisecond, so less than this after its time.
const GRAIN: Duration = Duration::from_millis(1);
const GRAIN_NANOS: u64 = GRAIN.as_nanos() as u64;

/// A deadline that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Run<E> {
    // Nanoseconds on the clock of the retryer: a call compares times more often than it shows them.
    began: u64,
    deadline: u64,
    /// The attempt that runs or ran last; its number is 0 before the first.
    attempt: Attempt,
    attempt_began: u64,
    last_wait: Option<Duration>,
    history: History<E>,
    /// What the attempts say about the endpoint; nothing while none has reached it.
    shown: Option<Outcome>,
    ticket: Option<Ticket>,
    budget: Option<CallBudget>,
    observed: Observed,
}

/// A call whose first attempt was begun in the shortest way: nothing but a reading of the clock and a quiet breaker.
/// It holds nothing that would have to be given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick {
    pub(crate) began: u64,
    ticket: Option<Ticket>,
    pub(crate) attempt: Attempt,
}

impl Quick {
    /// Begins a call in the shortest way, where there is nothing to wait for and nobody to ask.
    #[inline]
    pub(crate) fn begin(settings: &Settings) -> Option<Self> {
        if !settings.is_plain || CallBudget::is_set() {
            return None;
        }
        let ticket = match &settings.breaker {
            None => None,
            Some(breaker) => Some(breaker.quiet_ticket()?),
        };
        let began = settings.reading();
        if let Some(budget) = &settings.budget {
            budget.deposit_at(began);
        }
        let attempt = Attempt { number: 1, of: settings.attempts, time: settings.first_time };
        Some(Self { began, ticket, attempt })
    }

    /// Ends a call whose first attempt succeeded at once.
    #[inline]
    pub(crate) fn succeed<E, C, H: Hooks<E>>(self, inner: &Inner<C, H>) {
        let settings = &inner.settings;
        let mut took = Duration::ZERO;
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket) {
            let mut now = self.began;
            if breaker.minds_time() {
                now = settings.now();
                took = since(now, self.began);
            }
            breaker.succeeded_at(now, ticket, took);
        }
        inner.hooks.succeeded(&self.attempt, took);
    }
}

impl<E> From<(Quick, &Settings)> for Run<E> {
    /// The call was not over at once.
    #[inline]
    fn from((quick, settings): (Quick, &Settings)) -> Self {
        Self {
            began: quick.began,
            deadline: settings.end_of(quick.began),
            attempt: quick.attempt,
            attempt_began: quick.began,
            last_wait: None,
            history: History::new(),
            shown: None,
            ticket: quick.ticket,
            budget: None,
            observed: Observed::NOTHING,
        }
    }
}

impl<E> Run<E> {
    /// Begins a call, if the breaker lets it.
    pub(crate) fn begin(settings: &Settings) -> Result<Self, RetryError<E>> {
        let call_budget = CallBudget::current();
        // A message tells its deadline by the exact time. Held against a reading that lags, one that has passed would
        // leave time for an attempt.
        let now = if call_budget.is_some() { settings.now() } else { settings.reading() };
        let ticket =
            match settings.breaker.as_ref().map(|breaker| breaker.admit_at(Duration::from_nanos(now))) {
                None => None,
                Some(Ok(ticket)) => Some(ticket),
                Some(Err(open)) => {
                    let mut observed = Observed::NOTHING;
                    observed.gave_up(settings, Stop::Breaker(open), false);
                    return Err(RetryError::new(Stop::Breaker(open), Vec::new(), Duration::ZERO, None));
                }
            };
        let mut deadline = settings.end_of(now);
        if let Some(left) = call_budget.as_ref().and_then(CallBudget::time_left) {
            deadline = deadline.min(now.saturating_add(nanos(left)));
        }
        Ok(Self {
            began: now,
            deadline,
            attempt: Attempt { number: 0, of: settings.attempts, time: None },
            attempt_began: now,
            last_wait: None,
            history: History::new(),
            shown: None,
            ticket,
            budget: call_budget,
            observed: Observed::NOTHING,
        })
    }

    /// The time that a recent reading may be taken for: exact when the deadline is near.
    #[inline]
    pub(crate) fn recent(&self, settings: &Settings) -> u64 {
        let recent = settings.reading();
        if self.deadline.saturating_sub(recent) < NEAR_NANOS { settings.now() } else { recent }
    }

    /// When the call began, or an attempt before this one ended.
    #[inline]
    pub(crate) fn since(&self) -> u64 {
        self.attempt_began
    }

    /// The time that is left for the call; nothing means without limit.
    #[inline]
    pub(crate) fn left(&self, now: u64) -> Option<Duration> {
        (self.deadline != NEVER).then(|| since(self.deadline, now))
    }

    /// Takes a turn of the rate limit, and says how long to wait for it.
    pub(crate) fn take_turn(&self, settings: &Settings, now: u64) -> Result<Duration, Stop> {
        self.ask_call_budget(settings, now)?;
        let Some(limiter) = &settings.rate_limit else { return Ok(Duration::ZERO) };
        // A turn that nobody uses is lost for others.
        self.ask_breaker(settings, now)?;
        if let Ok(turn) = limiter.reserve_at(Duration::from_nanos(now), Duration::ZERO) {
            return Ok(turn);
        }
        // What is waited for has to come before the deadline, which a recent reading of the clock cannot tell.
        let now = settings.now();
        let longest = self.longest_wait(settings, now)?.unwrap_or(Duration::MAX);
        limiter.reserve_at(Duration::from_nanos(now), longest).map_err(Stop::Rate)
    }

    /// How long a guard may be waited for; nothing means without limit. What is left after it has to be of use: the time of an attempt, or half of
    /// what there is now where an attempt may take longer than that. A call that spends its deadline in a queue only
    /// to be cut as soon as it is sent costs the endpoint the work and the caller the answer.
    pub(crate) fn longest_wait(&self, settings: &Settings, now: u64) -> Result<Option<Duration>, Stop> {
        let Some(left) = self.left(now) else { return Ok(None) };
        if left.is_zero() {
            return Err(Stop::Deadline);
        }
        let useful = settings.attempt_timeout.map_or(left / 2, |timeout| timeout.min(left / 2));
        Ok(Some(left.saturating_sub(useful).saturating_sub(GRAIN)))
    }

    /// Whether the breaker has opened since the call began: by the failures of others, while this one waited.
    #[inline]
    fn ask_breaker(&self, settings: &Settings, now: u64) -> Result<(), Stop> {
        match (&settings.breaker, self.ticket) {
            (Some(breaker), Some(ticket)) if breaker.has_opened_since(ticket) => {
                Err(Stop::Breaker(breaker.opens_in(Duration::from_nanos(now))))
            }
            _ => Ok(()),
        }
    }

    /// Whether a call is left for an attempt: without one it has no use for a turn or a place, and others have. It is
    /// taken when the attempt begins, since what a guard refuses is not charged.
    #[inline]
    pub(crate) fn ask_call_budget(&self, settings: &Settings, now: u64) -> Result<(), Stop> {
        if self.budget.as_ref().is_some_and(|budget| budget.left() == Some(0)) {
            self.ask_breaker(settings, now)?;
            return Err(Stop::CallBudget);
        }
        Ok(())
    }

    /// Whether the next attempt is not the first.
    #[inline]
    pub(crate) fn is_retry(&self) -> bool {
        self.attempt.number > 0
    }

    /// Begins the next attempt. What the last one's error holds on to is let go only now: until here it may be the
    /// last one there is.
    #[inline]
    pub(crate) fn start<T, X, C, H>(&mut self, inner: &Inner<C, H>, now: u64) -> Result<Attempt, Stop>
    where
        C: Classify<T, X, Error = E>,
        H: Hooks<E>,
    {
        self.ask_breaker(&inner.settings, now)?;
        let left = self.deadline.saturating_sub(now);
        if left == 0 {
            return Err(Stop::Deadline);
        }
        if self.budget.as_ref().is_some_and(|budget| !budget.try_take()) {
            return Err(Stop::CallBudget);
        }
        if let Some(Cause::Error(error)) = self.history.last_mut() {
            inner.classifier.let_go(error);
        }
        // What a guard has refused is no call that the endpoint got, and pays for no retry.
        if self.attempt.number == 0
            && let Some(budget) = &inner.settings.budget
        {
            budget.deposit_at(now);
        }
        self.attempt.number += 1;
        self.attempt.time = match inner.settings.attempt_timeout {
            Some(timeout) if left >= nanos(timeout) => Some(timeout),
            _ => self.left(now),
        };
        self.attempt_began = now;
        inner.hooks.starting(&self.attempt);
        self.observed.starting(&inner.settings, self.attempt.number, self.last_wait);
        Ok(self.attempt)
    }

    /// Runs a part of the attempt inside its span.
    #[inline]
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.observed.inside(work)
    }

    /// How long the attempt under way may still take; nothing means without limit.
    pub(crate) fn attempt_left(&self, now: u64) -> Option<Duration> {
        self.attempt.time.map(|time| since(self.attempt_began.saturating_add(nanos(time)), now))
    }

    /// What follows from the result of an attempt.
    #[inline]
    pub(crate) fn ended<T, X, C, H>(
        &mut self,
        inner: &Inner<C, H>,
        judged: Judged<T, E>,
        now: impl FnOnce(&Self) -> u64,
        repeatable: impl FnOnce() -> bool,
    ) -> After<T>
    where
        C: Classify<T, X, Error = E>,
        H: Hooks<E>,
    {
        let (error, asked, shown, may_pass) = match judged {
            Judged::Done(value) => return After::Done(value),
            Judged::Retry { error, after } => (error, after, Some(Outcome::Failure), true),
            Judged::NotYet { error, after } => (error, after, Some(Outcome::Ignored), true),
            Judged::Fail(error) => (error, None, Some(Outcome::Ignored), false),
            Judged::NotMade(error) => {
                self.not_made();
                (error, None, None, false)
            }
        };
        self.shown = shown.or(self.shown);
        let now = now(self);
        let next = if may_pass {
            self.next(&inner.settings, now, asked, repeatable())
        } else {
            Next::Stop(Stop::Final)
        };
        self.failed(inner, now, Cause::Error(error), asked, next)
    }

    /// The attempt did not reach the endpoint: what attempts before it have shown stands, and its call is not charged.
    #[cold]
    fn not_made(&self) {
        if let Some(budget) = &self.budget {
            budget.give_back();
        }
    }

    /// What follows from an attempt whose time is over.
    #[cold]
    pub(crate) fn timed_out<T, C, H: Hooks<E>>(
        &mut self,
        inner: &Inner<C, H>,
        now: u64,
        repeatable: bool,
    ) -> After<T> {
        let had = self.attempt.time.unwrap_or_default();
        // One that was cut short shows nothing: a queue of this client's own had used up the time, or the message had
        // little left of its own. Neither does one that may have spent all of it in such a queue.
        if !inner.settings.is_behind_guard && nanos(had) >= self.whole_time(&inner.settings) {
            self.shown = Some(Outcome::Failure);
        }
        let cause = Cause::TimedOut(had);
        let next = self.next(&inner.settings, now, None, repeatable);
        self.failed(inner, now, cause, None, next)
    }

    /// The time of an attempt that nothing was taken from.
    fn whole_time(&self, settings: &Settings) -> u64 {
        let call = settings.end_of(self.began).saturating_sub(self.began);
        settings.attempt_timeout.map_or(call, |timeout| call.min(nanos(timeout)))
    }

    #[inline]
    fn failed<T, C, H: Hooks<E>>(
        &mut self,
        inner: &Inner<C, H>,
        now: u64,
        cause: Cause<E>,
        asked: Option<Duration>,
        next: Next,
    ) -> After<T> {
        inner.hooks.failed(&self.attempt, &cause, &next);
        Observed::failed(&inner.settings, &cause);
        let began = self.attempt_began.saturating_sub(self.began);
        let took = now.saturating_sub(self.attempt_began);
        self.history.push(Failed { began, took, asked, cause });
        self.attempt_began = now;
        match next {
            Next::Retry(wait) => After::Wait(wait),
            Next::Stop(stop) => After::Stop(stop),
        }
    }

    /// Decides whether there is another attempt. What costs others something, a retry of the shared budget, comes
    /// last.
    #[expect(clippy::inline_always, reason = "as a function of its own it costs a zero wait a tenth more")]
    #[inline(always)]
    fn next(&mut self, settings: &Settings, now: u64, asked: Option<Duration>, repeatable: bool) -> Next {
        if self.attempt.is_last() {
            return Next::Stop(Stop::Attempts);
        }
        if !repeatable {
            return Next::Stop(Stop::NotRepeatable);
        }
        let left = self.deadline.saturating_sub(now);
        if left == 0 {
            return Next::Stop(Stop::Deadline);
        }
        if let Err(stop) = self.ask_breaker(settings, now) {
            return Next::Stop(stop);
        }
        let wait = self.wait(settings, asked);
        if !wait.is_zero()
            && let Some(left) = self.too_little_left(settings, left, wait)
        {
            return Next::Stop(Stop::NoTimeToWait { wait, left });
        }
        if self.budget.as_ref().is_some_and(|budget| budget.left() == Some(0)) {
            return Next::Stop(Stop::CallBudget);
        }
        if settings.budget.as_ref().is_some_and(|budget| !budget.try_spend_at(now)) {
            return Next::Stop(Stop::Budget);
        }
        self.last_wait = Some(wait);
        Next::Retry(wait)
    }

    /// The time that is left, when a wait could not end before the deadline.
    fn too_little_left(&self, settings: &Settings, left: u64, wait: Duration) -> Option<Duration> {
        let needed = nanos(wait).saturating_add(GRAIN_NANOS);
        if needed.saturating_add(NEAR_NANOS) <= left {
            return None;
        }
        // The reading may have been a recent one, by which more is left than there is.
        let left = self.deadline.saturating_sub(settings.now());
        (needed > left).then(|| Duration::from_nanos(left))
    }

    #[inline]
    fn wait(&self, settings: &Settings, asked: Option<Duration>) -> Duration {
        let (least, longest) = settings.retry_after;
        let mut random = &settings.random;
        let advised = asked.and_then(|asked| {
            Advice::new(asked, least, longest).wait(settings.schedule.jitter(), &mut random)
        });
        advised.unwrap_or_else(|| {
            let now = match settings.waits {
                Waits::None => return Duration::ZERO,
                Waits::Calendar => settings.clock.wall(),
                Waits::Spans => Timestamp::default(),
            };
            let step = self.attempt.number.saturating_sub(1);
            let wait = settings.schedule.sample(step, &settings.limits, self.last_wait, now, &mut random);
            wait.unwrap_or_default()
        })
    }

    /// Ends a call that succeeded.
    #[inline]
    pub(crate) fn succeed<C, H: Hooks<E>>(&mut self, inner: &Inner<C, H>, suspended: bool) {
        let settings = &inner.settings;
        let minds_time = settings.breaker.as_ref().is_some_and(crate::CircuitBreaker::minds_time);
        let now = if suspended || minds_time { settings.now() } else { self.attempt_began };
        let took = since(now, self.began);
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket.take()) {
            breaker.succeeded_at(now, ticket, took);
        }
        inner.hooks.succeeded(&self.attempt, took);
        self.observed.succeeded(settings);
    }

    /// Ends a call that failed.
    #[cold]
    pub(crate) fn give_up<C, H>(&mut self, inner: &Inner<C, H>, stop: Stop) -> RetryError<E> {
        let settings = &inner.settings;
        let now = Duration::from_nanos(settings.now());
        let took = now.saturating_sub(Duration::from_nanos(self.began));
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket.take()) {
            match self.shown {
                Some(outcome) => breaker.report_at(now, ticket, outcome, took),
                None => breaker.withdraw(ticket),
            }
        }
        self.observed.gave_up(settings, stop, !self.history.is_empty());
        RetryError::new(stop, self.history.take(), took, self.shown)
    }

    /// Ends a call that nobody waits for any more: it says nothing about the endpoint.
    #[inline]
    pub(crate) fn cancel(&mut self, settings: &Settings) {
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket.take()) {
            breaker.withdraw(ticket);
        }
        self.observed.cancelled();
    }
}

/// The time from one moment to another.
#[inline]
fn since(now: u64, then: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(then))
}

/// What follows an attempt.
pub(crate) enum After<T> {
    /// The call is done.
    Done(T),
    /// Another attempt, after this wait.
    Wait(Duration),
    /// The call failed.
    Stop(Stop),
}
