//! Randomness in a delay, so that what failed together does not come back together.

use std::fmt;
use std::str::FromStr;

use super::Percent;
use crate::TextError;
use crate::scan::Scanner;

pub(super) const EXPECTED: &str = "none, full, equal, decorrelated, a percentage such as 10%, or +33%";

/// How a delay is spread. Every kind is uniform in its range, and the range is cut to what the floor and the cap
/// leave of it, so that no share of the messages piles up at either end.
///
/// ```
/// use redrive_core::{Jitter, Percent};
///
/// assert_eq!("10%".parse::<Jitter>()?, Jitter::Around(Percent::TEN));
/// assert_eq!("+33%".parse::<Jitter>()?.to_string(), "+33%");
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Jitter {
    /// `none`: the delay as it stands.
    #[default]
    None,
    /// `full`: from the floor to the delay.
    Full,
    /// `equal`: from half of the delay to the delay.
    Equal,
    /// `10%`: from a tenth under the delay to a tenth over it.
    Around(Percent),
    /// `+33%`: from the delay to a third over it; never early.
    Above(Percent),
    /// `decorrelated`: from the schedule's first delay to three times the delay before, limited by the cap or,
    /// without one, by the schedule's longest delay.
    Decorrelated,
}

impl Jitter {
    pub(super) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, TextError> {
        if scanner.eat('+') {
            return Percent::scan(scanner, "a percentage such as +33%").map(Self::Above);
        }
        if scanner.eat('±') || scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Percent::scan(scanner, "a percentage such as 10%").map(Self::Around);
        }
        let names = [
            ("none", Self::None),
            ("full", Self::Full),
            ("equal", Self::Equal),
            ("decorrelated", Self::Decorrelated),
        ];
        for (name, jitter) in names {
            if scanner.eat_word(name) {
                return Ok(jitter);
            }
        }
        Err(scanner.expected(EXPECTED))
    }

    /// The most that a delay can become, as a share of itself; for decorrelated jitter the delay does not matter.
    pub(super) fn reach(self) -> u64 {
        match self {
            Self::Around(share) | Self::Above(share) => Percent::WHOLE + u64::from(share.hundredths()),
            Self::None | Self::Full | Self::Equal | Self::Decorrelated => Percent::WHOLE,
        }
    }
}

impl FromStr for Jitter {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        let jitter = Self::scan(&mut scanner)?;
        scanner.skip_space();
        if scanner.at_end() { Ok(jitter) } else { Err(scanner.expected("the end")) }
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Full => f.write_str("full"),
            Self::Equal => f.write_str("equal"),
            Self::Around(share) => write!(f, "{share}"),
            Self::Above(share) => write!(f, "+{share}"),
            Self::Decorrelated => f.write_str("decorrelated"),
        }
    }
}

as_text!(
    Jitter,
    "jitter-text",
    "none, full, equal, decorrelated, a percentage such as 10% (around), or +33%"
);
