//! Points in time, to the millisecond, given by the caller.

use std::fmt;
use std::time::Duration;

/// A point in time: unix milliseconds, as they stand in message headers.
///
/// Arithmetic saturates at the years 0 and 9999, so no header value can overflow it. As JSON it is RFC 3339 in
/// UTC.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::Timestamp;
///
/// let due = Timestamp::from_millis(1_782_896_400_000) + Duration::from_secs(10);
/// assert_eq!(due.to_string(), "2026-07-01T09:00:10Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest time: the start of the year 0.
    pub const MIN: Self = Self(-62_167_219_200_000);
    /// The latest time: the end of the year 9999, less a day for the widest time zone.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// The time so many milliseconds after 1970, held within [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    pub const fn from_millis(millis: i64) -> Self {
        if millis < Self::MIN.0 {
            Self::MIN
        } else if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time since `earlier`; zero when `earlier` is later, as after a clock was set back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    pub(crate) fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn from_jiff(time: jiff::Timestamp) -> Self {
        Self::from_millis(time.as_millisecond())
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_jiff(), f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            let found: String = text.chars().take(64).map(crate::printable).collect();
            // A date, a time and an offset that can be read, only not as an instant.
            let pieces = jiff::fmt::temporal::Pieces::parse(text);
            if pieces.is_ok_and(|pieces| pieces.time().is_some() && pieces.offset().is_some()) {
                return format!("`{found}` is out of range: the latest time is {}", Self::MAX);
            }
            format!("`{found}` is not an RFC 3339 time such as 2026-07-01T09:00:00Z")
        })?;
        Ok(Self::from_jiff(time))
    }
}

as_text!(Timestamp, "date-time", "a point in time as RFC 3339");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturates_instead_of_overflowing() {
        assert_eq!(Timestamp::from_millis(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN).as_millis(), 315_569_426_400_000);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn a_time_that_is_too_late_is_still_a_time() {
        let error = |text: &str| text.parse::<Timestamp>().unwrap_err();
        assert_eq!(
            error("9999-12-31T00:00:00Z"),
            "`9999-12-31T00:00:00Z` is out of range: the latest time is 9999-12-30T22:00:00Z"
        );
        for text in ["9999-12-31", "9999-12-31T00:00:00", "2026-02-30T00:00:00Z", "soon"] {
            assert!(error(text).contains("is not an RFC 3339 time"), "{text}");
        }
    }

    #[test]
    fn bounds_print_and_parse() {
        for time in [Timestamp::MIN, Timestamp::MAX, Timestamp::from_millis(1)] {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
