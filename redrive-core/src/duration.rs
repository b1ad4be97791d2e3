//! Durations as people write them: `100ms`, `10s`, `1m30s`, `2d`, or ISO 8601 such as `PT2H`.
//!
//! A duration always carries its unit: `500` is refused, because half of the world's settings mean milliseconds
//! by it and the other half seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::TextError;
use crate::scan::{Decimal, Scanner};

/// The longest duration that can be written: 366 days.
pub const MAX: Duration = Duration::from_hours(366 * 24);

pub(crate) const MAX_MICROS: u64 = 366 * 86_400 * SECOND;

const SECOND: u64 = 1_000_000;
const EXPECTED: &str = "a duration such as 10s";
const EXPECTED_UNIT: &str = "a unit right after the number (us, ms, s, m, h, d or w)";
const EXPECTED_MAX: &str = "a duration of at most 366d";

/// The units, largest first, in microseconds.
const UNITS: [(&str, u64); 8] = [
    ("w", 7 * 86_400 * SECOND),
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000),
    ("us", 1),
    ("µs", 1),
];

/// Reads a duration: numbers with their units, the larger before the smaller, or the ISO 8601 form without months
/// and years. White space may stand around it, not in it. The finest resolution is a microsecond.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::duration::parse;
///
/// assert_eq!(parse("1m30s")?, Duration::from_secs(90));
/// assert_eq!(parse("1.5s")?, Duration::from_millis(1500));
/// assert_eq!(parse("PT0.5S")?, Duration::from_millis(500));
/// assert_eq!(
///     parse("500").unwrap_err().to_string(),
///     "expected a unit right after the number (us, ms, s, m, h, d or w) at character 4, found the end",
/// );
/// # Ok::<(), redrive_core::TextError>(())
/// ```
pub fn parse(text: &str) -> Result<Duration, TextError> {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    let micros = scan(&mut scanner)?;
    scanner.skip_space();
    if !scanner.at_end() {
        return Err(scanner.expected("the end of the duration"));
    }
    Ok(Duration::from_micros(micros))
}

/// Prints a duration in its one canonical form, which [`parse`] reads back: `90s` is printed as `1m30s`, `7d` as
/// `7d`, `1500ms` as `1.5s`. What is finer than a microsecond is left out.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::duration::print;
///
/// assert_eq!(print(Duration::from_secs(90)).to_string(), "1m30s");
/// assert_eq!(print(Duration::from_millis(1500)).to_string(), "1.5s");
/// assert_eq!(print(Duration::ZERO).to_string(), "0s");
/// ```
pub fn print(duration: Duration) -> impl fmt::Display {
    Period(duration)
}

/// Reads a duration at the cursor, in microseconds.
pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<u64, TextError> {
    let start = scanner.at();
    let iso = matches!(scanner.peek(), Some('P' | 'p'));
    let micros = if iso { scan_iso(scanner)? } else { scan_units(scanner)? };
    if micros > MAX_MICROS {
        return Err(scanner.expected_at(start, EXPECTED_MAX));
    }
    Ok(micros)
}

fn scan_units(scanner: &mut Scanner<'_>) -> Result<u64, TextError> {
    let mut total = 0_u64;
    let mut smallest = u64::MAX;
    loop {
        let start = scanner.at();
        let number = scanner.decimal(EXPECTED)?;
        let unit_at = scanner.at();
        let unit = unit(scanner)?;
        if unit >= smallest {
            return Err(scanner.expected_at(unit_at, "a smaller unit than the one before"));
        }
        smallest = unit;
        total = total.saturating_add(amount(scanner, number, unit, start)?);
        if !scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(total);
        }
    }
}

/// The unit at the cursor. An `x` right behind it belongs to a schedule's count, as in `10sx3`.
fn unit(scanner: &mut Scanner<'_>) -> Result<u64, TextError> {
    let rest = scanner.rest();
    let word = rest.find(|c: char| !c.is_alphabetic()).map_or(rest, |end| &rest[..end]);
    let word = UNITS
        .iter()
        .find(|(name, _)| word.strip_prefix(name).is_some_and(|left| matches!(left, "" | "x" | "X")));
    let Some(&(name, micros)) = word else {
        return Err(scanner.expected(EXPECTED_UNIT));
    };
    for _ in name.chars() {
        scanner.next();
    }
    Ok(micros)
}

fn scan_iso(scanner: &mut Scanner<'_>) -> Result<u64, TextError> {
    scanner.next();
    let mut total = 0_u64;
    let mut smallest = u64::MAX;
    let mut in_time = false;
    loop {
        if !in_time && matches!(scanner.peek(), Some('T' | 't')) {
            scanner.next();
            in_time = true;
        } else if smallest != u64::MAX && !scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(total);
        }
        let start = scanner.at();
        let number = scanner.decimal("a number, as in PT10S")?;
        let unit = match (scanner.peek().map(|c| c.to_ascii_uppercase()), in_time) {
            (Some('W'), false) => 7 * 86_400 * SECOND,
            (Some('D'), false) => 86_400 * SECOND,
            (Some('H'), true) => 3_600 * SECOND,
            (Some('M'), true) => 60 * SECOND,
            (Some('S'), true) => SECOND,
            (_, true) => return Err(scanner.expected("H, M or S")),
            (Some('M' | 'Y'), false) => {
                return Err(scanner.expected("W, D or T (months and years have no fixed length)"));
            }
            (_, false) => return Err(scanner.expected("W or D, or T before hours")),
        };
        if unit >= smallest {
            return Err(scanner.expected("a smaller unit than the one before"));
        }
        scanner.next();
        smallest = unit;
        total = total.saturating_add(amount(scanner, number, unit, start)?);
    }
}

fn amount(scanner: &Scanner<'_>, number: Decimal, unit: u64, start: usize) -> Result<u64, TextError> {
    number.times(unit).ok_or_else(|| scanner.expected_at(start, "a whole number of microseconds"))
}

/// A duration that is read and written as text, also in JSON and YAML.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::duration::Period;
///
/// let timeout: Period = "PT2H".parse()?;
/// assert_eq!(timeout, Period(Duration::from_secs(7200)));
/// assert_eq!(timeout.to_string(), "2h");
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Period(pub Duration);

impl From<Duration> for Period {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl FromStr for Period {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.as_secs(), self.0.subsec_micros());
        if seconds == 0 && micros > 0 {
            return if micros >= 1_000 {
                fraction(f, u64::from(micros / 1_000), micros % 1_000, 3, "ms")
            } else {
                write!(f, "{micros}us")
            };
        }
        let parts = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m")];
        for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{count}{unit}")?;
        }
        if seconds % 60 > 0 || micros > 0 || seconds == 0 {
            fraction(f, seconds % 60, micros, 6, "s")?;
        }
        Ok(())
    }
}

fn fraction(f: &mut fmt::Formatter<'_>, whole: u64, part: u32, digits: usize, unit: &str) -> fmt::Result {
    write!(f, "{whole}")?;
    let (mut part, mut digits) = (part, digits);
    if part > 0 {
        while part.is_multiple_of(10) {
            part /= 10;
            digits -= 1;
        }
        write!(f, ".{part:0digits$}")?;
    }
    f.write_str(unit)
}

as_text!(Period, "duration-text", "a duration with its unit, such as 10s, 1m30s or PT2H; at most 366d");
