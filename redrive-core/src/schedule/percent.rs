//! Shares of a delay, exact and comparable, which a float would not be.

use std::fmt;
use std::str::FromStr;

use crate::TextError;
use crate::scan::Scanner;

/// A share from 0 % to 100 %, to the hundredth of a percent.
///
/// ```
/// use redrive_core::Percent;
///
/// let tenth: Percent = "10%".parse()?;
/// assert_eq!(Percent::new(10), Some(tenth));
/// assert_eq!("33.33%".parse::<Percent>()?.to_string(), "33.33%");
/// assert!("101%".parse::<Percent>().is_err());
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Percent(u16);

impl Percent {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// A tenth.
    pub const TEN: Self = Self(1_000);
    /// The whole.
    pub const HUNDRED: Self = Self(Self::WHOLE as u16);

    pub(super) const WHOLE: u64 = 10_000;

    /// So many whole percent; none above 100.
    pub const fn new(percent: u16) -> Option<Self> {
        if percent <= 100 { Some(Self(percent * 100)) } else { None }
    }

    /// So many hundredths of a percent; none above 10,000.
    pub const fn from_hundredths(hundredths: u16) -> Option<Self> {
        if hundredths <= Self::HUNDRED.0 { Some(Self(hundredths)) } else { None }
    }

    /// The share in hundredths of a percent.
    pub const fn hundredths(self) -> u16 {
        self.0
    }

    /// This share of a number of microseconds, which is at most 366 days and so cannot overflow.
    pub(super) fn of(self, micros: u64) -> u64 {
        micros * u64::from(self.0) / Self::WHOLE
    }

    pub(super) fn scan(scanner: &mut Scanner<'_>, expected: &str) -> Result<Self, TextError> {
        let start = scanner.at();
        let number = scanner.decimal(expected)?;
        if !scanner.eat('%') {
            return Err(scanner.expected("`%`"));
        }
        let Some(hundredths) = number.times(100) else {
            return Err(scanner.expected_at(start, "at most 2 decimals"));
        };
        let percent = u16::try_from(hundredths).ok().and_then(Self::from_hundredths);
        percent.ok_or_else(|| scanner.expected_at(start, "at most 100%"))
    }
}

impl FromStr for Percent {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        let percent = Self::scan(&mut scanner, "a percentage such as 10%")?;
        scanner.skip_space();
        if scanner.at_end() { Ok(percent) } else { Err(scanner.expected("the end")) }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => write!(f, "{whole}%"),
            part if part % 10 == 0 => write!(f, "{whole}.{}%", part / 10),
            part => write!(f, "{whole}.{part:02}%"),
        }
    }
}
