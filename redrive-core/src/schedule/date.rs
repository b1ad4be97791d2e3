//! A day of the civil calendar, for holidays.

use std::fmt;
use std::str::FromStr;

use jiff::civil;

use crate::TextError;

const EXPECTED: &str = "a date such as 2026-12-25";

/// A date as `2026-12-25`, in whatever time zone the calendar that uses it has.
///
/// ```
/// use redrive_core::Date;
///
/// let date: Date = "2028-02-29".parse()?;
/// assert_eq!(Date::new(2028, 2, 29), Some(date));
/// assert_eq!(date.to_string(), "2028-02-29");
/// assert!("2026-02-29".parse::<Date>().is_err());
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(pub(super) civil::Date);

impl Date {
    /// A date of the years 0 to 9999, if there is such a day.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let (year, month, day) =
            (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        civil::Date::new(year, month, day).ok().map(Self)
    }
}

impl FromStr for Date {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = text.len() == 10
            && text
                .bytes()
                .enumerate()
                .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
        if !shape {
            return Err(TextError::new(text, 0, EXPECTED));
        }
        let (year, month, day) = (text[..4].parse(), text[5..7].parse(), text[8..].parse());
        match (year, month, day) {
            (Ok(year), Ok(month), Ok(day)) => Self::new(year, month, day),
            _ => None,
        }
        .ok_or_else(|| TextError::new(text, 0, "a date that exists"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

as_text!(Date, "date", "a date such as 2026-12-25");
