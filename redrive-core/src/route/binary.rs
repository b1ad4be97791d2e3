//! Powers of two, each passed at most once.
//!
//! With queues that hand on to the next shorter one only, a message can never meet the same queue twice, which a
//! broker would take for a loop. Six significant bits keep the way short at the price of at most 3.2 % lateness.

use std::time::Duration;

use super::level::{Level, LevelError};

/// The levels `unit × 2^n`, as long as they stay below 2^32 ms, and how exactly a delay is kept.
///
/// Default: a unit of 1 ms and 6 significant bits. Rounding a delay of whole units up to its `bits` most
/// significant bits makes it later by less than one part in 2^(bits−1), and never earlier.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::route::BinaryLevels;
///
/// let seconds = BinaryLevels::new(Duration::from_secs(1), 6)?;
/// let names: Vec<_> = seconds.up_to(Duration::from_secs(10)).map(|level| level.to_string()).collect();
/// assert_eq!(names, ["8s", "4s", "2s", "1s"]);
/// # Ok::<(), redrive_core::route::LevelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryLevels {
    unit: u64,
    bits: u32,
    /// The exponent of the largest level.
    top: u32,
}

/// What a queue's time to live can hold, in milliseconds.
const LIMIT_MS: u64 = 1 << 32;

impl BinaryLevels {
    /// Levels of a unit of whole milliseconds, below 2^32 ms, and 1 to 32 significant bits.
    pub fn new(unit: Duration, bits: u8) -> Result<Self, LevelError> {
        if !(1..=32).contains(&bits) {
            return Err(LevelError::Bits(bits));
        }
        let unit_ms = Level::new(unit)?.as_millis();
        if unit_ms >= LIMIT_MS {
            return Err(LevelError::OutOfRange(unit));
        }
        Ok(Self { unit: unit_ms, bits: u32::from(bits), top: ((LIMIT_MS - 1) / unit_ms).ilog2() })
    }

    const fn level(self, exponent: u32) -> Level {
        Level::from_millis(self.unit << exponent)
    }

    /// The delay in units, rounded up to a whole one and then to the significant bits.
    fn rounded(self, delay: Duration) -> u128 {
        let units = delay.as_nanos().div_ceil(u128::from(self.unit) * 1_000_000);
        let dropped = (u128::BITS - units.leading_zeros()).saturating_sub(self.bits);
        units.div_ceil(1 << dropped) << dropped
    }

    /// The levels for `delay`, longest first.
    pub(super) fn plan(self, delay: Duration) -> Vec<Level> {
        let units = self.rounded(delay);
        let exponents = (0..=self.top).rev();
        if units >= 1 << (self.top + 1) {
            return exponents.take(self.bits as usize).map(|exponent| self.level(exponent)).collect();
        }
        exponents.filter(|exponent| units >> exponent & 1 == 1).map(|exponent| self.level(exponent)).collect()
    }

    /// Every level that a delay of at most `longest` can pass, longest first.
    pub fn up_to(&self, longest: Duration) -> impl Iterator<Item = Level> + use<> {
        let levels = *self;
        let count = match self.rounded(longest) {
            0 => 0,
            units => units.ilog2().min(self.top) + 1,
        };
        (0..count).rev().map(move |exponent| levels.level(exponent))
    }
}

impl Default for BinaryLevels {
    fn default() -> Self {
        Self { unit: 1, bits: 6, top: 31 }
    }
}
