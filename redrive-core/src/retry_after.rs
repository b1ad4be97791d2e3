//! The `Retry-After` of an answer: seconds, or a date in any of HTTP's three forms.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::{Jitter, Random, Timestamp};

/// The longest advice that is taken, a year; a longer one is held to it. The policy's own clamp comes after.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24 * 365);

/// How long the answer asks to wait, from `now` on.
///
/// Nothing when the value cannot be read, is negative, or is a date that has passed: bad advice is no advice. Zero
/// seconds is advice, and the policy's floor decides what it means.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Timestamp, parse_retry_after};
///
/// let now = Timestamp::from_millis(1_782_896_400_000); // Wed, 01 Jul 2026 09:00:00 GMT
/// assert_eq!(parse_retry_after(b"120", now), Some(Duration::from_secs(120)));
/// assert_eq!(parse_retry_after(b"Wed, 01 Jul 2026 09:00:30 GMT", now), Some(Duration::from_secs(30)));
/// assert_eq!(parse_retry_after(b"-5", now), None);
/// ```
pub fn parse_retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    let text = std::str::from_utf8(value.get(..value.len().min(128))?).ok()?;
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text
            .bytes()
            .fold(0_u64, |seconds, digit| seconds.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let wait = parse_http_date(text, now)?.since(now);
    (!wait.is_zero()).then(|| wait.min(MAX_RETRY_AFTER))
}

/// What a handler or an endpoint asked for, and what is made of it.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Advice, Jitter, SplitMix64};
///
/// let second = Duration::from_secs(1);
/// let advice = Advice::new(60 * second, second, 10 * second);
/// assert_eq!(advice.clamped, 10 * second);
/// assert_eq!(advice.wait(Jitter::None, &mut SplitMix64::new(1)), Some(10 * second));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// The wait that was asked for.
    pub asked: Duration,
    /// The same, held between the least and the longest that is taken.
    pub clamped: Duration,
    least: Duration,
    longest: Duration,
}

impl Advice {
    /// The advice `asked`, held between `least` and `longest`; `least` wins where they cross.
    pub fn new(asked: Duration, least: Duration, longest: Duration) -> Self {
        let longest = longest.max(least);
        Self { asked, clamped: asked.clamp(least, longest), least, longest }
    }

    /// The wait that follows from it; nothing where it says to come back at once, which is no advice that is
    /// followed.
    ///
    /// All that were refused together would come back together: they are spread over a tenth, unless there is to be no
    /// jitter at all. Never early where there is room for that; what asks for the longest that is taken, or for more, is
    /// spread below it, or all of it would come back at one moment. Never outside of what is taken.
    pub fn wait<R: Random + ?Sized>(&self, jitter: Jitter, rng: &mut R) -> Option<Duration> {
        if self.clamped.is_zero() {
            return None;
        }
        if jitter == Jitter::None {
            return Some(self.clamped);
        }
        let tenth = Duration::from_millis(u64::try_from(self.clamped.as_millis() / 10).unwrap_or(u64::MAX));
        let last = self.clamped.saturating_add(tenth).min(self.longest);
        let first = self.clamped.min(last.saturating_sub(tenth)).max(self.least);
        let room = u64::try_from(last.saturating_sub(first).as_millis()).unwrap_or(u64::MAX);
        Some(first.saturating_add(Duration::from_millis(rng.between(0, room))))
    }
}

/// A date as HTTP writes it (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`, and the two old forms
/// `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
fn parse_http_date(text: &str, now: Timestamp) -> Option<Timestamp> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let day_name = words.next()?;
    let Some(name) = day_name.strip_suffix(',') else {
        let (month, day, clock, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let ends = words.next().is_none() && is_day_name(day_name, 3..=3);
        return point(digits(year, 4..=4).filter(|_| ends)?, month, digits(day, 1..=2)?, clock);
    };
    let date = words.next()?;
    let (year, month, day, clock) = if let Some((day, rest)) = date.split_once('-') {
        let (month, year) = rest.split_once('-').filter(|_| is_day_name(name, 6..=9))?;
        (full_year(digits(year, 2..=2)?, now), month, day, words.next()?)
    } else {
        let (month, year, clock) = (words.next()?, words.next()?, words.next()?);
        (digits(year, 4..=4).filter(|_| is_day_name(name, 3..=3))?, month, date, clock)
    };
    if words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    point(year, month, digits(day, 1..=2)?, clock)
}

/// A two-digit year: the one within 50 years of now, since around a turn of the century both are meant.
fn full_year(two_digits: i16, now: Timestamp) -> i16 {
    let this_year = now.to_jiff().to_zoned(TimeZone::UTC).year();
    let year = this_year - this_year.rem_euclid(100) + two_digits;
    match year - this_year {
        51.. => year - 100,
        ..=-50 => year + 100,
        _ => year,
    }
}

fn point(year: i16, month: &str, day: i16, clock: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)? as i8 + 1;
    let mut parts = clock.split(':');
    let (hour, minute, second) =
        (parts.next()?, parts.next()?, parts.next().filter(|_| parts.next().is_none())?);
    // A leap second is the last of its minute here, as on every system clock.
    let second = digits(second, 2..=2)?.min(60);
    let second = if second == 60 { 59 } else { second };
    let (hour, minute) = (digits(hour, 2..=2)?, digits(minute, 2..=2)?);
    let at = DateTime::new(year, month, day as i8, hour as i8, minute as i8, second as i8, 0).ok()?;
    // Only the last day of the year 9999 has no timestamp.
    Some(at.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |at| Timestamp::from_jiff(at.timestamp())))
}

fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let fits = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// A day's name is not checked against the date: the date is what counts.
fn is_day_name(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SplitMix64;

    const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

    fn wait(text: &str) -> Option<u64> {
        parse_retry_after(text.as_bytes(), NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds() {
        assert_eq!(wait("0"), Some(0));
        assert_eq!(wait(" 120\t"), Some(120));
        assert_eq!(wait("99999999999999999999999999"), Some(MAX_RETRY_AFTER.as_secs()));
        for text in ["", " ", "-1", "+1", "1.5", "1e3", "0x10", "12 0", "NaN", "∞"] {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    #[test]
    fn the_three_forms_of_a_date() {
        for text in [
            "Wed, 01 Jul 2026 09:00:37 GMT",
            "Wednesday, 01-Jul-26 09:00:37 GMT",
            "Wed Jul  1 09:00:37 2026",
            "Wed Jul 1 09:00:37 2026",
        ] {
            assert_eq!(wait(text), Some(37), "{text}");
        }
        assert_eq!(wait("Wed, 01 Jul 2026 09:00:60 GMT"), Some(59));
        assert_eq!(wait("Fri, 31 Dec 9999 23:59:59 GMT"), Some(MAX_RETRY_AFTER.as_secs()));
    }

    #[test]
    fn what_has_passed_is_dropped() {
        for text in [
            "Wed, 01 Jul 2026 09:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_near_now() {
        assert_eq!(full_year(76, NOW), 2076);
        assert_eq!(full_year(77, NOW), 1977);
        assert_eq!(full_year(0, NOW), 2000);
        let century_ends = Timestamp::from_millis(946_000_000_000);
        assert_eq!((full_year(99, century_ends), full_year(0, century_ends)), (1999, 2000));
    }

    #[test]
    fn what_is_no_date_is_no_advice() {
        for text in [
            "Wed, 31 Jun 2027 09:00:00 GMT",
            "Wed, 01 Jul 2027 24:00:00 GMT",
            "Wed, 01 Jul 2027 09:00:00 PST",
            "Wed, 01 Jul 2027 09:00:00",
            "Wed, 01 Jul 2027 09:00:00 GMT GMT",
            "Wed, 01 Jul 2027 9:00:00 GMT",
            "Wed, 01 jul 2027 09:00:00 GMT",
            "Wed, 01 Jul 27 09:00:00 GMT",
            "Wed, 01-Jul-27 09:00:00 GMT",
            "2027-07-01T09:00:00Z",
            "Wed Jul 1 09:00:00:00 2027",
            "Wed Jul 1 09:00:00 2027 GMT",
            ",",
        ] {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn all_that_were_refused_together_are_spread_within_what_is_taken(
            asked in 1_000..200_000_u64, least in 0..100_000_u64, longest in 1_000..100_000_u64,
        ) {
            let millis = Duration::from_millis;
            let advice = Advice::new(millis(asked), millis(least), millis(longest));
            let waits: Vec<_> = (0..40)
                .filter_map(|seed| advice.wait(Jitter::Full, &mut SplitMix64::new(seed)))
                .collect();
            let (soonest, latest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            prop_assert!(*soonest >= millis(least) && *latest <= millis(longest.max(least)));
            // Early only as far as the longest leaves no room after it.
            let tenth = advice.clamped / 10;
            prop_assert!(*soonest >= advice.clamped.min(millis(longest.max(least)).saturating_sub(tenth)));
            if longest >= least + 1_000 {
                prop_assert!(latest.saturating_sub(*soonest) >= tenth.min(millis(longest - least)) / 3, "{soonest:?} to {latest:?}");
            }
            prop_assert_eq!(advice.wait(Jitter::None, &mut SplitMix64::new(1)), Some(advice.clamped));
        }

        #[test]
        fn no_value_panics(
            bytes: Vec<u8>,
            almost in "([A-Za-z]{3,9},? )?[0-9]{1,3}[ -][A-Z][a-z]{2}[ -][0-9]{2,5} [0-9:]{5,10} ?(GMT)?",
            millis: i64,
        ) {
            let now = Timestamp::from_millis(millis);
            for value in [&bytes[..], almost.as_bytes()] {
                prop_assert!(parse_retry_after(value, now).is_none_or(|wait| wait <= MAX_RETRY_AFTER));
            }
        }

        #[test]
        fn reads_every_date_it_should(seconds in 1..=MAX_RETRY_AFTER.as_secs(), now in 0..4_000_000_000_i64) {
            let now = Timestamp::from_millis(now * 1_000);
            let due = (now + Duration::from_secs(seconds)).to_jiff().to_zoned(TimeZone::UTC);
            for form in ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
                let text = due.strftime(form).to_string();
                prop_assert_eq!(parse_retry_after(text.as_bytes(), now), Some(Duration::from_secs(seconds)), "{}", text);
            }
        }
    }
}
