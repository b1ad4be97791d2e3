//! Messages to publish, as they come in a request.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use redrive_core::duration::Period;
use redrive_core::{Headers, MAX_MESSAGE_ID, Timestamp};
use redrive_engine::port::NewMessage;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::api::Limits;
use crate::codes;
use crate::params::Params;
use crate::problem::{Problem, brief};

/// Request headers that begin so become headers of the message.
pub const HEADER_PREFIX: &str = "redrive-header-";
/// Says that a message without a body is a tombstone, which is not an empty body.
pub(crate) const TOMBSTONE: &str = "redrive-tombstone";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A message: one line of `application/x-ndjson`. It has `body` or `body_base64`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewMessage")]
pub(crate) struct Line {
    /// The body as text; null is a tombstone.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    body: BodyText,
    /// The body as base64.
    body_base64: Option<String>,
    /// The key: messages with one key belong together.
    key: Option<String>,
    /// The id; one is made when there is none.
    id: Option<String>,
    /// The headers: a text, a null, or a list of these for a name that repeats.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, HeaderText>")]
    headers: HeaderPairs,
    /// Hand it out only after so long.
    delay: Option<Period>,
}

/// A null is a tombstone; leaving the body out is a mistake.
#[derive(Default)]
enum BodyText {
    #[default]
    Absent,
    Null,
    Text(String),
}

impl<'de> Deserialize<'de> for BodyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Text))
    }
}

/// Headers in their order: a text, a null, or a list of these for a name that repeats.
#[derive(Default)]
struct HeaderPairs(Headers);

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum HeaderText {
    One(Option<String>),
    Many(Vec<Option<String>>),
}

impl<'de> Deserialize<'de> for HeaderPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = HeaderPairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of header names and texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderPairs, A::Error> {
                let mut headers = Headers::new();
                while let Some(name) = map.next_key::<String>()? {
                    let value = map.next_value().map_err(|_| {
                        A::Error::custom(format!("header `{}`: expected a text", brief(&name)))
                    })?;
                    let values = match value {
                        HeaderText::One(value) => vec![value],
                        HeaderText::Many(values) => values,
                    };
                    for value in values {
                        headers.push_header(name.as_str(), value.map(Bytes::from));
                    }
                }
                Ok(HeaderPairs(headers))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// The messages of a batch, each with its line; all of them or none.
pub(crate) fn lines(
    bytes: &Bytes,
    limits: &Limits,
    now: Timestamp,
) -> Result<Vec<(usize, NewMessage)>, Problem> {
    let mut messages = Vec::new();
    let mut ids: HashMap<String, usize> = HashMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if messages.len() == limits.lines {
            return Err(Problem::new(
                codes::TOO_LARGE,
                format!("a request has at most {} messages", limits.lines),
            )
            .on_line(number));
        }
        let message = message(line, limits, now).map_err(|problem| problem.on_line(number))?;
        if let Some(id) = &message.id
            && let Some(first) = ids.insert(id.clone(), number)
        {
            let text = format!("the id `{}` stands on line {first} already", brief(id));
            return Err(Problem::new(codes::DUPLICATE, text).on_line(number));
        }
        messages.push((number, message));
    }
    if messages.is_empty() {
        return Err(Problem::new(codes::UNREADABLE, "there is no line with a message"));
    }
    Ok(messages)
}

fn message(line: &[u8], limits: &Limits, now: Timestamp) -> Result<NewMessage, Problem> {
    let line: Line = crate::body::parse(line)?;
    let body = match (line.body, line.body_base64) {
        (BodyText::Text(text), None) => Some(text.into()),
        (BodyText::Null, None) => None,
        (BodyText::Absent, Some(text)) => {
            let decoded = BASE64.decode(text).map_err(|why| Problem::wrong("body_base64", why))?;
            Some(decoded.into())
        }
        (BodyText::Absent, None) => {
            return Err(Problem::missing("body").help("give `body` or `body_base64`"));
        }
        (_, Some(_)) => {
            return Err(Problem::wrong("body_base64", "stands beside `body`; give one of them"));
        }
    };
    within(body.as_ref(), limits)?;
    Ok(NewMessage {
        id: line.id.map(checked_id).transpose()?,
        key: line.key.map(Bytes::from),
        body,
        headers: line.headers.0,
        content_type: None,
        due: line.delay.map(|delay| now + delay.0),
    })
}

/// The one message of a request whose body is not looked at.
pub(crate) fn opaque(
    params: &mut Params,
    headers: &HeaderMap,
    body: Bytes,
    limits: &Limits,
    now: Timestamp,
) -> Result<NewMessage, Problem> {
    let tombstone = headers.get(TOMBSTONE).is_some_and(|value| value.as_bytes() == b"true");
    if tombstone && !body.is_empty() {
        return Err(Problem::wrong(TOMBSTONE, "a tombstone has no body"));
    }
    let body = (!tombstone).then_some(body);
    within(body.as_ref(), limits)?;
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str().map(str::to_owned).map_err(|why| Problem::wrong("content-type", why)));
    let mut carried = Headers::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(HEADER_PREFIX)
            && !name.is_empty()
        {
            carried.push(name, Bytes::copy_from_slice(value.as_bytes()));
        }
    }
    Ok(NewMessage {
        due: params.duration("delay")?.map(|delay| now + delay),
        id: params.take("id").map(checked_id).transpose()?,
        key: params.take("key").map(Bytes::from),
        body,
        headers: carried,
        content_type: content_type.transpose()?,
    })
}

fn within(body: Option<&Bytes>, limits: &Limits) -> Result<(), Problem> {
    match body {
        Some(body) if body.len() > limits.message => {
            let text = format!("a message has at most {} bytes, this one {}", limits.message, body.len());
            Err(Problem::new(codes::TOO_LARGE, text).with("limit", limits.message))
        }
        _ => Ok(()),
    }
}

/// An id that could not be read back as it was given is refused, not cut.
fn checked_id(id: String) -> Result<String, Problem> {
    if id.is_empty() || id.chars().count() > MAX_MESSAGE_ID || id.chars().any(char::is_control) {
        let text = format!("expected 1 to {MAX_MESSAGE_ID} characters without control characters");
        return Err(Problem::wrong("id", text));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

    fn read(text: &str) -> Result<Vec<(usize, NewMessage)>, Problem> {
        lines(&Bytes::copy_from_slice(text.as_bytes()), &Limits { lines: 3, ..Limits::default() }, NOW)
    }

    #[test]
    fn reads_every_key() {
        let text = concat!(
            r#"{"body":"a","key":"k","id":"1","delay":"1m","headers":{"x":"1","y":["2",null],"x":"3"}}"#,
            "\r\n\n",
            r#"{"body_base64":"/w=="}"#,
            "\n",
            r#"{"body":null}"#,
        );
        let messages = read(text).unwrap();
        assert_eq!(messages.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3, 4]);
        let first = &messages[0].1;
        assert_eq!((first.body.as_deref(), first.key.as_deref()), (Some(&b"a"[..]), Some(&b"k"[..])));
        assert_eq!(first.due.unwrap().to_string(), "2026-07-01T09:01:00Z");
        let names: Vec<_> = first.headers.iter().map(|h| (h.name.as_str(), h.value.as_deref())).collect();
        assert_eq!(names, [("x", Some(&b"1"[..])), ("y", Some(b"2")), ("y", None), ("x", Some(b"3"))]);
        assert_eq!(messages[1].1.body.as_deref(), Some(&b"\xff"[..]));
        assert_eq!(messages[2].1.body, None);
    }

    #[test]
    fn says_on_which_line_and_why() {
        let good = r#"{"body":"a"}"#;
        for (bad, code) in [
            ("nonsense", codes::UNREADABLE),
            ("{\"body\":\"a\"", codes::UNREADABLE),
            ("[]", codes::WRONG_VALUE),
            ("{}", codes::MISSING),
            (r#"{"body":"a","boddy":1}"#, codes::UNKNOWN_NAME),
            (r#"{"body":"a","body_base64":""}"#, codes::WRONG_VALUE),
            (r#"{"body_base64":"!"}"#, codes::WRONG_VALUE),
            (r#"{"body":"a","delay":"500"}"#, codes::WRONG_VALUE),
            (r#"{"body":"a","id":""}"#, codes::WRONG_VALUE),
            (r#"{"body":"a","id":"a\u0000"}"#, codes::WRONG_VALUE),
            (r#"{"body":"a","headers":{"x":1}}"#, codes::WRONG_VALUE),
        ] {
            let problem = read(&format!("{good}\n{bad}")).unwrap_err();
            assert_eq!(problem.code(), code, "{bad}: {}", problem.message());
            assert!(problem.message().starts_with("line 2: "), "{}", problem.message());
        }
        assert_eq!(read(" \n").unwrap_err().code(), codes::UNREADABLE);
        assert_eq!(read(&[good; 4].join("\n")).unwrap_err().code(), codes::TOO_LARGE);
        let twice = read("{\"body\":\"\",\"id\":\"a\"}\n{\"body\":\"\",\"id\":\"a\"}").unwrap_err();
        assert_eq!(twice.message(), "line 2: the id `a` stands on line 1 already");
    }
}
