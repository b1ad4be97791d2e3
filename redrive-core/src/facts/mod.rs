//! What Redrive knows about a message besides its bytes.
//!
//! A rule, a lane, a quarantine and an operator's search all ask the same few things: what type is it, whose, about
//! which business entity. Each team keeps them elsewhere, so a flow says where each is found. The body is read
//! only when a source points into it, and then once for all of them.

mod order;
mod source;

use serde::{Deserialize, Serialize};

pub use order::{OrderBy, OrderByError};
pub use source::{FactSource, FactSourceError};

use crate::pointer;
use crate::{Headers, Text, Timestamp};

/// The longest fact, in characters; a longer one is cut.
pub const MAX_FACT: usize = 256;

/// Where each fact of a flow's messages is found.
///
/// A fact that is not configured is looked for under the usual names, the first that is there:
///
/// | fact | headers |
/// |---|---|
/// | type | `ce_type`, `type` |
/// | schema | `ce_dataschema`, `schema-version` |
/// | producer | `ce_source`, `producer` |
/// | tenant | `tenant` |
/// | correlation | `x-correlation-id`, `correlation-id` |
/// | causation | `x-causation-id`, `causation-id` |
///
/// Entity and deadline have none: a wrong guess would charge the wrong budget, or discard the message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FactSources {
    /// The message type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<FactSource>,
    /// The version of the message's schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<FactSource>,
    /// Who sent the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer: Option<FactSource>,
    /// The business entity the message is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<FactSource>,
    /// The tenant the message belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<FactSource>,
    /// What ties the messages of one business process together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<FactSource>,
    /// The message or command that caused this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causation: Option<FactSource>,
    /// When handling the message is of no more use: RFC 3339, unix seconds or unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<FactSource>,
}

/// What is known about one message, each fact at most [`MAX_FACT`] characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The message type.
    pub message_type: Option<Text>,
    /// The version of the message's schema.
    pub schema: Option<Text>,
    /// Who sent the message.
    pub producer: Option<Text>,
    /// The business entity the message is about.
    pub entity: Option<Text>,
    /// The tenant the message belongs to.
    pub tenant: Option<Text>,
    /// What ties the messages of one business process together.
    pub correlation: Option<Text>,
    /// The message or command that caused this one.
    pub causation: Option<Text>,
    /// When handling the message is of no more use.
    pub deadline: Option<Timestamp>,
    /// Whether a source points into the body and the body is not JSON.
    pub body_unreadable: bool,
}

impl FactSources {
    /// The facts of one message. The body is read only if a source points into it; a tombstone has nothing to
    /// read.
    ///
    /// ```
    /// use redrive_core::{FactSources, Headers};
    ///
    /// let sources = FactSources { entity: Some("json:/order/id".parse()?), ..FactSources::default() };
    /// let mut headers = Headers::new();
    /// headers.push("type", "OrderCreated");
    /// let facts = sources.find(&headers, Some(br#"{"order":{"id":771}}"#));
    /// assert_eq!(facts.entity.as_deref(), Some("771"));
    /// assert_eq!(facts.message_type.as_deref(), Some("OrderCreated"));
    /// # Ok::<(), redrive_core::FactSourceError>(())
    /// ```
    pub fn find(&self, headers: &Headers, body: Option<&[u8]>) -> Facts {
        let mut texts = [const { None }; 8];
        let mut pointers = Vec::new();
        let mut places = [0; 8];
        for (place, (source, usual)) in self.all().into_iter().enumerate() {
            texts[place] = match source {
                Some(FactSource::Json(pointer)) if body.is_some() => {
                    places[pointers.len()] = place;
                    pointers.push(pointer);
                    None
                }
                Some(FactSource::Json(_)) => None,
                Some(FactSource::Header(name)) => header(headers, name),
                Some(FactSource::Constant(text)) => Some(text.clone()),
                None => usual.iter().find_map(|name| header(headers, name)),
            };
        }
        let mut body_unreadable = false;
        if let Some(body) = body.filter(|_| !pointers.is_empty()) {
            match pointer::find(body, &pointers, MAX_FACT) {
                Ok(found) => {
                    for (place, text) in places.into_iter().zip(found) {
                        texts[place] = text.filter(|text| !text.is_empty());
                    }
                }
                Err(pointer::NotJson) => body_unreadable = true,
            }
        }
        let [message_type, schema, producer, entity, tenant, correlation, causation, deadline] = texts;
        let deadline = deadline.and_then(|text| parse_deadline(&text));
        Facts {
            message_type,
            schema,
            producer,
            entity,
            tenant,
            correlation,
            causation,
            deadline,
            body_unreadable,
        }
    }

    /// The deadline alone, for whoever needs nothing else; without a source for it nothing is read.
    ///
    /// ```
    /// use redrive_core::{FactSources, Headers, Timestamp};
    ///
    /// let sources = FactSources { deadline: Some("header:deadline".parse()?), ..FactSources::default() };
    /// let mut headers = Headers::new();
    /// headers.push("deadline", "1782896400");
    /// assert_eq!(sources.find_deadline(&headers, None), Some(Timestamp::from_millis(1_782_896_400_000)));
    /// assert_eq!(FactSources::default().find_deadline(&headers, None), None);
    /// # Ok::<(), redrive_core::FactSourceError>(())
    /// ```
    pub fn find_deadline(&self, headers: &Headers, body: Option<&[u8]>) -> Option<Timestamp> {
        let text = self.deadline.as_ref()?.find(headers, body)?;
        parse_deadline(&text)
    }

    /// Each source with the headers that are asked when it is not configured, in the order of the fields.
    fn all(&self) -> [(Option<&FactSource>, &'static [&'static str]); 8] {
        [
            (self.message_type.as_ref(), &["ce_type", "type"]),
            (self.schema.as_ref(), &["ce_dataschema", "schema-version"]),
            (self.producer.as_ref(), &["ce_source", "producer"]),
            (self.entity.as_ref(), &[]),
            (self.tenant.as_ref(), &["tenant"]),
            (self.correlation.as_ref(), &["x-correlation-id", "correlation-id"]),
            (self.causation.as_ref(), &["x-causation-id", "causation-id"]),
            (self.deadline.as_ref(), &[]),
        ]
    }
}

fn header(headers: &Headers, name: &str) -> Option<Text> {
    headers.get_text(name, MAX_FACT).filter(|text| !text.is_empty())
}

/// A deadline: RFC 3339, or a unix time in seconds or, from 100,000,000,000 on, in milliseconds.
///
/// Read as seconds that number is the year 5138, read as milliseconds it is 1973: no deadline is near it.
fn parse_deadline(text: &str) -> Option<Timestamp> {
    if let Ok(number) = text.parse::<i64>() {
        let millis = if number.unsigned_abs() >= 100_000_000_000 { number } else { number * 1_000 };
        return Some(Timestamp::from_millis(millis));
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(text: &str) -> Option<FactSource> {
        text.parse().ok()
    }

    #[test]
    fn reads_the_documented_configuration() {
        let text = r#"{"type":"header:type","schema":"header:schema-version","producer":"checkout-api",
            "entity":"json:/order/id","tenant":"header:tenant","correlation":"header:x-correlation-id",
            "causation":"header:x-causation-id","deadline":"header:deadline"}"#;
        let sources: FactSources = serde_json::from_str(text).unwrap();
        assert_eq!(sources.entity, source("json:/order/id"));
        let again = serde_json::to_value(&sources).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert!(serde_json::from_str::<FactSources>(r#"{"typ":"header:type"}"#).is_err());
    }

    #[test]
    fn the_usual_names_are_asked_in_order() {
        let mut headers = Headers::new();
        headers.push("type", "plain");
        headers.push("ce_type", "cloud");
        headers.push("deadline", "0");
        let facts = FactSources::default().find(&headers, None);
        assert_eq!(facts.message_type.as_deref(), Some("cloud"));
        assert_eq!(facts.deadline, None);
    }

    #[test]
    fn a_body_that_nobody_asks_about_is_not_read() {
        let facts = FactSources::default().find(&Headers::new(), Some(b"not json"));
        assert_eq!(facts, Facts::default());
    }

    #[test]
    fn a_body_that_is_not_json_leaves_its_facts_absent() {
        let sources =
            FactSources { entity: source("json:/id"), producer: source("me"), ..FactSources::default() };
        let facts = sources.find(&Headers::new(), Some(br#"{"id":1"#));
        assert_eq!(
            (facts.entity, facts.producer.as_deref(), facts.body_unreadable),
            (None, Some("me"), true)
        );
        assert!(!sources.find(&Headers::new(), None).body_unreadable);
        assert_eq!(sources.entity.unwrap().find(&Headers::new(), Some(b"{\"id\":1}")).as_deref(), Some("1"));
    }

    #[test]
    fn several_facts_from_one_body() {
        let sources = FactSources {
            message_type: source("json:/type"),
            tenant: source("json:/meta/tenant"),
            deadline: source("json:/meta/deadline"),
            entity: source("json:/order/id"),
            ..FactSources::default()
        };
        let body = br#"{"meta":{"tenant":"acme","deadline":1782896400},"order":{"id":"o-1"},"type":"T"}"#;
        let facts = sources.find(&Headers::new(), Some(body));
        assert_eq!(facts.message_type.as_deref(), Some("T"));
        assert_eq!((facts.tenant.as_deref(), facts.entity.as_deref()), (Some("acme"), Some("o-1")));
        assert_eq!(facts.deadline, Some(Timestamp::from_millis(1_782_896_400_000)));
    }

    #[test]
    fn deadlines_in_three_forms() {
        let expected = Some(Timestamp::from_millis(1_782_896_400_000));
        for text in ["2026-07-01T09:00:00Z", "2026-07-01T11:00:00+02:00", "1782896400", "1782896400000"] {
            assert_eq!(parse_deadline(text), expected, "{text}");
        }
        for text in ["", "tomorrow", "1.5", "99999999999999999999"] {
            assert_eq!(parse_deadline(text), None, "{text}");
        }
        assert_eq!(parse_deadline("9223372036854775807"), Some(Timestamp::MAX));
        assert_eq!(parse_deadline("-9223372036854775808"), Some(Timestamp::MIN));
    }

    proptest! {
        #[test]
        fn facts_are_bounded(value: Vec<u8>, long in ".{250,300}") {
            let sources = FactSources { entity: source("json:/a"), deadline: source("header:d"), ..FactSources::default() };
            let mut headers = Headers::new();
            headers.push("d", value);
            headers.push("type", long.clone());
            let body = serde_json::json!({ "a": long }).to_string();
            let facts = sources.find(&headers, Some(body.as_bytes()));
            for fact in [facts.entity.unwrap(), facts.message_type.unwrap()] {
                prop_assert!(fact.chars().count() <= MAX_FACT);
                prop_assert!(long.starts_with(fact.as_str()));
            }
        }
    }
}
