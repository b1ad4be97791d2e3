//! One fixed delay with a name that topics can carry, and a set of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::MAX_HOPS;

/// A fixed delay: whole milliseconds, from 1 ms to 10 years. Its name is the last part of a topic's.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::route::Level;
///
/// let level = Level::new(Duration::from_secs(300))?;
/// assert_eq!(format!("orders.retry.{level}"), "orders.retry.5m");
/// assert_eq!("90s".parse::<Level>()?.to_string(), "90s");
/// assert_eq!("60s".parse::<Level>()?.to_string(), "1m");
/// # Ok::<(), redrive_core::route::LevelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(u64);

const LONGEST_MS: u64 = 3_653 * 86_400_000;
/// Longest first, so that printing finds the shortest name.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Levels that no route can be planned on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// A delay that is no level.
    #[error("a level of {0:?} cannot be: write whole milliseconds, from 1 ms to 10 years")]
    OutOfRange(Duration),
    /// A text that is no level's name.
    #[error("`{0}` is not a level: write a whole number and one of ms, s, m, h, d, such as 10s")]
    NotAName(String),
    /// No level at all.
    #[error("there is no level: name at least one, such as 10s")]
    Empty,
    /// More levels than a plan should look at.
    #[error("there are {0} levels: keep to 40 or fewer")]
    TooMany(usize),
    /// The same level twice.
    #[error("the level {0} is there twice: leave one out")]
    Twice(Level),
    /// A number of significant bits that is no use.
    #[error("{0} significant bits cannot be: write 1 to 32, such as 6")]
    Bits(u8),
}

/// Milliseconds of a duration, rounded down, held at what fits.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Level {
    /// The level of so long a delay.
    pub fn new(delay: Duration) -> Result<Self, LevelError> {
        let level = millis(delay);
        if !delay.subsec_nanos().is_multiple_of(1_000_000) || !(1..=LONGEST_MS).contains(&level) {
            return Err(LevelError::OutOfRange(delay));
        }
        Ok(Self(level))
    }

    /// Of a number that is known to be in range.
    pub(super) const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// How long it waits, in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long it waits.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) =
            UNITS.into_iter().find(|(_, size)| self.0.is_multiple_of(*size)).unwrap_or(("ms", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let not_a_name = || LevelError::NotAName(text.chars().take(64).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(not_a_name)?;
        let number: u64 = number.parse().map_err(|_| not_a_name())?;
        Self::new(Duration::from_millis(number.saturating_mul(size)))
    }
}

as_text!(Level, "level", "a fixed delay, such as 10s, 1m or 500ms");

/// A set of 1 to 40 different levels, prepared for planning.
///
/// Making it sorts the sums of up to four levels, so that a way of up to eight hops is the meeting of two such
/// sums: with m levels there are N ≤ C(m+3, 4) of them. A plan first takes the longest level that fits, again and
/// again; when no shorter way can exist, which is the usual case, that is the answer after at most eight steps.
/// Otherwise it looks the shorter ways up: O(N) a number of hops, then O(8·m·N) at the very worst to find the
/// first among equals. For 10 levels N is 715 (microseconds); for 40 levels chosen to be as bad as possible N is
/// about 123,000, which takes 1 MB and milliseconds, and nothing takes longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Longest first.
    levels: Vec<Level>,
    /// `sums[n]`: the different sums of exactly n levels, ascending.
    pub(super) sums: [Vec<u64>; MAX_HOPS / 2 + 1],
}

const MOST_LEVELS: usize = 40;

impl Levels {
    /// The set of these delays, in any order.
    pub fn new(delays: impl IntoIterator<Item = Duration>) -> Result<Self, LevelError> {
        let mut levels = delays.into_iter().map(Level::new).collect::<Result<Vec<_>, _>>()?;
        levels.sort_unstable_by(|a, b| b.cmp(a));
        if levels.is_empty() {
            return Err(LevelError::Empty);
        }
        if levels.len() > MOST_LEVELS {
            return Err(LevelError::TooMany(levels.len()));
        }
        if let Some(pair) = levels.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LevelError::Twice(pair[0]));
        }
        let mut sums: [Vec<u64>; MAX_HOPS / 2 + 1] = Default::default();
        sums[0] = vec![0];
        for hops in 1..sums.len() {
            let fewer = &sums[hops - 1];
            let mut all: Vec<u64> =
                fewer.iter().flat_map(|sum| levels.iter().map(move |level| sum + level.0)).collect();
            all.sort_unstable();
            all.dedup();
            sums[hops] = all;
        }
        Ok(Self { levels, sums })
    }

    /// The levels, longest first.
    pub fn as_slice(&self) -> &[Level] {
        &self.levels
    }

    /// The longest level.
    pub fn largest(&self) -> Level {
        self.levels[0]
    }

    /// The shortest level.
    pub fn smallest(&self) -> Level {
        self.levels[self.levels.len() - 1]
    }
}
