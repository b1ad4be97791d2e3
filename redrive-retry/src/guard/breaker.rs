//! A circuit breaker that several clients stand behind.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::guard::{
    Admission, Breaker, BreakerConfig, BreakerSnapshot, BreakerState, GuardError, Outcome, Permit as Right,
    TripCause,
};

use super::tally::Tally;
use super::{locked, nanos, slot};
use crate::SharedClock;

/// Stops calling an endpoint that does not answer, and finds out when it is back. Clones share it.
///
/// It stands around a whole call, its retries included: what it counts is whether the call got what it came for. It
/// opens by a share of failed or slow calls over the last calls or the last seconds, or after so many failures in a
/// row; [`BreakerConfig`] has the settings and their defaults. When it opens, calls are refused at once, and retries
/// under way are given up where it is the retryer's own ([`Builder::breaker`](crate::Builder::breaker)); after a while a
/// few probes find out whether the endpoint is back.
///
/// ```
/// use redrive_retry::CircuitBreaker;
/// use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome};
///
/// let breaker = CircuitBreaker::new(BreakerConfig { consecutive: 2, ..Default::default() })?;
/// breaker.on_change(|change| println!("{} to {}", change.from, change.to));
/// for _ in 0..2 {
///     let permit = breaker.admit().expect("it is closed");
///     permit.report(Outcome::Failure);
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// let refused = breaker.admit().unwrap_err();
/// assert!(refused.retry_after.is_some_and(|wait| wait.as_secs() <= 10));
///
/// breaker.force_close(); // by a person's order, until `auto`
/// assert!(breaker.admit().is_ok());
/// # Ok::<(), redrive_retry::guard::GuardError>(())
/// ```
#[derive(Clone)]
pub struct CircuitBreaker {
    inner: Arc<Inner>,
}

struct Inner {
    /// The generation of the breaker's state, shifted, and what may be done without the lock in it.
    gate: AtomicU64,
    /// Successes of a quiet breaker.
    tally: Tally,
    state: Mutex<State>,
    slow_call: Option<Duration>,
    listeners: Mutex<Vec<Listener>>,
    clock: SharedClock,
}

struct State {
    breaker: Breaker,
    /// The state that the last change led to.
    last: BreakerState,
    /// Changes that listeners have not been told yet, in their order.
    untold: VecDeque<BreakerChange>,
    /// Whether somebody is telling them.
    is_telling: bool,
}

type Listener = Arc<dyn Fn(&BreakerChange) + Send + Sync>;

/// Closed, and only a failure or a slow call can change that: successes are counted beside the lock.
const QUIET: u64 = 1;
/// Not closed.
const SHUT: u64 = 2;
const FLAGS: u32 = 2;

/// A change of a breaker's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerChange {
    /// The state before.
    pub from: BreakerState,
    /// The state now.
    pub to: BreakerState,
    /// Why it opened last.
    pub cause: Option<TripCause>,
}

/// The breaker is open: the call was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker is open{}", match .retry_after {
    Some(wait) => format!(", ask again in {wait:?}"),
    None => " by order, until somebody closes it".to_owned(),
})]
pub struct BreakerOpen {
    /// When to ask again; nothing while a person holds it open.
    pub retry_after: Option<Duration>,
}

/// The right to make one call, as the parts of this crate hand it around.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    generation: u32,
    /// Nothing when the breaker was quiet.
    right: Option<Right>,
}

impl CircuitBreaker {
    /// A closed breaker with these settings, or what is wrong with them.
    pub fn new(config: BreakerConfig) -> Result<Self, GuardError> {
        Self::with_clock(config, SharedClock::default())
    }

    /// A breaker that goes by another clock.
    pub fn with_clock(config: BreakerConfig, clock: impl Into<SharedClock>) -> Result<Self, GuardError> {
        let slow_call = config.slow_call;
        let breaker = Breaker::new(config)?;
        let clock = clock.into();
        let gate = AtomicU64::new(gate_of(&breaker, clock.now()));
        let last = BreakerState::Closed;
        let state = Mutex::new(State { breaker, last, untold: VecDeque::new(), is_telling: false });
        let tally = Tally::new(slot::places());
        let inner = Inner { gate, tally, state, slow_call, listeners: Mutex::default(), clock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Calls `listener` after every change of state, in their order and outside the lock. It is called on the thread that
    /// brought the change about, or on one that is still telling of an earlier one.
    ///
    /// That the time has come to probe shows with the first probe.
    pub fn on_change(&self, listener: impl Fn(&BreakerChange) + Send + Sync + 'static) {
        locked(&self.inner.listeners).push(Arc::new(listener));
    }

    /// Asks whether a call may be made now.
    pub fn admit(&self) -> Result<Permit<'_>, BreakerOpen> {
        let began = self.inner.clock.now();
        let ticket = self.admit_at(began)?;
        Ok(Permit { breaker: self, ticket: Some(ticket), began })
    }

    /// Holds it open, by a person's order, until [`force_close`](Self::force_close) or [`auto`](Self::auto).
    pub fn force_open(&self) {
        self.change(self.inner.clock.now(), Breaker::force_open);
    }

    /// Holds it closed, by a person's order: everything passes and is counted, nothing opens it.
    pub fn force_close(&self) {
        self.change(self.inner.clock.now(), Breaker::force_close);
    }

    /// Takes a person's order back: one that was held open begins with probes, one that was held closed begins anew.
    pub fn auto(&self) {
        self.change(self.inner.clock.now(), Breaker::auto);
    }

    /// The state now.
    pub fn state(&self) -> BreakerState {
        let now = self.inner.clock.now();
        self.change(now, |breaker| breaker.state(now))
    }

    /// What it shows of itself now.
    pub fn snapshot(&self) -> BreakerSnapshot {
        let now = self.inner.clock.now();
        self.change(now, |breaker| breaker.snapshot(now))
    }

    /// Whether two handles share one breaker.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn clock(&self) -> &SharedClock {
        &self.inner.clock
    }

    /// Whether the time that a call took makes a difference.
    #[inline]
    pub(crate) fn minds_time(&self) -> bool {
        self.inner.slow_call.is_some()
    }

    /// The right to make a call while nothing stands against it; nothing when the breaker has to be asked.
    #[inline]
    pub(crate) fn quiet_ticket(&self) -> Option<Ticket> {
        let gate = self.inner.gate.load(Ordering::Relaxed);
        (gate & QUIET != 0).then_some(Ticket { generation: (gate >> FLAGS) as u32, right: None })
    }

    pub(crate) fn admit_at(&self, now: Duration) -> Result<Ticket, BreakerOpen> {
        if let Some(ticket) = self.quiet_ticket() {
            return Ok(ticket);
        }
        self.change(now, |breaker| match breaker.admit(now) {
            Admission::Allowed(right) | Admission::Probe(right) => {
                Ok(Ticket { generation: breaker.generation(), right: Some(right) })
            }
            Admission::Refused { retry_at } => {
                Err(BreakerOpen { retry_after: retry_at.map(|at| at.saturating_sub(now)) })
            }
        })
    }

    /// Reports a success that took so long.
    #[inline]
    pub(crate) fn succeeded_at(&self, now: u64, ticket: Ticket, took: Duration) {
        let quiet = u64::from(ticket.generation) << FLAGS | QUIET;
        let slow = self.inner.slow_call.is_some_and(|limit| took > limit);
        let beside = !slow && self.inner.gate.load(Ordering::Relaxed) == quiet;
        if !(beside && self.inner.tally.add(slot::mine(), now)) {
            self.report_at(Duration::from_nanos(now), ticket, Outcome::Success, took);
        }
    }

    /// Reports how a call went, in the shortest way.
    pub(crate) fn report(&self, now: Duration, ticket: Ticket, outcome: Outcome, took: Duration) {
        match outcome {
            Outcome::Success => self.succeeded_at(nanos(now), ticket, took),
            Outcome::Failure | Outcome::Ignored => self.report_at(now, ticket, outcome, took),
        }
    }

    /// Reports how a call went.
    #[cold]
    pub(crate) fn report_at(&self, now: Duration, ticket: Ticket, outcome: Outcome, took: Duration) {
        self.change(now, |breaker| {
            if ticket.generation != breaker.generation() {
                return;
            }
            // A quiet breaker is closed, so the right that was not asked for then is there now.
            if let Some(right) = ticket.right.or_else(|| breaker.admit(now).permit()) {
                breaker.record(now, right, outcome, took);
            }
        });
    }

    /// Gives a right back unused.
    pub(crate) fn withdraw(&self, ticket: Ticket) {
        if let Some(right) = ticket.right {
            self.change(self.inner.clock.recent(), |breaker| breaker.withdraw(right));
        }
    }

    /// Whether it has opened since the ticket was given.
    #[inline]
    pub(crate) fn has_opened_since(&self, ticket: Ticket) -> bool {
        let gate = self.inner.gate.load(Ordering::Relaxed);
        gate & SHUT != 0 && (gate >> FLAGS) as u32 != ticket.generation
    }

    /// How long it stays open.
    pub(crate) fn opens_in(&self, now: Duration) -> BreakerOpen {
        let next = self.change(now, |breaker| breaker.next_at(now));
        BreakerOpen { retry_after: next.map(|at| at.saturating_sub(now)) }
    }

    /// Works on the breaker under the lock, with everything counted beside it added up before, and everything that
    /// follows from a change done after.
    fn change<T>(&self, now: Duration, work: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut state = locked(&self.inner.state);
        let place = slot::mine();
        self.inner.tally.take(|ends, new| {
            let at = Duration::from_nanos(ends.saturating_sub(1)).min(now);
            state.breaker.record_successes(now, at, new);
        });
        let done = work(&mut state.breaker);
        let ends = state.breaker.turns_at(now).map_or(u64::MAX, nanos);
        self.inner.tally.begin(place, ends, 0);
        let gate = gate_of(&state.breaker, now);
        let before = self.inner.gate.swap(gate, Ordering::Relaxed);
        if before >> FLAGS == gate >> FLAGS {
            return done;
        }
        let to = state.breaker.state(now);
        let from = std::mem::replace(&mut state.last, to);
        if from != to {
            let cause = state.breaker.snapshot(now).cause;
            state.untold.push_back(BreakerChange { from, to, cause });
            // Two that tell at once could be heard in any order, so one tells for all.
            if !std::mem::replace(&mut state.is_telling, true) {
                drop(state);
                Telling { inner: &self.inner, is_done: false }.tell_all();
            }
        }
        done
    }
}

/// The right to tell the listeners, which is given back also when one of them panics.
struct Telling<'b> {
    inner: &'b Inner,
    is_done: bool,
}

impl Telling<'_> {
    fn tell_all(mut self) {
        while let Some(change) = self.next() {
            // A listener may add another, or ask the breaker.
            let listeners = locked(&self.inner.listeners).clone();
            for listener in listeners {
                listener(&change);
            }
        }
    }

    /// The next change; without one the right goes back in the same moment.
    fn next(&mut self) -> Option<BreakerChange> {
        let mut state = locked(&self.inner.state);
        let change = state.untold.pop_front();
        if change.is_none() {
            (state.is_telling, self.is_done) = (false, true);
        }
        change
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            locked(&self.inner.state).is_telling = false;
        }
    }
}

fn gate_of(breaker: &Breaker, now: Duration) -> u64 {
    let shut = if breaker.state(now) == BreakerState::Closed { 0 } else { SHUT };
    let quiet = if breaker.is_quiet(now) { QUIET } else { 0 };
    u64::from(breaker.generation()) << FLAGS | shut | quiet
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// The right to make one call. Dropped without a report, it says nothing about the endpoint.
#[derive(Debug)]
#[must_use = "report how the call went, or it counts as not made"]
pub struct Permit<'b> {
    breaker: &'b CircuitBreaker,
    ticket: Option<Ticket>,
    began: Duration,
}

impl Permit<'_> {
    /// Reports how the call went. The time it took runs from the admission.
    pub fn report(mut self, outcome: Outcome) {
        let Some(ticket) = self.ticket.take() else { return };
        let now = self.breaker.inner.clock.now();
        self.breaker.report(now, ticket, outcome, now.saturating_sub(self.began));
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.withdraw(ticket);
        }
    }
}
