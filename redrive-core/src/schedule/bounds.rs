//! What a schedule can take at most, step by step and in all, without walking through its steps.

use std::time::Duration;

use super::segment::{Kind, Segment};
use super::{Jitter, Limits, Percent, Schedule};
use crate::duration::MAX_MICROS;

pub(super) fn saturated(micros: u128) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

impl Schedule {
    /// The longest delay before jitter. A calendar's is the longest gap between two openings of a year, its
    /// holidays included.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.shape.longest)
    }

    /// The sum of all delays before jitter; `None` when there is no end. A calendar counts with the longest that
    /// so many openings can take.
    pub fn total(&self) -> Option<Duration> {
        self.shape.total
    }

    /// The longest wait that jitter and limits allow.
    pub fn longest_with(&self, limits: &Limits) -> Duration {
        let longest = self.segments().iter().map(|segment| {
            let top = self.top(segment, limits);
            // A fixed floor can skip openings, but no wait is longer than the floor and a gap together.
            let lifted = if segment.is_calendar() { top.floor } else { 0 };
            top.at(segment.longest() + lifted)
        });
        Duration::from_micros(longest.max().unwrap_or(0))
    }

    /// The longest that all waits together can take with jitter and limits, never less than what a run shows;
    /// `None` when there is no end.
    pub fn total_with(&self, limits: &Limits) -> Option<Duration> {
        let mut sum = 0_u128;
        for segment in self.segments() {
            sum = sum.saturating_add(self.top(segment, limits).sum(&segment.kind, segment.times?));
        }
        Some(saturated(sum))
    }

    fn top(&self, segment: &Segment, limits: &Limits) -> Top {
        let cap = limits.cap_micros().min(segment.kind.own_max().unwrap_or(MAX_MICROS));
        let floor = limits.fixed_floor().min(cap);
        match (&segment.kind, self.jitter) {
            (Kind::Calendar(_), _) => Top { floor, cap, reach: Percent::WHOLE, fixed: None },
            (kind, Jitter::Decorrelated) => {
                let bound = self.decorrelated_bound(kind, limits).clamp(floor, cap);
                Top { floor, cap, reach: Percent::WHOLE, fixed: Some(bound) }
            }
            (_, jitter) => Top { floor, cap, reach: jitter.reach(), fixed: None },
        }
    }

    /// Where decorrelated jitter ends: at the cap that somebody set, else at the longest delay.
    pub(super) fn decorrelated_bound(&self, kind: &Kind, limits: &Limits) -> u64 {
        let capped = limits.cap.is_some() || kind.own_max().is_some();
        let cap = limits.cap_micros().min(kind.own_max().unwrap_or(MAX_MICROS));
        if capped { cap } else { self.shape.longest_plain }
    }
}

/// The upper end of a step's range, as a function of its delay.
struct Top {
    floor: u64,
    cap: u64,
    /// The share of itself that a delay can grow to, in hundredths of a percent.
    reach: u64,
    /// The end of the range where it does not follow from the delay.
    fixed: Option<u64>,
}

impl Top {
    fn at(&self, delay: u64) -> u64 {
        let reached = self.fixed.unwrap_or(delay * self.reach / Percent::WHOLE);
        reached.clamp(self.floor, self.cap)
    }

    /// The sum over an element: a run at the floor, a run that grows, a run at the cap.
    fn sum(&self, kind: &Kind, times: u32) -> u128 {
        if let Some(fixed) = self.fixed {
            return u128::from(fixed) * u128::from(times);
        }
        if let Kind::Calendar(calendar) = kind {
            let wait = u128::from(calendar.longest_gap()) + u128::from(self.floor);
            let run = if self.floor == 0 { kind.sum(times) } else { wait * u128::from(times) };
            return run.min(u128::from(self.cap) * u128::from(times));
        }
        if self.floor >= self.cap {
            return u128::from(self.cap) * u128::from(times);
        }
        let low = kind.growing(times, self.first_reaching(self.floor));
        let high = kind.growing(times, self.first_reaching(self.cap));
        let grown = (kind.sum(high) - kind.sum(low)) * u128::from(self.reach) / u128::from(Percent::WHOLE);
        u128::from(low) * u128::from(self.floor) + grown + u128::from(times - high) * u128::from(self.cap)
    }

    /// The least delay whose range ends at `bound` or above.
    fn first_reaching(&self, bound: u64) -> u64 {
        (bound * Percent::WHOLE).div_ceil(self.reach)
    }
}
