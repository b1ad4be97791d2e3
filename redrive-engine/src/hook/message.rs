//! What a hook sees of a message: everything but its body, masked and bounded.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive_core::headers::Field;
use redrive_core::{Headers, Message, Redaction};

use crate::port::MessageShown;

/// Headers that are told.
const MOST_HEADERS: usize = 64;
/// The longest value, and the longest key, in bytes; what is longer is cut.
const LONGEST: usize = 1_024;

/// A message as it is told of: without its body and Redrive's own headers, masked, every part bounded.
///
/// ```
/// use redrive_core::{Headers, Message, Redaction};
/// use redrive_engine::hook::shown;
///
/// let mut headers = Headers::new();
/// headers.push("tenant", "acme");
/// headers.push("api-key", "hunter2");
/// headers.push("x-retry-attempt", "3");
/// let message = Message { id: "order-1".into(), headers, ..Message::default() };
/// let told = shown(&message, Some("OrderPlaced"), &Redaction::new(["header:api-key".parse()?])?);
/// assert_eq!(told.headers["tenant"], "acme");
/// assert_eq!(told.headers["api-key"], "[redacted]");
/// assert_eq!(told.headers.len(), 2);
/// # Ok::<(), redrive_core::FactSourceError>(())
/// ```
pub fn shown(message: &Message, kind: Option<&str>, redaction: &Redaction) -> MessageShown {
    MessageShown {
        id: message.id.to_string(),
        key: message.key.as_deref().map(text_or_base64),
        kind: kind.map(str::to_owned),
        content_type: message.content_type.as_ref().map(ToString::to_string),
        size: message.body.as_ref().map_or(0, |body| body.len() as u64),
        headers: foreign(&redaction.redact_headers(&message.headers)),
    }
}

/// The last value of each name, the last names first when there are too many.
fn foreign(headers: &Headers) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for header in headers.iter().rev() {
        let name = header.name.as_str();
        if Field::of(name).is_some() || name.len() > LONGEST || told.contains_key(name) {
            continue;
        }
        if told.len() == MOST_HEADERS {
            break;
        }
        let value = header.value.as_deref().unwrap_or_default();
        told.insert(name.to_owned(), cut(&String::from_utf8_lossy(&value[..value.len().min(LONGEST)])));
    }
    told
}

fn text_or_base64(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(LONGEST)];
    match std::str::from_utf8(part) {
        Ok(text) => text.to_owned(),
        // The cut may have gone through a character.
        Err(error) if error.error_len().is_none() && part.len() < bytes.len() => {
            String::from_utf8_lossy(&part[..error.valid_up_to()]).into_owned()
        }
        Err(_) => format!("base64:{}", STANDARD.encode(part)),
    }
}

/// A replacement character may be longer than what it stands for.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn whatever_a_message_carries_is_bounded() {
        let mut headers = Headers::new();
        for n in 0..200 {
            headers.push(format!("h{n}"), vec![0xff; 5_000]);
        }
        headers.push("n".repeat(5_000), "x");
        let message = Message { key: Some(Bytes::from(vec![b'k'; 5_000])), headers, ..Message::default() };
        let told = shown(&message, None, &Redaction::default());
        assert_eq!(told.headers.len(), MOST_HEADERS);
        assert!(
            told.headers.contains_key("h199") && told.headers.values().all(|value| value.len() <= LONGEST)
        );
        assert_eq!(told.key.unwrap().len(), LONGEST);
    }

    #[test]
    fn a_key_that_is_no_text_is_told_as_base64() {
        assert_eq!(text_or_base64(b"customer-7"), "customer-7");
        assert_eq!(text_or_base64(&[0xff, 0xfe]), "base64://4=");
        assert_eq!(text_or_base64(&"ä".repeat(1_000).into_bytes()), "ä".repeat(512));
        let cut_through = format!("x{}", "ä".repeat(1_000));
        assert_eq!(text_or_base64(cut_through.as_bytes()), format!("x{}", "ä".repeat(511)));
    }

    #[test]
    fn the_last_value_of_a_name_counts_and_null_is_empty() {
        let mut headers = Headers::new();
        headers.push("a", "1");
        headers.push("a", "2");
        headers.push_header("b", None);
        let told = shown(&Message { headers, ..Message::default() }, None, &Redaction::default());
        assert_eq!((told.headers["a"].as_str(), told.headers["b"].as_str()), ("2", ""));
    }
}
