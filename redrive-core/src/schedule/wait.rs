//! The wait of one step: its delay, spread by jitter, within floor and cap.

use std::time::Duration;

use super::segment::{Kind, Segment};
use super::{Jitter, Limits, Schedule, WaitRange, calendar_wait, micros};
use crate::duration::MAX_MICROS;
use crate::{Random, Timestamp};

/// Enough for the mean of decorrelated jitter, which grows by half each step, to cross every range of delays.
const DECORRELATED_STEPS: u32 = 100;

/// Microseconds, both ends included.
#[derive(Debug, Clone, Copy)]
struct Span {
    low: u64,
    high: u64,
}

impl Schedule {
    /// The wait of a step, counted from 0: spread by jitter and within the [`Limits`]; `None` past the end.
    ///
    /// `previous` is the wait before this one, which only decorrelated jitter looks at; the first delay stands in
    /// for it when it is not known. Nothing is drawn from `rng` without jitter.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::{Limits, Schedule, SplitMix64, Timestamp};
    ///
    /// let schedule: Schedule = "10s x3 jitter full".parse()?;
    /// let mut rng = SplitMix64::new(1);
    /// let wait = schedule.sample(0, &Limits::default(), None, Timestamp::default(), &mut rng);
    /// assert!(wait.is_some_and(|wait| (1_000..=10_000).contains(&wait.as_millis())));
    /// assert_eq!(schedule.sample(3, &Limits::default(), None, Timestamp::default(), &mut rng), None);
    /// # Ok::<(), redrive_core::TextError>(())
    /// ```
    pub fn sample<R: Random + ?Sized>(
        &self,
        step: u32,
        limits: &Limits,
        previous: Option<Duration>,
        now: Timestamp,
        rng: &mut R,
    ) -> Option<Duration> {
        let span = self.span(step, limits, previous.map(micros), now)?;
        Some(Duration::from_micros(rng.between(span.low, span.high)))
    }

    /// What [`sample`](Self::sample) can give for a step, whatever the waits before were.
    pub fn range(&self, step: u32, limits: &Limits, now: Timestamp) -> Option<WaitRange> {
        let span = match self.jitter {
            // The longest wait before is not known, so the widest is taken.
            Jitter::Decorrelated => {
                self.span(step, limits, Some(self.decorrelated_reach(step, limits)), now)?
            }
            _ => self.span(step, limits, None, now)?,
        };
        let mean = match self.jitter {
            Jitter::Decorrelated => self.decorrelated_mean(step, limits, now, span),
            _ => span.mean(),
        };
        let [min, mean, max] = [span.low, mean, span.high].map(Duration::from_micros);
        Some(WaitRange { min, mean, max })
    }

    fn span(&self, step: u32, limits: &Limits, previous: Option<u64>, now: Timestamp) -> Option<Span> {
        let (kind, local) = self.find(step)?;
        let cap = limits.cap_micros().min(kind.own_max().unwrap_or(MAX_MICROS));
        let Some(nominal) = kind.plain(local) else {
            let wait = calendar_wait(kind, now, limits.fixed_floor()).min(cap);
            return Some(Span { low: wait, high: wait });
        };
        let delay = nominal.min(cap);
        let floor = limits.floor_micros(delay, cap);
        let (low, high) = match self.jitter {
            Jitter::None => (delay, delay),
            Jitter::Full => (0, delay),
            Jitter::Equal => (delay - delay / 2, delay),
            Jitter::Around(share) => (delay - share.of(delay), delay + share.of(delay)),
            Jitter::Above(share) => (delay, delay + share.of(delay)),
            Jitter::Decorrelated => self.decorrelated(kind, limits, previous),
        };
        Some(Span { low: low.clamp(floor, cap), high: high.clamp(floor, cap) })
    }

    fn decorrelated(&self, kind: &Kind, limits: &Limits, previous: Option<u64>) -> (u64, u64) {
        let base = self.shape.base;
        let reach = previous.unwrap_or(base).saturating_mul(3);
        (base, reach.min(self.decorrelated_bound(kind, limits)).max(base))
    }

    /// The longest that the wait before a step can have been: each is up to three times the last, unless a floor
    /// lifted one or a calendar stood in between.
    fn decorrelated_reach(&self, step: u32, limits: &Limits) -> u64 {
        let shape = &*self.shape;
        if shape.segments.iter().any(Segment::is_calendar) {
            return MAX_MICROS;
        }
        let lifted = limits.floor_micros(shape.longest, limits.cap_micros());
        shape.base.max(lifted).saturating_mul(3_u64.saturating_pow(step))
    }

    /// The mean of the waits, each taken as the middle of its range around the mean before.
    fn decorrelated_mean(&self, step: u32, limits: &Limits, now: Timestamp, widest: Span) -> u64 {
        let mut previous = None;
        for _ in 0..step.min(DECORRELATED_STEPS) {
            previous = self.span(step, limits, previous, now).map(Span::mean);
        }
        self.span(step, limits, previous, now).map_or(widest.high, Span::mean)
    }
}

impl Span {
    fn mean(self) -> u64 {
        self.low + (self.high - self.low) / 2
    }
}
