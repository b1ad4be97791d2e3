//! Where the time comes from.
//!
//! A call that succeeds at once reads the clock once, and a full reading costs more than everything else around such
//! a call together. So a clock has two readings: the exact one, for whatever waits or is measured, and a recent one,
//! for windows and rates that are counted in seconds.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redrive_core::Timestamp;

/// What time it is. Waiting itself is tokio's business, or the thread's.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time since a fixed origin. It never goes back; one that does delays, and opens nothing.
    fn now(&self) -> Duration;

    /// A reading that is never ahead of [`now`](Self::now) and at most a tick of the kernel behind it (1 to 10 ms),
    /// where that is cheaper.
    fn recent(&self) -> Duration {
        self.now()
    }

    /// The time of day, by which the date in a `Retry-After` is read. It may be set back.
    fn wall(&self) -> Timestamp {
        wall()
    }
}

/// The system's clock: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
fn reading(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(target_os = "linux")]
impl Clock for SystemClock {
    fn now(&self) -> Duration {
        reading(rustix::time::ClockId::Monotonic)
    }

    fn recent(&self) -> Duration {
        reading(rustix::time::ClockId::MonotonicCoarse)
    }
}

#[cfg(not(target_os = "linux"))]
impl Clock for SystemClock {
    fn now(&self) -> Duration {
        origin().elapsed()
    }
}

/// Tokio's clock, which a test can pause: `#[tokio::test(start_paused = true)]`.
///
/// A [`Retryer`](crate::Retryer) under test waits on tokio's time anyway. With this clock its deadline and its guards
/// follow that time too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        tokio::time::Instant::now().into_std().saturating_duration_since(origin())
    }
}

/// A day before the first question, because a paused runtime may have begun earlier than that.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let first = Instant::now();
        first.checked_sub(Duration::from_hours(24)).unwrap_or(first)
    })
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that several parts share. Parts that work together have to go by the same one.
///
/// ```
/// use redrive_retry::{SharedClock, SystemClock, TokioClock};
///
/// assert!(SharedClock::default().same(&SystemClock.into()));
/// assert!(!SharedClock::default().same(&TokioClock.into()));
/// ```
#[derive(Debug, Clone, Default)]
pub struct SharedClock(Kind);

#[derive(Debug, Clone, Default)]
enum Kind {
    #[default]
    System,
    Tokio,
    Given(Arc<dyn Clock>),
}

impl SharedClock {
    /// Any other clock.
    pub fn given(clock: Arc<dyn Clock>) -> Self {
        Self(Kind::Given(clock))
    }

    /// Whether both tell the same time.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::System, Kind::System) | (Kind::Tokio, Kind::Tokio) => true,
            (Kind::Given(one), Kind::Given(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// The exact time since the clock's origin.
    #[inline]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Kind::System => SystemClock.now(),
            Kind::Tokio => TokioClock.now(),
            Kind::Given(clock) => clock.now(),
        }
    }

    /// A recent reading of the same.
    #[inline]
    pub fn recent(&self) -> Duration {
        match &self.0 {
            Kind::System => SystemClock.recent(),
            Kind::Tokio => TokioClock.recent(),
            Kind::Given(clock) => clock.recent(),
        }
    }

    /// The time of day.
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            Kind::System | Kind::Tokio => wall(),
            Kind::Given(clock) => clock.wall(),
        }
    }
}

impl From<SystemClock> for SharedClock {
    fn from(_: SystemClock) -> Self {
        Self(Kind::System)
    }
}

impl From<TokioClock> for SharedClock {
    fn from(_: TokioClock) -> Self {
        Self(Kind::Tokio)
    }
}

impl<C: Clock> From<Arc<C>> for SharedClock {
    fn from(clock: Arc<C>) -> Self {
        Self(Kind::Given(clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_reading_is_never_ahead() {
        for _ in 0..1_000 {
            let recent = SystemClock.recent();
            let after = SystemClock.now();
            assert!(recent <= after, "{recent:?} is ahead of {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_moves_only_when_told() {
        let began = TokioClock.now();
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(TokioClock.now().saturating_sub(began), Duration::from_secs(3_600));
    }
}
