//! The wait of one step: its delay, spread by jitter, within floor and cap.

use std::time::Duration;

use super::segment::Kind;
use super::{Jitter, Limits, Schedule, WaitRange, calendar_wait, micros};
use crate::duration::MAX_MICROS;
use crate::{Random, Timestamp};

/// Enough for the mean of decorrelated jitter, which grows by half each step, to cross every range of delays. The
/// longest wait, which grows to three times the last, has crossed it long before.
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

    /// What [`sample`](Self::sample) can give for a step, whatever this schedule's waits before were.
    ///
    /// Decorrelated jitter grows from the last wait, also where that came from elsewhere, such as a longer wait
    /// that the endpoint had asked for; the range does not know of those.
    pub fn range(&self, step: u32, limits: &Limits, now: Timestamp) -> Option<WaitRange> {
        let (longest, mean) = match self.jitter {
            Jitter::Decorrelated => self.decorrelated_before(step, limits, now),
            _ => (None, None),
        };
        let widest = self.span(step, limits, longest, now)?;
        let mean = self.span(step, limits, mean, now)?.mean();
        let [min, mean, max] = [widest.low, mean, widest.high].map(Duration::from_micros);
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

    /// What the wait before a step can have been: the longest, and the mean, each taken as the middle of its range
    /// around the mean before. Nothing for the first step, which has none before it.
    fn decorrelated_before(&self, step: u32, limits: &Limits, now: Timestamp) -> (Option<u64>, Option<u64>) {
        let begin = step.saturating_sub(DECORRELATED_STEPS);
        // So far along, anything that grows has grown as far as it can.
        let grows = self.shape.base > 0 || limits.floor_micros(self.shape.longest, MAX_MICROS) > 0;
        let mut longest = (begin > 0 && (grows || self.follows_calendar())).then_some(MAX_MICROS);
        let mut mean = None;
        for before in begin..step {
            let is_plain = self.find(before).is_some_and(|(kind, local)| kind.plain(local).is_some());
            if is_plain {
                longest = self.span(before, limits, longest, now).map(|span| span.high);
                mean = self.span(before, limits, mean, now).map(Span::mean);
            } else {
                // How long a calendar made it wait depends on a time that is not known.
                (longest, mean) = (Some(MAX_MICROS), None);
            }
        }
        (longest, mean)
    }
}

impl Span {
    fn mean(self) -> u64 {
        self.low + (self.high - self.low) / 2
    }
}
