//! Stops calling an endpoint that does not answer, and finds out when it is back.
//!
//! Without one, an outage turns every message into a string of failed attempts, and expired credentials park a
//! whole topic. The breaker holds the flow instead. It counts what the endpoint did, never what a message caused:
//! a thousand poison messages in a row leave it closed.

mod config;
mod probes;
mod snapshot;

use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

pub use config::{BreakerConfig, Window};
use probes::{Probes, Verdict};
pub use snapshot::{BreakerSnapshot, BreakerState, TripCause};

use super::window::{Buckets, Last};
use super::{GuardError, MILLION, millionths, nanos};

/// How finely a window of time moves.
const BUCKETS: usize = 30;

/// What a call showed about the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// The endpoint is at fault: no answer, an error of its own, wrong credentials.
    Failure,
    /// The message is at fault. Never counted, so it cannot open a breaker, nor break a row of failures. As a
    /// probe it counts for the endpoint, which has answered.
    Ignored,
}

/// The right to make one call. Give it back once, with [`Breaker::record`], or with [`Breaker::withdraw`] when the
/// call was not made. A probe's permit that is lost blocks its place for as long as the breaker stays open.
///
/// It remembers the state it was given in, so a result that arrives after the breaker has changed its mind does
/// not change it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permit {
    generation: u32,
    probe: u32,
    place: u8,
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// Yes.
    Allowed(Permit),
    /// Yes, as one of the few that find out whether the endpoint is back.
    Probe(Permit),
    /// No.
    Refused {
        /// When to ask again; `None` while a person holds the breaker open.
        retry_at: Option<Duration>,
    },
}

impl Admission {
    /// The permit, when the call may be made.
    pub const fn permit(self) -> Option<Permit> {
        match self {
            Self::Allowed(permit) | Self::Probe(permit) => Some(permit),
            Self::Refused { .. } => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    all: u64,
    failed: u64,
    slow: u64,
}

impl AddAssign for Calls {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.failed += other.failed;
        self.slow += other.slow;
    }
}

impl SubAssign for Calls {
    fn sub_assign(&mut self, other: Self) {
        self.all -= other.all;
        self.failed -= other.failed;
        self.slow -= other.slow;
    }
}

/// A share of calls in whole millionths: as floats, 0.28 of 25 is a little more than 7.
#[derive(Debug, Clone, Copy)]
struct Share(u64);

impl Share {
    /// Of a share that was checked; the least is a millionth, since at none a success would open the breaker.
    fn new(share: f64) -> Self {
        Self(millionths(share).max(1))
    }

    /// Whether so many of all are the share or more.
    fn is_reached(self, some: u64, all: u64) -> bool {
        u128::from(some) * u128::from(MILLION) >= u128::from(self.0) * u128::from(all)
    }

    /// The least number of all that is the share or more.
    fn least(self, all: u32) -> u32 {
        let least = (self.0 * u64::from(all)).div_ceil(MILLION);
        u32::try_from(least).unwrap_or(all).clamp(1, all)
    }
}

#[derive(Debug, Clone)]
enum Counted {
    Time(Buckets<Calls>),
    Count(Last<Calls>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Open { until: Duration },
    HalfOpen,
    ForcedOpen,
    ForcedClosed,
}

/// A circuit breaker: closed, open, half-open with a bounded number of probes.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::guard::{Admission, Breaker, BreakerConfig, BreakerState, Outcome};
///
/// let mut breaker = Breaker::new(BreakerConfig::default())?;
/// let now = Duration::from_secs(1);
/// for _ in 0..5 {
///     let permit = breaker.admit(now).permit().expect("it is closed");
///     breaker.record(now, permit, Outcome::Failure, Duration::from_millis(20));
/// }
/// assert_eq!(breaker.admit(now), Admission::Refused { retry_at: Some(Duration::from_secs(11)) });
///
/// let later = Duration::from_secs(11); // two of three probes are enough
/// for _ in 0..2 {
///     let probe = breaker.admit(later).permit().expect("it probes");
///     breaker.record(later, probe, Outcome::Success, Duration::from_millis(20));
/// }
/// assert_eq!(breaker.state(later), BreakerState::Closed);
/// # Ok::<(), redrive_core::guard::GuardError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Breaker {
    config: BreakerConfig,
    failure_share: Share,
    /// Nothing when slowness does not matter.
    slow_share: Option<Share>,
    phase: Phase,
    /// Moves with every change of phase, so that older permits are known as such.
    generation: u32,
    counted: Counted,
    probes: Probes,
    in_a_row: u32,
    last_success: Option<Duration>,
    calls_since_success: u64,
    trips: u64,
    cause: Option<TripCause>,
    latest: Duration,
}

impl Breaker {
    /// A closed breaker, or what is wrong with its settings.
    pub fn new(config: BreakerConfig) -> Result<Self, GuardError> {
        config.check()?;
        let counted = match config.window {
            Window::Time(time) => Counted::Time(Buckets::new(nanos(time), BUCKETS)),
            Window::Count(calls) => Counted::Count(Last::new(calls as usize)),
        };
        let failure_share = Share::new(config.failure_share);
        let slow_share = config.slow_call.map(|_| Share::new(config.slow_share));
        Ok(Self {
            probes: Probes::new(config.half_open_probes, failure_share, slow_share),
            config,
            failure_share,
            slow_share,
            phase: Phase::Closed,
            generation: 0,
            counted,
            in_a_row: 0,
            last_success: None,
            calls_since_success: 0,
            trips: 0,
            cause: None,
            latest: Duration::ZERO,
        })
    }

    fn tick(&mut self, now: Duration) -> Duration {
        self.latest = self.latest.max(now);
        self.latest
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Asks whether a call may be made now.
    pub fn admit(&mut self, now: Duration) -> Admission {
        let now = self.tick(now);
        match self.phase {
            Phase::Closed | Phase::ForcedClosed => {
                return Admission::Allowed(Permit { generation: self.generation, probe: 0, place: u8::MAX });
            }
            Phase::ForcedOpen => return Admission::Refused { retry_at: None },
            Phase::Open { until } if now < until => return Admission::Refused { retry_at: Some(until) },
            Phase::Open { .. } => self.half_open(),
            Phase::HalfOpen => {}
        }
        match self.probes.take(now, now.saturating_add(self.config.open)) {
            Ok((place, probe)) => Admission::Probe(Permit { generation: self.generation, probe, place }),
            Err(free_at) => Admission::Refused { retry_at: Some(free_at) },
        }
    }

    /// Reports how a call ended and how long it took; tells the new state when that changed it.
    pub fn record(
        &mut self,
        now: Duration,
        permit: Permit,
        outcome: Outcome,
        took: Duration,
    ) -> Option<BreakerState> {
        let now = self.tick(now);
        // A success is a fact about the endpoint, whatever has become of the permit.
        match outcome {
            Outcome::Success => (self.last_success, self.calls_since_success) = (Some(now), 0),
            Outcome::Failure => self.calls_since_success = self.calls_since_success.saturating_add(1),
            Outcome::Ignored => {}
        }
        if permit.generation != self.generation {
            return None;
        }
        let failed = outcome == Outcome::Failure;
        let slow = outcome != Outcome::Ignored && self.config.slow_call.is_some_and(|limit| took > limit);
        match self.phase {
            Phase::HalfOpen => match self.probes.report(permit.place, permit.probe, failed, slow) {
                Verdict::Undecided => None,
                Verdict::Back => Some(self.close()),
                Verdict::StillDown => Some(self.trip(now, TripCause::Probes)),
            },
            Phase::Closed | Phase::ForcedClosed if outcome != Outcome::Ignored => {
                let call = Calls { all: 1, failed: u64::from(failed), slow: u64::from(slow) };
                self.counted(now, now, call)
            }
            _ => None,
        }
    }

    /// Reports `n` successes of the moment `at`, which may have passed, none of them slow; tells the new state when
    /// that changed it. For counters beside the breaker that are added up now and then, and always before a failure
    /// that came after them is reported.
    ///
    /// Successes that were counted while the breaker was not closed say only that the endpoint has answered.
    pub fn record_successes(&mut self, now: Duration, at: Duration, n: u64) -> Option<BreakerState> {
        let now = self.tick(now);
        if n == 0 {
            return None;
        }
        self.last_success = self.last_success.max(Some(at.min(now)));
        self.calls_since_success = 0;
        match self.phase {
            Phase::Closed | Phase::ForcedClosed => {
                self.counted(now, at.min(now), Calls { all: n, failed: 0, slow: 0 })
            }
            Phase::Open { .. } | Phase::HalfOpen | Phase::ForcedOpen => None,
        }
    }

    /// Gives a permit back unused: another guard refused the call, or it was cancelled before it said anything
    /// about the endpoint. A probe's place is free again at once.
    pub fn withdraw(&mut self, permit: Permit) {
        if self.phase == Phase::HalfOpen && permit.generation == self.generation {
            self.probes.withdraw(permit.place, permit.probe);
        }
    }

    /// Counts calls of one moment, and opens the breaker when they give cause.
    fn counted(&mut self, now: Duration, at: Duration, calls: Calls) -> Option<BreakerState> {
        let cause = self.count(now, at, calls)?;
        (self.phase == Phase::Closed).then(|| self.trip(now, cause))
    }

    /// Counts calls and says what would open the breaker now.
    fn count(&mut self, now: Duration, at: Duration, seen: Calls) -> Option<TripCause> {
        let calls = match &mut self.counted {
            Counted::Time(buckets) => {
                buckets.advance(nanos(now));
                buckets.add_at(nanos(at), seen);
                buckets.total()
            }
            Counted::Count(last) => {
                last.add_many(Calls { all: 1, ..seen }, seen.all);
                last.total()
            }
        };
        self.in_a_row = if seen.failed > 0 { self.in_a_row.saturating_add(1) } else { 0 };
        if self.config.consecutive > 0 && self.in_a_row >= self.config.consecutive {
            return Some(TripCause::Consecutive);
        }
        if calls.all < u64::from(self.config.min_calls) {
            return None;
        }
        if self.failure_share.is_reached(calls.failed, calls.all) {
            return Some(TripCause::FailureShare);
        }
        let slow_share = self.slow_share.filter(|share| share.is_reached(calls.slow, calls.all));
        slow_share.map(|_| TripCause::SlowShare)
    }

    fn trip(&mut self, now: Duration, cause: TripCause) -> BreakerState {
        self.enter(Phase::Open { until: now.saturating_add(self.config.open) });
        self.trips += 1;
        self.cause = Some(cause);
        BreakerState::Open
    }

    fn half_open(&mut self) {
        self.enter(Phase::HalfOpen);
        self.probes.reset();
    }

    fn close(&mut self) -> BreakerState {
        self.enter(Phase::Closed);
        self.forget();
        BreakerState::Closed
    }

    /// Empties the window: what was counted before says nothing about the endpoint now.
    fn forget(&mut self) {
        self.in_a_row = 0;
        match &mut self.counted {
            Counted::Time(buckets) => buckets.clear(),
            Counted::Count(last) => last.clear(),
        }
    }

    /// Holds it open, by a person's order, until [`force_close`](Self::force_close) or [`auto`](Self::auto).
    pub fn force_open(&mut self) {
        if self.phase != Phase::ForcedOpen {
            self.enter(Phase::ForcedOpen);
            self.trips += 1;
            self.cause = Some(TripCause::Forced);
        }
    }

    /// Holds it closed, by a person's order: everything passes and is counted, nothing opens it.
    pub fn force_close(&mut self) {
        if self.phase != Phase::ForcedClosed {
            self.enter(Phase::ForcedClosed);
            self.forget();
        }
    }

    /// Takes a person's order back. One that was held open begins with probes, one that was held closed begins
    /// with an empty window; without an order nothing changes.
    pub fn auto(&mut self) {
        match self.phase {
            Phase::ForcedOpen => self.half_open(),
            Phase::ForcedClosed => {
                self.close();
            }
            Phase::Closed | Phase::Open { .. } | Phase::HalfOpen => {}
        }
    }

    /// The state at `now`.
    pub fn state(&self, now: Duration) -> BreakerState {
        match self.phase {
            Phase::Closed | Phase::ForcedClosed => BreakerState::Closed,
            Phase::ForcedOpen => BreakerState::Open,
            Phase::Open { until } if now.max(self.latest) < until => BreakerState::Open,
            Phase::Open { .. } | Phase::HalfOpen => BreakerState::HalfOpen,
        }
    }

    /// A number that moves with every change of state, so that what was asked before one can be told from what was
    /// asked after it.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether it is closed and nothing but a failure or a slow call can open it: the window that ends at `now` holds
    /// neither, so that however many successes may be added up beside it for a while.
    pub fn is_quiet(&self, now: Duration) -> bool {
        let closed = matches!(self.phase, Phase::Closed | Phase::ForcedClosed);
        let calls = self.calls_at(now);
        closed && self.in_a_row == 0 && calls.failed == 0 && calls.slow == 0
    }

    /// When the window moves on: successes before this moment leave it together. Nothing where it counts calls and
    /// not time.
    pub fn turns_at(&mut self, now: Duration) -> Option<Duration> {
        let now = self.tick(now);
        match &mut self.counted {
            Counted::Time(buckets) => {
                buckets.advance(nanos(now));
                Some(Duration::from_nanos(buckets.ends()))
            }
            Counted::Count(_) => None,
        }
    }

    fn calls_at(&self, now: Duration) -> Calls {
        match &self.counted {
            Counted::Time(buckets) => buckets.total_at(nanos(now.max(self.latest))),
            Counted::Count(last) => last.total(),
        }
    }

    /// Whether a call has succeeded in the window that ends at `now`, also across changes of state.
    ///
    /// While none has, an answer such as 404 or 401 speaks about the endpoint and not about the message.
    pub fn succeeded_in_window(&self, now: Duration) -> bool {
        self.last_success.is_some_and(|at| match self.config.window {
            Window::Time(time) => now.max(self.latest).saturating_sub(at) < time,
            Window::Count(calls) => self.calls_since_success < u64::from(calls),
        })
    }

    /// When a call may be made: `now`, a later time, or `None` while a person holds it open.
    pub fn next_at(&self, now: Duration) -> Option<Duration> {
        let now = now.max(self.latest);
        match self.phase {
            Phase::Closed | Phase::ForcedClosed => Some(now),
            Phase::ForcedOpen => None,
            Phase::Open { until } => Some(until.max(now)),
            Phase::HalfOpen => Some(self.probes.next_at(now)),
        }
    }

    /// What it shows of itself at `now`. While open, the window still shows what had opened it as long as that is
    /// recent enough.
    pub fn snapshot(&self, now: Duration) -> BreakerSnapshot {
        let calls = self.calls_at(now);
        BreakerSnapshot {
            state: self.state(now),
            forced: matches!(self.phase, Phase::ForcedOpen | Phase::ForcedClosed),
            calls: calls.all,
            failures: calls.failed,
            slow: calls.slow,
            failures_in_a_row: self.in_a_row,
            trips: self.trips,
            cause: self.cause,
        }
    }

    /// The settings it was made of.
    pub const fn config(&self) -> &BreakerConfig {
        &self.config
    }
}
