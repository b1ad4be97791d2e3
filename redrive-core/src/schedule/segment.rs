//! One element of a schedule: a rule for a run of delays, in microseconds, with each step in constant time.

use std::sync::Arc;

use super::Calendar;
use crate::duration::MAX_MICROS;

/// What an exponential delay is multiplied by: from 1 up, to the thousandth, so that it prints as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor(u32);

impl Factor {
    pub(super) const TWO: Self = Self(2_000);
    pub(super) const EXPECTED: &str = "a factor from 1 to 1000 with at most 3 decimals";

    pub(super) fn from_thousandths(thousandths: u64) -> Option<Self> {
        (1_000..=1_000_000).contains(&thousandths).then_some(Self(thousandths as u32))
    }

    pub(super) fn from_f64(factor: f64) -> Option<Self> {
        let thousandths = factor * 1_000.0;
        // NaN fails both comparisons.
        let fits = (1_000.0..=1_000_000.0).contains(&thousandths)
            && (thousandths - thousandths.round()).abs() < 1e-6;
        fits.then_some(Self(thousandths.round() as u32))
    }

    pub(super) fn thousandths(self) -> u32 {
        self.0
    }

    /// `first × factor^step`, held under `cap`. By repeated squaring, because `powf` may differ in its last bits
    /// from one platform to the next; what is under the cap is far from where a float loses whole microseconds.
    fn grow(self, first: u64, step: u32, cap: u64) -> u64 {
        let ceiling = cap as f64;
        let (mut value, mut base, mut left) = (first as f64, f64::from(self.0) / 1_000.0, step);
        while left > 0 && value < ceiling {
            if left & 1 == 1 {
                value *= base;
            }
            base *= base;
            left >>= 1;
        }
        if value >= ceiling { cap } else { (value.round() as u64).min(cap) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Fixed(u64),
    Linear { first: u64, step: u64, max: Option<u64> },
    Exponential { first: u64, factor: Factor, max: Option<u64> },
    Calendar(Arc<Calendar>),
}

/// A rule and how many delays it gives; `None` goes on without end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: Kind,
    pub(super) times: Option<u32>,
}

impl Kind {
    /// The delay of a step; a calendar's depends on the time and is `None`.
    pub(super) fn plain(&self, step: u32) -> Option<u64> {
        match self {
            Self::Fixed(delay) => Some(*delay),
            Self::Linear { first, step: by, max } => {
                let grown = first.saturating_add(by.saturating_mul(u64::from(step)));
                Some(grown.min(max.unwrap_or(MAX_MICROS)))
            }
            Self::Exponential { first, factor, max } => {
                Some(factor.grow(*first, step, max.unwrap_or(MAX_MICROS)))
            }
            Self::Calendar(_) => None,
        }
    }

    /// The bound that the element itself was given.
    pub(super) fn own_max(&self) -> Option<u64> {
        match self {
            Self::Linear { max, .. } | Self::Exponential { max, .. } => *max,
            Self::Fixed(_) | Self::Calendar(_) => None,
        }
    }

    /// The sum of the first `times` delays; of a calendar, the longest that so many openings can take.
    pub(super) fn sum(&self, times: u32) -> u128 {
        match self {
            Self::Fixed(delay) => u128::from(*delay) * u128::from(times),
            Self::Linear { first, step, max } => {
                let cap = max.unwrap_or(MAX_MICROS);
                let growing = u128::from(self.growing(times, cap));
                let (first, step) = (u128::from(*first), u128::from(*step));
                let grown = growing * first + step * (growing * growing.saturating_sub(1) / 2);
                grown + (u128::from(times) - growing) * u128::from(cap)
            }
            Self::Exponential { factor, max, .. } => {
                let cap = max.unwrap_or(MAX_MICROS);
                if *factor == (Factor(1_000)) {
                    return u128::from(self.plain(0).unwrap_or(0)) * u128::from(times);
                }
                // At the least factor over 1 the range of delays is crossed in some 31,000 steps, so this is bounded.
                let growing = self.growing(times, cap);
                let grown: u128 = (0..growing).filter_map(|step| self.plain(step)).map(u128::from).sum();
                grown + u128::from(times - growing) * u128::from(cap)
            }
            Self::Calendar(calendar) => calendar.longest_run(times),
        }
    }

    /// The number of steps, of `times`, that are under `bound`; delays never fall within an element.
    pub(super) fn growing(&self, times: u32, bound: u64) -> u32 {
        let (mut low, mut high) = (0, times);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.plain(middle).unwrap_or(0) < bound { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl Segment {
    pub(super) fn is_calendar(&self) -> bool {
        matches!(self.kind, Kind::Calendar(_))
    }

    /// The longest delay of the element.
    pub(super) fn longest(&self) -> u64 {
        match &self.kind {
            Kind::Calendar(calendar) => calendar.longest_gap(),
            kind => kind.plain(self.times.map_or(u32::MAX, |times| times - 1)).unwrap_or(0),
        }
    }
}
