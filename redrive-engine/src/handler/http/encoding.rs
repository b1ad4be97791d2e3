//! How text of a message becomes the value of an HTTP header, and back.
//!
//! CloudEvents says it for its own attributes: what is not printable ASCII, and blank, quote and percent sign, are
//! percent-encoded. The same is done with ids, so that no byte of a message can begin another header.

use bytes::Bytes;
use hyper::header::HeaderValue;

/// Whether a byte goes as it is.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'%'
}

/// The text as a header's value. Shares the bytes when nothing needs encoding.
pub(super) fn encoded(text: &Bytes) -> HeaderValue {
    if text.iter().copied().all(is_plain) {
        return value(text.clone());
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    push_encoded(&mut out, text, |_| true);
    value(out.into())
}

/// The text as a header's value.
pub(super) fn encoded_str(text: &str) -> HeaderValue {
    encoded(&Bytes::copy_from_slice(text.as_bytes()))
}

/// Ids as a list separated by `, `, as many as fit into `max` bytes.
pub(super) fn encoded_list<'a>(ids: impl IntoIterator<Item = &'a String>, max: usize) -> HeaderValue {
    let mut out = Vec::new();
    for id in ids {
        let before = out.len();
        if before > 0 {
            out.extend_from_slice(b", ");
        }
        push_encoded(&mut out, id.as_bytes(), |byte| byte != b',');
        if out.len() > max {
            out.truncate(before);
            break;
        }
    }
    value(out.into())
}

fn push_encoded(out: &mut Vec<u8>, text: &[u8], allowed: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if is_plain(byte) && allowed(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// What was encoded, decoded; as it is when it does not decode to text.
pub(super) fn decoded(text: &str) -> String {
    decoded_bytes(text).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

/// Percent-encoding undone; nothing when a percent sign is followed by something else than two digits.
fn decoded_bytes(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    Some(out)
}

/// Encoded bytes are always a header's value.
fn value(bytes: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodes_what_cloudevents_names() {
        assert_eq!(encoded_str("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encoded_str("a\r\nb: \"c\" 5%"), "a%0D%0Ab:%20%22c%22%205%25");
        assert_eq!(encoded_str("orders/3/42"), "orders/3/42");
    }

    #[test]
    fn a_list_holds_whole_ids_only() {
        let ids = ["a,b".to_owned(), "c".to_owned(), "x".repeat(50)];
        assert_eq!(encoded_list(&ids, 20), "a%2Cb, c");
    }

    #[test]
    fn what_is_not_encoded_stays() {
        for text in ["50%", "%zz", "%ff", "plain"] {
            assert_eq!(decoded(text), text);
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text: String) {
            let value = encoded_str(&text);
            prop_assert_eq!(decoded(value.to_str().unwrap()), text);
        }
    }
}
