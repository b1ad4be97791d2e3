//! The bounds that hold whatever a schedule and its jitter say: a floor, so that "jittered" cannot mean "at once",
//! and a cap.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Percent, micros};
use crate::duration::{self, MAX_MICROS};
use crate::scan::Scanner;
use crate::{TextError, duration::Period};

/// The floor and the cap of a wait.
///
/// The rule, for a step whose nominal delay is `d`:
/// 1. The cap is the least of [`cap`](Self::cap), the `max` of the step's own element, and 366 days.
/// 2. `d` is held under the cap.
/// 3. A floor that is a share is that share of `d`, so it never lifts an unjittered delay. A fixed floor lifts
///    every wait to itself, jittered or not. The cap wins over the floor.
/// 4. The jitter's range around `d` is cut to what lies from floor to cap, and the wait is uniform in the rest.
///
/// A calendar step takes no jitter: it is the first opening no earlier than a fixed floor, held under the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The least wait; by default a tenth of the step.
    pub floor: Floor,
    /// The longest wait; by default none but 366 days.
    pub cap: Option<Duration>,
}

impl Limits {
    /// No floor and no cap.
    pub const NONE: Self = Self { floor: Floor::Share(Percent::ZERO), cap: None };

    pub(super) fn cap_micros(&self) -> u64 {
        self.cap.map_or(MAX_MICROS, |cap| micros(cap).min(MAX_MICROS))
    }

    /// The floor of a step with this delay, which is under the cap already.
    pub(super) fn floor_micros(&self, delay: u64, cap: u64) -> u64 {
        match self.floor {
            Floor::Share(share) => share.of(delay),
            Floor::Fixed(floor) => micros(floor).min(cap),
        }
    }

    pub(super) fn fixed_floor(&self) -> u64 {
        self.floor_micros(0, MAX_MICROS)
    }
}

/// The least wait of a step: a share of it, or a time.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Floor, Percent};
///
/// assert_eq!("10%".parse::<Floor>()?, Floor::default());
/// assert_eq!("1s".parse::<Floor>()?, Floor::Fixed(Duration::from_secs(1)));
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// `10%`: a share of the step's delay.
    Share(Percent),
    /// `1s`: the same for every step, also for one without jitter.
    Fixed(Duration),
}

impl Default for Floor {
    fn default() -> Self {
        Self::Share(Percent::TEN)
    }
}

impl FromStr for Floor {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim_end().ends_with('%') {
            return text.parse().map(Self::Share);
        }
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        if !matches!(scanner.peek(), Some('0'..='9' | 'P' | 'p')) {
            return Err(scanner.expected("a duration such as 1s or a percentage such as 10%"));
        }
        duration::parse(text).map(Self::Fixed)
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Fixed(floor) => Period(*floor).fmt(f),
        }
    }
}

as_text!(Floor, "floor-text", "the least wait: a share of the step such as 10%, or a duration such as 1s");

/// What the wait of a step can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRange {
    /// The shortest.
    pub min: Duration,
    /// The mean over many messages; for decorrelated jitter an approximation.
    pub mean: Duration,
    /// The longest.
    pub max: Duration,
}
