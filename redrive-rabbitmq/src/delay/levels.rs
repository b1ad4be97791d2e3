//! Binary levels: a delay as a sum of powers of two, each passed at most once.
//!
//! A message that expires into a queue from which it has expired before is dropped by the broker, or jams it. So a trip
//! goes strictly down, from the largest level to the smallest, and never through one twice. The delay is kept to its six
//! top bits and rounded up: at most six hops, never early, at most 3.2 % late.
//!
//! The routing key names the levels of the trip, `09.07.06`, and stays as it is. Each level's queue has an exchange behind it
//! that knows its own number and looks for the one that follows: one short match a hop, however many levels there are.

use std::time::Duration;

/// How many bits of a delay are kept, so many hops it has at most.
const KEPT: u32 = 6;
/// The largest level: the broker's times to live end below 2^32 ms.
const LARGEST: u32 = 31;

/// The levels of a flow, from the smallest to the largest. The number of a level is the power of two of its milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Levels {
    low: u32,
    high: u32,
}

/// The levels that a message passes, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trip(u32);

impl Levels {
    /// The levels that delays between these two can need.
    pub(crate) fn reaching(shortest: Duration, longest: Duration) -> Self {
        let shortest = millis(shortest).max(1);
        let longest = rounded(millis(longest).max(shortest));
        let high = longest.ilog2().min(LARGEST);
        let low = shortest.ilog2().min(high).saturating_sub(KEPT - 1);
        Self { low, high }
    }

    /// All of them, the largest first.
    pub(crate) fn all(self) -> impl Iterator<Item = u32> {
        (self.low..=self.high).rev()
    }

    /// Those that can follow a level on a trip, the largest first: a trip's levels lie within its kept bits.
    pub(crate) fn after(self, level: u32) -> impl Iterator<Item = u32> {
        (self.low.max(level.saturating_sub(KEPT - 1))..level).rev()
    }

    /// The way of a delay. It takes at least as long as the delay, or as long as a trip can be.
    pub(crate) fn trip(self, delay: Duration) -> Trip {
        let longest = self.longest();
        let delay = millis(delay);
        if delay >= longest {
            return Trip(u32::try_from(longest).unwrap_or(u32::MAX));
        }
        let unit = 1_u64 << self.low;
        let rounded = rounded(delay).next_multiple_of(unit).min(longest);
        Trip(u32::try_from(rounded).unwrap_or(u32::MAX))
    }

    /// How much longer than its delay a trip takes at most.
    pub(crate) fn latest(self) -> Duration {
        Duration::from_millis((self.longest() >> (KEPT - 1)) + (1 << self.low))
    }

    /// The milliseconds of the longest trip: the largest levels, so many as a trip has hops.
    fn longest(self) -> u64 {
        let lowest = self.low.max((self.high + 1).saturating_sub(KEPT));
        (1_u64 << (self.high + 1)) - (1_u64 << lowest)
    }
}

impl Trip {
    /// The first level; none when there is nothing to wait for.
    pub(crate) fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.ilog2())
    }

    /// The way as a routing key: its levels, the largest first.
    pub(crate) fn key(self) -> String {
        let levels = (0..=LARGEST).rev().filter(|level| self.0 & (1 << level) != 0);
        levels.map(word).collect::<Vec<_>>().join(".")
    }

    #[cfg(test)]
    fn millis(self) -> u64 {
        u64::from(self.0)
    }
}

/// The pattern of ways that begin with a level.
pub(crate) fn begins_with(level: u32) -> String {
    format!("{}.#", word(level))
}

/// The pattern of ways on which this one follows a level, or on which the level is the last.
pub(crate) fn follows(level: u32, next: Option<u32>) -> String {
    match next {
        Some(next) => format!("#.{}.{}.#", word(level), word(next)),
        None => format!("#.{}", word(level)),
    }
}

fn word(level: u32) -> String {
    format!("{level:02}")
}

/// How long a message stays in a level.
pub(crate) const fn stay(level: u32) -> u64 {
    1 << level
}

fn millis(duration: Duration) -> u64 {
    // What is not whole is rounded up: never early.
    let whole = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if duration.subsec_nanos().is_multiple_of(1_000_000) { whole } else { whole.saturating_add(1) }
}

/// Kept to its top bits, rounded up.
const fn rounded(millis: u64) -> u64 {
    let bits = u64::BITS - millis.leading_zeros();
    if bits <= KEPT {
        return millis;
    }
    let unit = 1_u64 << (bits - KEPT);
    match millis.checked_next_multiple_of(unit) {
        Some(rounded) => rounded,
        None => millis,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_trip_is_never_early_and_hardly_late(
            shortest in 1_u64..100_000, span in 1_u64..4_000_000_000, share in 0.0_f64..=1.0,
        ) {
            let longest = (shortest + span).min(4_000_000_000);
            let levels = Levels::reaching(Duration::from_millis(shortest), Duration::from_millis(longest));
            let delay = shortest + ((longest - shortest) as f64 * share) as u64;
            let trip = levels.trip(Duration::from_millis(delay));
            prop_assert!(trip.millis() >= delay);
            let late = trip.millis() - delay;
            prop_assert!(late * 1_000 <= delay * 32, "{late} ms on {delay} ms");
            prop_assert!(trip.0.count_ones() <= KEPT);
        }

        #[test]
        fn a_trip_passes_only_levels_that_are_made(
            shortest in 0_u64..u64::from(u32::MAX), longest in 0_u64..u64::MAX / 2, delay in 0_u64..u64::MAX / 2,
        ) {
            let levels = Levels::reaching(Duration::from_millis(shortest), Duration::from_millis(longest));
            let trip = levels.trip(Duration::from_millis(delay));
            let made: u32 = levels.all().fold(0, |bits, level| bits | 1 << level);
            prop_assert_eq!(trip.0 & !made, 0);
            prop_assert_eq!(trip.first().is_none(), delay == 0);
            prop_assert!(trip.0.count_ones() <= KEPT);
        }
    }

    /// As the broker's topic exchanges match.
    fn matches(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern, key) {
            ([], []) => true,
            (["#", rest @ ..], _) => matches(rest, key) || (!key.is_empty() && matches(pattern, &key[1..])),
            ([want, rest @ ..], [have, others @ ..]) => want == have && matches(rest, others),
            _ => false,
        }
    }

    fn fits(pattern: &str, key: &str) -> bool {
        let (pattern, key): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), key.split('.').collect());
        matches(&pattern, &key)
    }

    proptest! {
        /// Wherever a message is, one way leads on, and the ways together are its trip.
        #[test]
        fn the_exchanges_lead_a_message_through_its_trip(
            shortest in 1_u64..1_000_000, span in 0_u64..4_000_000_000, delay in 1_u64..5_000_000_000,
        ) {
            let levels =
                Levels::reaching(Duration::from_millis(shortest), Duration::from_millis(shortest + span));
            let trip = levels.trip(Duration::from_millis(delay));
            let key = trip.key();
            let begins: Vec<u32> = levels.all().filter(|level| fits(&begins_with(*level), &key)).collect();
            prop_assert_eq!(begins.len(), 1);
            let (mut at, mut passed) = (begins[0], 0_u32);
            loop {
                passed |= 1 << at;
                let next: Vec<u32> =
                    levels.after(at).filter(|next| fits(&follows(at, Some(*next)), &key)).collect();
                let ends = fits(&follows(at, None), &key);
                prop_assert_eq!(next.len() + usize::from(ends), 1, "at {} of {}", at, key);
                match next.first() {
                    Some(next) => at = *next,
                    None => break,
                }
            }
            prop_assert_eq!(passed, trip.0);
        }
    }

    #[test]
    fn a_part_of_a_millisecond_is_waited_for() {
        let levels = Levels::reaching(Duration::from_millis(1), Duration::from_secs(1));
        assert_eq!(levels.trip(Duration::from_micros(1_001)).millis(), 2);
        assert_eq!(levels.trip(Duration::ZERO).first(), None);
    }
}
