//! Numbers in headers: decimal text, read without trust.

/// What a header's value turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read<T> {
    /// A value within its bounds.
    Good(T),
    /// A value outside its bounds, held to the nearest.
    Clamped(T),
    /// Nothing that can be used.
    Bad,
}

impl<T> Read<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Good(value) => Read::Good(f(value)),
            Self::Clamped(value) => Read::Clamped(f(value)),
            Self::Bad => Read::Bad,
        }
    }
}

/// Decimal digits and nothing else, held to `max`. More digits than a number can have are still a number.
pub(super) fn decimal(bytes: &[u8], max: u64) -> Read<u64> {
    if bytes.is_empty() || bytes.len() > 64 {
        return Read::Bad;
    }
    let mut value: u64 = 0;
    for byte in bytes {
        if !byte.is_ascii_digit() {
            return Read::Bad;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    if value > max { Read::Clamped(max) } else { Read::Good(value) }
}

/// A number that must not be clamped, because the nearest one names something else: an offset, a partition.
///
/// Spring Cloud Stream's binder writes big-endian integers of `width` bytes under the same names. They are told
/// apart by their first byte: a NUL, which no decimal text has and every real partition, offset and timestamp
/// below 2^24 or 2^56 does. Anything else of that width is either digits or nothing.
pub(super) fn exact(bytes: &[u8], width: usize, max: u64) -> Read<u64> {
    if bytes.len() == width && bytes.first() == Some(&0) {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        return if value <= max { Read::Good(value) } else { Read::Bad };
    }
    match decimal(bytes, max) {
        Read::Good(value) => Read::Good(value),
        _ => Read::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_is_held_to_its_bound() {
        assert_eq!(decimal(b"0", 9), Read::Good(0));
        assert_eq!(decimal(b"007", 9), Read::Good(7));
        assert_eq!(decimal(b"10", 9), Read::Clamped(9));
        assert_eq!(decimal(b"99999999999999999999999999", u64::MAX - 1), Read::Clamped(u64::MAX - 1));
        for bytes in [&b""[..], b"-1", b"+1", b" 1", b"1 ", b"1e3", b"1.0", b"\xff", &[b'1'; 65]] {
            assert_eq!(decimal(bytes, 9), Read::Bad, "{bytes:?}");
        }
    }

    #[test]
    fn binary_integers_are_told_from_text() {
        assert_eq!(exact(&7_i32.to_be_bytes(), 4, u64::MAX), Read::Good(7));
        assert_eq!(exact(&1_782_896_400_000_i64.to_be_bytes(), 8, u64::MAX), Read::Good(1_782_896_400_000));
        assert_eq!(exact(b"1234", 4, u64::MAX), Read::Good(1234));
        assert_eq!(exact(b"12345678", 8, u64::MAX), Read::Good(12_345_678));
        assert_eq!(exact(&(-1_i32).to_be_bytes(), 4, u64::MAX), Read::Bad);
        assert_eq!(exact(b"abcd", 4, u64::MAX), Read::Bad);
        assert_eq!(exact(&7_i64.to_be_bytes(), 4, u64::MAX), Read::Bad);
        assert_eq!(exact(b"12", 4, 9), Read::Bad);
    }
}
