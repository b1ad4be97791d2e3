//! The course of one call, without waiting for anything: each step is told the time and says what comes next.
//!
//! The async and the blocking call, and the layers, only carry out what is said here.

use std::time::Duration;

use redrive_core::guard::Outcome;
use redrive_core::{Advice, Timestamp};

use crate::guard::Ticket;
use crate::hooks::{Hooks, Next};
use crate::observe::Observed;
use crate::retryer::{Inner, Settings};
use crate::{Attempt, CallBudget, Cause, Classify, Judged, RetryError, Stop, Tried};

/// With less than this left, a recent reading of the clock is not good enough to say that the deadline has not passed.
const NEAR: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Run<E> {
    began: Duration,
    /// On the clock of the retryer.
    deadline: Option<Duration>,
    /// The attempt that runs or ran last; its number is 0 before the first.
    attempt: Attempt,
    attempt_began: Duration,
    last_wait: Option<Duration>,
    history: Vec<Tried<E>>,
    ticket: Option<Ticket>,
    budget: Option<CallBudget>,
    observed: Observed,
}

/// A call whose first attempt was begun in the shortest way: nothing but a reading of the clock and a quiet breaker.
/// It holds nothing that would have to be given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick {
    pub(crate) began: Duration,
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
        let began = settings.clock.recent();
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
                now = settings.clock.now();
                took = now.saturating_sub(self.began);
            }
            breaker.succeeded_at(now, ticket, took);
        }
        inner.hooks.succeeded(&self.attempt, took);
    }
}

impl<E> From<(Quick, &Settings)> for Run<E> {
    /// The call was not over at once.
    fn from((quick, settings): (Quick, &Settings)) -> Self {
        Self {
            began: quick.began,
            deadline: settings.deadline.map(|time| quick.began.saturating_add(time)),
            attempt: quick.attempt,
            attempt_began: quick.began,
            last_wait: None,
            history: Vec::new(),
            ticket: quick.ticket,
            budget: None,
            observed: Observed::NOTHING,
        }
    }
}

impl<E> Run<E> {
    /// Begins a call, if the breaker lets it.
    pub(crate) fn begin(settings: &Settings) -> Result<Self, RetryError<E>> {
        let now = settings.clock.recent();
        let ticket = match settings.breaker.as_ref().map(|breaker| breaker.admit_at(now)) {
            None => None,
            Some(Ok(ticket)) => Some(ticket),
            Some(Err(open)) => {
                Observed::gave_up(settings, Stop::Breaker(open), false);
                return Err(RetryError::new(Stop::Breaker(open), Vec::new(), Duration::ZERO));
            }
        };
        if let Some(budget) = &settings.budget {
            budget.deposit_at(now);
        }
        let mut deadline = settings.deadline.map(|time| now.saturating_add(time));
        let budget = CallBudget::current();
        if let Some(left) = budget.as_ref().and_then(CallBudget::time_left) {
            let theirs = settings.clock.now().saturating_add(left);
            deadline = Some(deadline.map_or(theirs, |own| own.min(theirs)));
        }
        Ok(Self {
            began: now,
            deadline,
            attempt: Attempt { number: 0, of: settings.attempts, time: None },
            attempt_began: now,
            last_wait: None,
            history: Vec::new(),
            ticket,
            budget,
            observed: Observed::NOTHING,
        })
    }

    /// The time that a recent reading may be taken for: exact when the deadline is near.
    pub(crate) fn recent(&self, settings: &Settings) -> Duration {
        let recent = settings.clock.recent();
        match self.deadline {
            Some(deadline) if deadline.saturating_sub(recent) < NEAR => settings.clock.now(),
            _ => recent,
        }
    }

    /// When the call began, or an attempt before this one ended.
    pub(crate) fn since(&self) -> Duration {
        self.attempt_began
    }

    /// The time that is left for the call; nothing means without limit.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(now))
    }

    /// Takes a turn of the rate limit, and says how long to wait for it.
    pub(crate) fn take_turn(&self, settings: &Settings, now: Duration) -> Result<Duration, Stop> {
        let Some(limiter) = &settings.rate_limit else { return Ok(Duration::ZERO) };
        let left = self.left(now).unwrap_or(Duration::MAX);
        // A turn at the deadline itself would be a turn for nothing.
        let longest = left.saturating_sub(Duration::from_nanos(1));
        limiter.reserve_at(now, longest).map_err(Stop::Rate)
    }

    /// Begins the next attempt.
    #[inline]
    pub(crate) fn start<C, H: Hooks<E>>(
        &mut self,
        inner: &Inner<C, H>,
        now: Duration,
    ) -> Result<Attempt, Stop> {
        let left = self.left(now);
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Stop::Deadline);
        }
        if self.budget.as_ref().is_some_and(|budget| !budget.try_take()) {
            return Err(Stop::CallBudget);
        }
        self.attempt.number += 1;
        self.attempt.time = match (left, inner.settings.attempt_timeout) {
            (Some(left), Some(timeout)) => Some(left.min(timeout)),
            (left, timeout) => left.or(timeout),
        };
        self.attempt_began = now;
        inner.hooks.starting(&self.attempt);
        self.observed.starting(&inner.settings, self.attempt.number);
        Ok(self.attempt)
    }

    /// Runs a part of the attempt inside its span.
    #[inline]
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.observed.inside(work)
    }

    /// How long the attempt under way may still take; nothing means without limit.
    pub(crate) fn attempt_left(&self, now: Duration) -> Option<Duration> {
        self.attempt.time.map(|time| self.attempt_began.saturating_add(time).saturating_sub(now))
    }

    /// What follows from the result of an attempt.
    pub(crate) fn ended<T, X, C, H>(
        &mut self,
        inner: &Inner<C, H>,
        judged: Judged<T, E>,
        now: impl FnOnce(&Self) -> Duration,
        repeatable: impl FnOnce() -> bool,
    ) -> After<T>
    where
        C: Classify<T, X, Error = E>,
        H: Hooks<E>,
    {
        let (error, next) = match judged {
            Judged::Done(value) => return After::Done(value),
            Judged::Retry { error, after } => (error, Some(after)),
            Judged::Fail(error) => (error, None),
        };
        let now = now(self);
        let next = match next {
            Some(asked) => self.next(&inner.settings, now, asked, repeatable()),
            None => Next::Stop(Stop::Final),
        };
        self.failed(inner, now, Cause::Error(error), next, |error| inner.classifier.let_go(error))
    }

    /// What follows from an attempt whose time is over.
    pub(crate) fn timed_out<T, C, H: Hooks<E>>(
        &mut self,
        inner: &Inner<C, H>,
        now: Duration,
        repeatable: bool,
    ) -> After<T> {
        let cause = Cause::TimedOut(self.attempt.time.unwrap_or_default());
        let next = self.next(&inner.settings, now, None, repeatable);
        self.failed(inner, now, cause, next, |_| {})
    }

    fn failed<T, C, H: Hooks<E>>(
        &mut self,
        inner: &Inner<C, H>,
        now: Duration,
        mut cause: Cause<E>,
        next: Next,
        let_go: impl FnOnce(&mut E),
    ) -> After<T> {
        inner.hooks.failed(&self.attempt, &cause, &next);
        self.observed.failed(&inner.settings, &cause, &next);
        if let (Next::Retry(_), Cause::Error(error)) = (next, &mut cause) {
            let_go(error);
        }
        let (number, began) = (self.attempt.number, self.attempt_began.saturating_sub(self.began));
        let took = now.saturating_sub(self.attempt_began);
        if self.history.capacity() == 0 {
            self.history.reserve_exact(inner.settings.attempts.min(8) as usize);
        }
        self.history.push(Tried { number, began, took, cause });
        self.attempt_began = now;
        match next {
            Next::Retry(wait) => After::Wait(wait),
            Next::Stop(stop) => After::Stop(stop),
        }
    }

    /// Decides whether there is another attempt. What costs others something, a retry of the shared budget, comes
    /// last.
    fn next(
        &mut self,
        settings: &Settings,
        now: Duration,
        asked: Option<Duration>,
        repeatable: bool,
    ) -> Next {
        if self.attempt.is_last() {
            return Next::Stop(Stop::Attempts);
        }
        if !repeatable {
            return Next::Stop(Stop::NotRepeatable);
        }
        let left = self.left(now);
        if left.is_some_and(|left| left.is_zero()) {
            return Next::Stop(Stop::Deadline);
        }
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket)
            && breaker.has_opened_since(ticket)
        {
            return Next::Stop(Stop::Breaker(breaker.opens_in(now)));
        }
        let wait = self.wait(settings, asked);
        if let Some(left) = left.filter(|left| wait >= *left) {
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

    fn wait(&self, settings: &Settings, asked: Option<Duration>) -> Duration {
        let (least, longest) = settings.retry_after;
        let mut random = &settings.random;
        let advised = asked.and_then(|asked| {
            Advice::new(asked, least, longest).wait(settings.schedule.jitter(), &mut random)
        });
        advised.unwrap_or_else(|| {
            // Only here do nanoseconds matter: whoever waits at all has them.
            if settings.waits_never {
                return Duration::ZERO;
            }
            let step = self.attempt.number.saturating_sub(1);
            let now = if settings.follows_calendar { settings.clock.wall() } else { Timestamp::default() };
            let wait = settings.schedule.sample(step, &settings.limits, self.last_wait, now, &mut random);
            wait.unwrap_or_default()
        })
    }

    /// Ends a call that succeeded.
    #[inline]
    pub(crate) fn succeed<C, H: Hooks<E>>(&mut self, inner: &Inner<C, H>, suspended: bool) {
        let settings = &inner.settings;
        let minds_time = settings.breaker.as_ref().is_some_and(crate::CircuitBreaker::minds_time);
        let now = if suspended || minds_time { settings.clock.now() } else { self.attempt_began };
        let took = now.saturating_sub(self.began);
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
        let now = settings.clock.now();
        let took = now.saturating_sub(self.began);
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket.take()) {
            match (self.history.is_empty(), stop) {
                (true, _) => breaker.withdraw(ticket),
                (false, Stop::Final) => breaker.report_at(now, ticket, Outcome::Ignored, took),
                (false, _) => breaker.report_at(now, ticket, Outcome::Failure, took),
            }
        }
        Observed::gave_up(settings, stop, !self.history.is_empty());
        RetryError::new(stop, std::mem::take(&mut self.history), took)
    }

    /// Ends a call that nobody waits for any more: it says nothing about the endpoint.
    #[inline]
    pub(crate) fn cancel(&mut self, settings: &Settings) {
        if let (Some(breaker), Some(ticket)) = (&settings.breaker, self.ticket.take()) {
            breaker.withdraw(ticket);
        }
    }
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
