//! Single header values, each read within its bounds or not at all.

use bytes::Bytes;

use crate::headers::{MAX_ATTEMPT, MAX_ID, MAX_TOPIC};
use crate::{Headers, Text, Timestamp};

/// What is looked at of a text for people, in bytes.
pub(super) const MAX_READ: usize = 256 * 1024;
const MAX_MILLIS: u64 = Timestamp::MAX.as_millis() as u64;

/// The name of a topic or queue: whole or nothing.
pub(super) fn place(headers: &Headers, name: &str) -> Option<Text> {
    whole(headers, name, MAX_TOPIC)
}

/// Any other name or id: whole or nothing.
pub(super) fn id(headers: &Headers, name: &str) -> Option<Text> {
    whole(headers, name, MAX_ID)
}

fn whole(headers: &Headers, name: &str, max: usize) -> Option<Text> {
    let value = headers.get(name)?;
    // Four bytes a character at most: a longer one is not even looked at.
    (value.len() <= 4 * max).then(|| Text::from_utf8(value.clone()))??.into_id(max)
}

/// Text for people: its readable beginning.
pub(super) fn text<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?;
    let value = &value[..value.len().min(MAX_READ)];
    let text = match std::str::from_utf8(value) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&value[..error.valid_up_to()]).unwrap_or_default(),
    };
    (!text.is_empty()).then_some(text)
}

/// A partition as decimal text.
pub(super) fn partition(headers: &Headers, name: &str) -> Option<i32> {
    i32::try_from(decimal(headers, name)?).ok()
}

/// An offset as decimal text.
pub(super) fn offset(headers: &Headers, name: &str) -> Option<i64> {
    i64::try_from(decimal(headers, name)?).ok()
}

/// A number of attempts as decimal text. More than a counter holds is the most that it holds.
pub(super) fn count(headers: &Headers, name: &str) -> Option<u32> {
    Some(decimal(headers, name)?.min(u64::from(MAX_ATTEMPT)) as u32)
}

/// Decimal digits and nothing else.
fn decimal(headers: &Headers, name: &str) -> Option<u64> {
    digits(headers.get(name)?)
}

fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 20 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A partition as four bytes.
pub(super) fn binary_partition(headers: &Headers, name: &str) -> Option<i32> {
    let bytes: [u8; 4] = headers.get(name)?[..].try_into().ok()?;
    Some(i32::from_be_bytes(bytes)).filter(|partition| *partition >= 0)
}

/// An offset as eight bytes.
pub(super) fn binary_offset(headers: &Headers, name: &str) -> Option<i64> {
    let bytes: [u8; 8] = headers.get(name)?[..].try_into().ok()?;
    Some(i64::from_be_bytes(bytes)).filter(|offset| *offset >= 0)
}

/// A time as eight bytes of unix milliseconds.
pub(super) fn binary_time(headers: &Headers, name: &str) -> Option<Timestamp> {
    millis(binary_offset(headers, name)?.cast_unsigned())
}

/// A time as Java's `BigInteger` writes it: as few bytes as it takes, the first bit being the sign.
pub(super) fn short_time(headers: &Headers, name: &str) -> Option<Timestamp> {
    let value = headers.get(name)?;
    if value.is_empty() || value.len() > 8 || value[0] >= 0x80 {
        return None;
    }
    millis(value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Whether a value is a big-endian integer of that width and no text.
///
/// Decimal text has no NUL, and the first byte of every partition below 2^24 and every offset and time below 2^56
/// is one.
pub(super) fn is_binary(value: &Bytes, width: usize) -> bool {
    value.len() == width && value[0] == 0
}

/// A time as RFC 3339, as unix milliseconds, or as .NET prints it: `2026-07-01 09:00:00:123456 Z`.
pub(super) fn time(headers: &Headers, name: &str) -> Option<Timestamp> {
    let value = headers.get(name)?;
    if value.len() > 64 {
        return None;
    }
    let text = std::str::from_utf8(value).ok()?.trim();
    let at = match digits(text.as_bytes()) {
        Some(number) => millis(number)?,
        None => text.parse().ok().or_else(|| dotnet_time(text))?,
    };
    (at.as_millis() >= 0).then_some(at)
}

fn dotnet_time(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_once(' ')?;
    let (clock, fraction) = rest.strip_suffix(" Z")?.rsplit_once(':')?;
    format!("{date}T{clock}.{fraction}Z").parse().ok()
}

fn millis(number: u64) -> Option<Timestamp> {
    (number <= MAX_MILLIS).then(|| Timestamp::from_millis(number.cast_signed()))
}

/// The last part of an address such as `rabbitmq://host/vhost/orders?durable=true`; a plain name as it stands.
pub(super) fn address(headers: &Headers, name: &str) -> Option<Text> {
    let value = headers.get(name)?;
    if value.len() > 4 * MAX_ID {
        return None;
    }
    let address = std::str::from_utf8(value).ok()?;
    let Some((_, path)) = address.split_once("://") else { return place(headers, name) };
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    Text::from(path.rsplit('/').next()?).into_id(MAX_TOPIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: impl Into<Bytes>) -> Headers {
        let mut headers = Headers::new();
        headers.push("n", value);
        headers
    }

    #[test]
    fn times_are_read_in_each_of_their_forms() {
        let at = Some(Timestamp::from_millis(1_782_896_400_123));
        for text in ["1782896400123", "2026-07-01T09:00:00.123Z", "2026-07-01 09:00:00:123456 Z"] {
            assert_eq!(time(&with(text), "n"), at, "{text}");
        }
        for text in ["", "-1", "soon", "2026-07-01", "1969-01-01T00:00:00Z", "2026-13-01 09:00:00:1 Z"] {
            assert_eq!(time(&with(text), "n"), None, "{text}");
        }
        assert_eq!(time(&with("9".repeat(20)), "n"), None);
    }

    #[test]
    fn a_short_time_is_a_positive_number_of_up_to_eight_bytes() {
        let bytes = 1_782_896_400_123_i64.to_be_bytes();
        let at = Some(Timestamp::from_millis(1_782_896_400_123));
        assert_eq!(short_time(&with(bytes[2..].to_vec()), "n"), at);
        assert_eq!(short_time(&with(bytes.to_vec()), "n"), at);
        for bytes in [vec![], vec![0xff; 6], vec![0; 9], vec![0x7f; 8]] {
            assert_eq!(short_time(&with(bytes.clone()), "n"), None, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_none() {
        assert_eq!(partition(&with("2147483648"), "n"), None);
        assert_eq!(offset(&with("9223372036854775808"), "n"), None);
        assert_eq!(offset(&with("-1"), "n"), None);
        assert_eq!(count(&with("99999999999"), "n"), Some(MAX_ATTEMPT));
        assert_eq!(binary_partition(&with((-1_i32).to_be_bytes().to_vec()), "n"), None);
        assert_eq!(binary_offset(&with(vec![0; 4]), "n"), None);
        assert_eq!(binary_time(&with(i64::MAX.to_be_bytes().to_vec()), "n"), None);
    }

    #[test]
    fn an_address_gives_its_last_part() {
        let of = |text: &str| address(&with(text.to_owned()), "n");
        assert_eq!(of("rabbitmq://host/vhost/orders?durable=true").as_deref(), Some("orders"));
        assert_eq!(of("kafka://topic/orders/").as_deref(), Some("orders"));
        assert_eq!(of("orders@host").as_deref(), Some("orders@host"));
        assert_eq!(of("rabbitmq://"), None);
        assert_eq!(of("local://a\u{7}b"), None);
    }
}
