//! How far a partition is done, as it is committed.
//!
//! The offset is the lowest one that is not finished. What is finished beyond it stands in the commit's metadata, so that
//! a restart runs only what was in flight. Kafka bounds that text, and so does [`fits`]: before the text could grow too
//! long, nothing more of the partition is handed out.
//!
//! The text is `R1r` and the ranges as pairs of varints (how many are left out, how many are finished), or `R1b` and one
//! bit for each offset behind the lowest, whichever is shorter; both in base64. Any other text is somebody else's and
//! means that nothing is known.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;

const RANGES: &str = "R1r";
const BITS: &str = "R1b";

/// How far a partition is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The lowest offset that is not finished.
    pub(crate) lowest: i64,
    /// What is finished beyond it: first and one behind the last, ascending, apart from each other.
    pub(crate) beyond: Vec<(i64, i64)>,
}

/// The most bytes that so many characters carry.
const fn bytes_in(characters: usize) -> usize {
    characters.saturating_sub(RANGES.len()) / 4 * 3
}

/// Whether `room` characters are enough for what is finished among `span` offsets from the lowest on, when that is in
/// no more than so many pieces.
pub(crate) fn fits(room: usize, span: u64, pieces: usize) -> bool {
    let bytes = bytes_in(room) as u64;
    let ranges = (pieces as u64).saturating_mul(2 * varint_len(span));
    span <= bytes.saturating_mul(8) || ranges <= bytes
}

/// The most bytes that a number up to this one takes.
fn varint_len(number: u64) -> u64 {
    u64::from(64 - number.max(1).leading_zeros()).div_ceil(7)
}

impl Position {
    /// Whether this offset is finished.
    pub(crate) fn is_behind(&self, offset: i64) -> bool {
        offset < self.lowest || self.beyond.iter().any(|(first, end)| (*first..*end).contains(&offset))
    }

    /// How many offsets from `low` on are finished by this one and not by the other.
    pub(crate) fn ahead_of(&self, other: &Self, low: i64) -> u64 {
        let from = low.max(other.lowest);
        let mut ahead = 0;
        for (first, end) in [(from, self.lowest)].into_iter().chain(self.beyond.iter().copied()) {
            let mut first = first.max(from);
            for (done, done_end) in &other.beyond {
                if *done >= end {
                    break;
                }
                ahead += done.saturating_sub(first).max(0).cast_unsigned();
                first = first.max(*done_end);
            }
            ahead += end.saturating_sub(first).max(0).cast_unsigned();
        }
        ahead
    }

    /// What this one and the other have finished.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let lowest = self.lowest.min(other.lowest);
        let done = |of: &Self| {
            let mut done = vec![(lowest, of.lowest)];
            done.extend_from_slice(&of.beyond);
            done
        };
        let (ours, theirs) = (done(self), done(other));
        let mut beyond = Vec::new();
        let (mut our, mut their) = (ours.iter().peekable(), theirs.iter().peekable());
        while let (Some((first, end)), Some((other_first, other_end))) = (our.peek(), their.peek()) {
            let both = (*first.max(other_first), *end.min(other_end));
            if both.0 < both.1 {
                beyond.push(both);
            }
            if end <= other_end {
                our.next();
            } else {
                their.next();
            }
        }
        Self { lowest, beyond }
    }

    /// The text for the commit.
    pub(crate) fn metadata(&self) -> String {
        if self.beyond.is_empty() {
            return String::new();
        }
        let ranges = self.as_ranges();
        match self.as_bits(ranges.len()) {
            Some(bits) => format!("{BITS}{}", BASE64.encode(bits)),
            None => format!("{RANGES}{}", BASE64.encode(ranges)),
        }
    }

    /// Reads what was committed. What cannot be read is taken as not finished: it is run again, never left out.
    pub(crate) fn read(lowest: i64, metadata: &str) -> Self {
        let beyond = if let Some(text) = metadata.strip_prefix(RANGES) {
            BASE64.decode(text).ok().and_then(|bytes| from_ranges(lowest, &bytes))
        } else if let Some(text) = metadata.strip_prefix(BITS) {
            BASE64.decode(text).ok().map(|bytes| from_bits(lowest, &bytes))
        } else {
            None
        };
        Self { lowest, beyond: beyond.unwrap_or_default() }
    }

    fn as_ranges(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.beyond.len() * 3);
        let mut at = self.lowest;
        for (first, end) in &self.beyond {
            push_varint(&mut bytes, first.saturating_sub(at).max(0).cast_unsigned());
            push_varint(&mut bytes, end.saturating_sub(*first).max(0).cast_unsigned());
            at = *end;
        }
        bytes
    }

    /// One bit for each offset behind the lowest; nothing when that is not shorter.
    fn as_bits(&self, shorter_than: usize) -> Option<Vec<u8>> {
        let end = self.beyond.last()?.1;
        let bits = usize::try_from(end.checked_sub(self.lowest)?.checked_sub(1)?).ok()?;
        let length = bits.div_ceil(8);
        if length >= shorter_than {
            return None;
        }
        let mut bytes = vec![0_u8; length];
        for (first, end) in &self.beyond {
            for offset in *first..*end {
                let bit = usize::try_from(offset - self.lowest - 1).ok()?;
                *bytes.get_mut(bit / 8)? |= 1 << (bit % 8);
            }
        }
        Some(bytes)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(place * 7)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn from_ranges(lowest: i64, mut bytes: &[u8]) -> Option<Vec<(i64, i64)>> {
    let mut beyond = Vec::new();
    let mut at = lowest;
    while !bytes.is_empty() {
        let first = at.checked_add_unsigned(take_varint(&mut bytes)?)?;
        let end = first.checked_add_unsigned(take_varint(&mut bytes)?)?;
        // The lowest is never finished, and ranges neither touch nor are empty.
        if first <= at || end <= first {
            return None;
        }
        beyond.push((first, end));
        at = end;
    }
    Some(beyond)
}

fn from_bits(lowest: i64, bytes: &[u8]) -> Vec<(i64, i64)> {
    let mut beyond: Vec<(i64, i64)> = Vec::new();
    for (place, byte) in bytes.iter().enumerate() {
        for bit in 0..8 {
            if byte & (1 << bit) == 0 {
                continue;
            }
            let Some(offset) = lowest.checked_add_unsigned((place * 8 + bit + 1) as u64) else {
                return beyond;
            };
            let Some(end) = offset.checked_add(1) else { return beyond };
            match beyond.last_mut() {
                Some(last) if last.1 == offset => last.1 = end,
                _ => beyond.push((offset, end)),
            }
        }
    }
    beyond
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs of open and of finished offsets, in turn, from the lowest on.
    fn positions() -> impl Strategy<Value = Position> {
        (0..i64::MAX / 4, proptest::collection::vec((1..5_000_i64, 1..5_000_i64), 0..60))
            .prop_map(|(lowest, runs)| run(lowest, &runs))
    }

    fn run(lowest: i64, runs: &[(i64, i64)]) -> Position {
        let mut at = lowest;
        let mut beyond = Vec::new();
        for (open, finished) in runs {
            beyond.push((at + open, at + open + finished));
            at += open + finished;
        }
        Position { lowest, beyond }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(position in positions()) {
            prop_assert_eq!(Position::read(position.lowest, &position.metadata()), position);
        }

        #[test]
        fn what_is_ahead_is_counted_one_by_one(
            one in (0..40_i64, proptest::collection::vec((1..5_i64, 1..5_i64), 0..6)),
            other in (0..40_i64, proptest::collection::vec((1..5_i64, 1..5_i64), 0..6)),
            low in 0..60_i64,
        ) {
            let [one, other] = [one, other].map(|(lowest, runs)| run(lowest, &runs));
            let ahead = (low..200).filter(|offset| one.is_behind(*offset) && !other.is_behind(*offset)).count();
            prop_assert_eq!(one.ahead_of(&other, low), ahead as u64);
        }

        #[test]
        fn what_both_have_finished_is_finished(
            one in (0..40_i64, proptest::collection::vec((1..5_i64, 1..5_i64), 0..6)),
            other in (0..40_i64, proptest::collection::vec((1..5_i64, 1..5_i64), 0..6)),
        ) {
            let [one, other] = [one, other].map(|(lowest, runs)| run(lowest, &runs));
            let both = one.and(&other);
            for offset in 0..200 {
                prop_assert_eq!(both.is_behind(offset), one.is_behind(offset) && other.is_behind(offset));
            }
            prop_assert_eq!(Position::read(both.lowest, &both.metadata()), both);
        }

        #[test]
        fn any_text_is_read(lowest: i64, text in "(R1r|R1b)?[A-Za-z0-9+/]{0,300}") {
            let position = Position::read(lowest, &text);
            let mut at = lowest;
            for (first, end) in position.beyond {
                prop_assert!(first > at && end > first);
                at = end;
            }
        }

        /// Whatever of so many offsets is finished, the text is never longer than the room that was promised.
        #[test]
        fn what_fits_fits(
            lowest in 0..1_i64 << 40,
            room in 16..2_100_usize,
            states in proptest::collection::vec(any::<bool>(), 1..4_000),
            stretch in 1..40_i64,
        ) {
            // The lowest is open; the others lie `stretch` apart, and what lies between follows its neighbour.
            let mut beyond: Vec<(i64, i64)> = Vec::new();
            for (place, finished) in (0_i64..).zip(&states) {
                let first = lowest + 1 + place * stretch;
                if !finished {
                    continue;
                }
                match beyond.last_mut() {
                    Some(last) if last.1 == first => last.1 = first + stretch,
                    _ => beyond.push((first, first + stretch)),
                }
            }
            let span = 1 + states.len() as u64 * stretch.cast_unsigned();
            if fits(room, span, beyond.len()) {
                let text = Position { lowest, beyond }.metadata();
                prop_assert!(text.len() <= room, "{} characters in {room}", text.len());
            }
        }
    }

    #[test]
    fn every_second_of_twelve_thousand_fits_into_half_of_the_usual_limit() {
        let beyond: Vec<(i64, i64)> = (0..6_000).map(|pair| (1 + pair * 2, 2 + pair * 2)).collect();
        let position = Position { lowest: 0, beyond };
        assert!(fits(2_048, 12_000, 6_000));
        assert!(position.metadata().len() <= 2_048);
        assert_eq!(Position::read(0, &position.metadata()), position);
    }

    #[test]
    fn few_open_ones_may_lie_far_apart() {
        assert!(fits(2_048, 1 << 40, 100));
        assert!(!fits(2_048, 1 << 40, 10_000));
        assert!(!fits(2_048, 13_000, 10_000));
        assert!(!fits(0, 100, 1));
    }

    #[test]
    fn nothing_beyond_needs_no_text() {
        assert_eq!(Position { lowest: 7, beyond: Vec::new() }.metadata(), "");
        assert_eq!(Position::read(7, "written by somebody else").beyond, []);
    }
}
