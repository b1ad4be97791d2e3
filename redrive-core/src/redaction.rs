//! Masking what must not be shown.
//!
//! A handler's answer and a body end up in headers, in the ledger and on screens. What a flow names as private is
//! masked before that, and where it cannot be told where the private values are, everything is.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FactSource, FactSourceError, Headers};

const MASK: &str = "[redacted]";

/// What is masked in everything shown or written about a message: `header:NAME` and `json:/pointer`.
///
/// ```
/// use redrive_core::Redaction;
///
/// let redaction = Redaction::new(["json:/customer/email".parse()?])?;
/// let shown = redaction.redact_json(br#"{"customer":{"email":"a@example.org"}}"#);
/// assert_eq!(&shown[..], br#"{"customer":{"email":"[redacted]"}}"#);
/// # Ok::<(), redrive_core::FactSourceError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<FactSource>", into = "Vec<FactSource>")]
pub struct Redaction(Vec<FactSource>);

impl Redaction {
    /// A redaction of these places. A constant is refused: it names no place.
    pub fn new(places: impl IntoIterator<Item = FactSource>) -> Result<Self, FactSourceError> {
        let places: Vec<_> = places.into_iter().collect();
        match places.iter().find(|place| matches!(place, FactSource::Constant(_))) {
            Some(constant) => Err(FactSourceError {
                found: constant.to_string().chars().take(64).collect(),
                expected: "expected a place to mask: `header:NAME` or `json:/pointer`",
            }),
            None => Ok(Self(places)),
        }
    }

    /// The text with the values at the pointers masked.
    ///
    /// Without pointers it comes back as it was. With them it is printed anew, its members sorted, even if nothing
    /// was masked: of a repeated key only the last value is kept, so an earlier one cannot slip through. This is
    /// for reading and never for the handler.
    ///
    /// A text that is not a JSON object or array to its end (plain text, a page, an excerpt cut short) is masked
    /// whole: what the pointers mean may be anywhere in it. So redact first and cut afterwards.
    pub fn redact_json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut pointers = self.pointers().peekable();
        if pointers.peek().is_none() || text.is_empty() {
            return Cow::Borrowed(text);
        }
        let Ok(mut tree @ (Value::Object(_) | Value::Array(_))) = serde_json::from_slice(text) else {
            return Cow::Borrowed(MASK.as_bytes());
        };
        for pointer in pointers {
            if let Some(value) = tree.pointer_mut(pointer) {
                *value = Value::from(MASK);
            }
        }
        match serde_json::to_vec(&tree) {
            Ok(printed) => Cow::Owned(printed),
            Err(_) => Cow::Borrowed(MASK.as_bytes()),
        }
    }

    /// The headers with the values of the named ones masked.
    pub fn redact_headers<'a>(&self, headers: &'a Headers) -> Cow<'a, Headers> {
        let is_private =
            |name: &str| self.0.iter().any(|place| matches!(place, FactSource::Header(n) if **n == *name));
        if !headers.iter().any(|header| is_private(header.name.as_str())) {
            return Cow::Borrowed(headers);
        }
        let masked = headers.iter().cloned().map(|mut header| {
            if is_private(header.name.as_str()) {
                header.value = Some(Bytes::from_static(MASK.as_bytes()));
            }
            header
        });
        Cow::Owned(masked.collect())
    }

    fn pointers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|place| match place {
            FactSource::Json(pointer) => Some(pointer.as_str()),
            _ => None,
        })
    }
}

impl TryFrom<Vec<FactSource>> for Redaction {
    type Error = FactSourceError;

    fn try_from(places: Vec<FactSource>) -> Result<Self, FactSourceError> {
        Self::new(places)
    }
}

impl From<Redaction> for Vec<FactSource> {
    fn from(redaction: Redaction) -> Self {
        redaction.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redaction(places: &[&str]) -> Redaction {
        serde_json::from_value(serde_json::json!(places)).unwrap()
    }

    fn shown(places: &[&str], text: &str) -> String {
        String::from_utf8(redaction(places).redact_json(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn masks_values_of_every_kind() {
        let text = r#"{"items":[{"iban":"DE1"},{"iban":{"bank":1}}],"open":2}"#;
        let masked = shown(&["json:/items/0/iban", "json:/items/1/iban", "json:/nothing"], text);
        assert_eq!(masked, r#"{"items":[{"iban":"[redacted]"},{"iban":"[redacted]"}],"open":2}"#);
        assert_eq!(shown(&["json:/items"], text), r#"{"items":"[redacted]","open":2}"#);
    }

    #[test]
    fn what_cannot_be_told_apart_is_masked_whole() {
        for text in
            ["mail to a@example.org", "<html>a@example.org", r#""a@example.org""#, r#"{"email":"a@exam"#]
        {
            assert_eq!(shown(&["json:/email"], text), "[redacted]");
            assert_eq!(shown(&["header:email"], text), text);
        }
        assert_eq!(shown(&["json:/email"], ""), "");
    }

    #[test]
    fn a_repeated_key_does_not_slip_through() {
        assert_eq!(shown(&["json:/a/b"], r#"{"a":{"b":"secret"},"a":{}}"#), r#"{"a":{}}"#);
        assert_eq!(shown(&["json:/b"], r#"{"b":"secret","b":"secret"}"#), r#"{"b":"[redacted]"}"#);
    }

    #[test]
    fn masks_headers_by_name() {
        let mut headers = Headers::new();
        headers.push("authorization", "Bearer 1");
        headers.push("type", "T");
        headers.push("authorization", "Bearer 2");
        let masked = redaction(&["header:authorization"]).redact_headers(&headers).into_owned();
        let values: Vec<_> = masked.iter().map(|header| header.value.clone().unwrap()).collect();
        assert_eq!(values, ["[redacted]", "T", "[redacted]"]);
        assert!(matches!(redaction(&["header:x"]).redact_headers(&headers), Cow::Borrowed(_)));
    }

    #[test]
    fn a_constant_is_no_place() {
        let error = serde_json::from_str::<Redaction>(r#"["email"]"#).unwrap_err().to_string();
        assert_eq!(error, "`email`: expected a place to mask: `header:NAME` or `json:/pointer`");
    }

    proptest! {
        #[test]
        fn the_secret_never_shows(noise in "[{}\\[\\]:,\"a]{0,24}", bytes: Vec<u8>, at: prop::sample::Index) {
            let redaction = redaction(&["json:/a"]);
            let _ = redaction.redact_json(&bytes);
            let places: Vec<usize> = noise.char_indices().map(|(i, _)| i).chain([noise.len()]).collect();
            let (before, after) = noise.split_at(*at.get(&places));
            let text = format!("{before}{{\"a\":\"secret\"}}{after}");
            // Only where the object is the whole document does the pointer mean its member.
            if serde_json::from_str::<Value>(&text).is_err() || noise.is_empty() {
                let shown = redaction.redact_json(text.as_bytes()).into_owned();
                prop_assert!(!String::from_utf8(shown).unwrap().contains("secret"));
            }
        }
    }
}
