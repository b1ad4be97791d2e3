//! The parking-lot envelope: what a person needs to judge a message without reading logs.
//!
//! It answers what failed, when, how often, in which version, whose it is and which business entity waits. It is
//! the data of a rejection event, and by choice the body of a dead letter; it then carries the original bytes and
//! headers too, so that nothing is lost by wrapping them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::headers::{MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ERROR_TYPE, MAX_ID, Trail};
use crate::{Class, Facts, Header, Headers, MAX_FACT, Message, Reason, Text, Timestamp};

/// The largest envelope that is read, in bytes: a body of 64 MiB in base64, and its headers.
pub const MAX_ENVELOPE: usize = 96 * 1024 * 1024;
/// The most headers an envelope carries.
pub const MAX_ENVELOPE_HEADERS: usize = 1_000;

/// The parking-lot envelope. What is unknown is null, so all fifteen fields are always there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The message's id.
    pub message_id: Text,
    /// What ties the messages of one business process together.
    pub correlation_id: Option<Text>,
    /// The message or command that caused this one.
    pub causation_id: Option<Text>,
    /// The message type.
    pub message_type: Option<Text>,
    /// The version of the message's schema.
    pub schema_version: Option<Text>,
    /// Who sent the message.
    pub producer: Option<Text>,
    /// Who failed to handle it: the flow.
    pub consumer: Text,
    /// The business entity the message is about.
    pub aggregate_id: Option<Text>,
    /// When the first attempt failed.
    pub first_failure_at: Option<Timestamp>,
    /// When the last attempt failed.
    pub last_failure_at: Option<Timestamp>,
    /// How many attempts were made.
    pub attempt_count: u32,
    /// The class of the last failure.
    pub failure_class: Class,
    /// The reason of the last failure.
    pub failure_reason: Reason,
    /// The version of the handler that failed last.
    pub handler_version: Option<Text>,
    /// When a replay is safe, as the owner put it, such as `AFTER_SCHEMA_FIX_ONLY`.
    pub replay_policy: Option<Text>,
    /// The original body, when the envelope is a dead letter's body: base64, or null for a tombstone.
    #[serde(
        rename = "payload_base64",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub payload: Option<Payload>,
    /// The original headers in their order, when the envelope is a dead letter's body.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "header_list")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<EnvelopeHeader>>"))]
    pub headers: Option<Headers>,
}

/// The body inside an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// The message has no body, which is not an empty one.
    Tombstone,
    /// The body's bytes.
    Bytes(Bytes),
}

/// A text that is no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is larger than [`MAX_ENVELOPE`].
    #[error("an envelope of {0} bytes is larger than is read")]
    TooLarge(usize),
    /// It is not JSON, or not of this shape.
    #[error("not an envelope: {0}")]
    Shape(String),
    /// A field is longer, or a list has more, than is read.
    #[error("`{0}` of an envelope is empty or longer than is read")]
    Field(&'static str),
}

impl Envelope {
    /// The envelope of a message that failed, from what is known about it.
    pub fn new(message_id: Text, consumer: impl Into<Text>, facts: &Facts, trail: &Trail) -> Self {
        let or = |fact: &Option<Text>, carried: &Option<Text>| fact.as_ref().or(carried.as_ref()).cloned();
        Self {
            message_id,
            correlation_id: or(&facts.correlation, &trail.correlation_id),
            causation_id: or(&facts.causation, &trail.causation_id),
            message_type: facts.message_type.clone(),
            schema_version: facts.schema.clone(),
            producer: facts.producer.clone(),
            consumer: consumer.into(),
            aggregate_id: facts.entity.clone(),
            first_failure_at: trail.first_failure_at,
            last_failure_at: trail.last_failure_at,
            attempt_count: trail.attempt,
            failure_class: trail.class.unwrap_or(Class::Unknown),
            failure_reason: trail.reason.clone().unwrap_or(Reason::UNKNOWN_FAILURE),
            handler_version: trail.handler_version.clone(),
            replay_policy: None,
            payload: None,
            headers: None,
        }
    }

    /// The same envelope around the message's own bytes and headers: the body of a dead letter.
    #[must_use]
    pub fn around(mut self, message: &Message) -> Self {
        self.payload = Some(message.body.clone().map_or(Payload::Tombstone, Payload::Bytes));
        self.headers = Some(message.headers.clone());
        self
    }

    /// Reads an envelope from bytes that anybody may have written. Fields of a later version are ignored.
    pub fn from_json(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > MAX_ENVELOPE {
            return Err(EnvelopeError::TooLarge(bytes.len()));
        }
        let envelope: Self = serde_json::from_slice(bytes).map_err(|error| {
            // The message may quote what it found, which may be long.
            EnvelopeError::Shape(error.to_string().chars().take(256).collect())
        })?;
        envelope.check()?;
        Ok(envelope)
    }

    fn check(&self) -> Result<(), EnvelopeError> {
        let texts = [
            ("messageId", Some(&self.message_id), MAX_ID),
            ("correlationId", self.correlation_id.as_ref(), MAX_ID),
            ("causationId", self.causation_id.as_ref(), MAX_ID),
            ("messageType", self.message_type.as_ref(), MAX_FACT),
            ("schemaVersion", self.schema_version.as_ref(), MAX_FACT),
            ("producer", self.producer.as_ref(), MAX_FACT),
            ("consumer", Some(&self.consumer), MAX_FACT),
            ("aggregateId", self.aggregate_id.as_ref(), MAX_FACT),
            ("handlerVersion", self.handler_version.as_ref(), MAX_ERROR_TYPE),
            ("replayPolicy", self.replay_policy.as_ref(), MAX_ERROR_MESSAGE),
        ];
        for (name, text, max) in texts {
            if text.is_some_and(|text| text.is_empty() || text.is_longer_than(max)) {
                return Err(EnvelopeError::Field(name));
            }
        }
        if self.attempt_count > MAX_ATTEMPT {
            return Err(EnvelopeError::Field("attemptCount"));
        }
        if self.headers.as_ref().is_some_and(|headers| headers.len() > MAX_ENVELOPE_HEADERS) {
            return Err(EnvelopeError::Field("headers"));
        }
        Ok(())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tombstone => serializer.serialize_none(),
            Self::Bytes(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
        }
    }
}

/// Reads a field that is there: null is a tombstone then, not an absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    let bytes = match Option::<std::borrow::Cow<'_, str>>::deserialize(deserializer)? {
        None => return Ok(Some(Payload::Tombstone)),
        Some(text) => STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?,
    };
    Ok(Some(Payload::Bytes(bytes.into())))
}

/// One header in an envelope: `value` when it is text, `value_base64` when it is not, neither when it is null.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
struct EnvelopeHeader {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// Headers as a list, because a name may be there twice and the order may matter.
mod header_list {
    use super::{
        Bytes, Deserialize, Deserializer, EnvelopeHeader, Header, Headers, STANDARD, Serializer, Text,
    };
    use base64::Engine as _;

    #[expect(clippy::ref_option, reason = "serde's `with` calls it so")]
    pub(super) fn serialize<S: Serializer>(
        headers: &Option<Headers>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let list = headers.iter().flatten().map(|Header { name, value }| {
            let text = value.clone().and_then(Text::from_utf8);
            let binary = value.as_ref().filter(|_| text.is_none()).map(|bytes| STANDARD.encode(bytes));
            EnvelopeHeader { name: name.as_str().to_owned(), value: text, value_base64: binary }
        });
        serializer.collect_seq(list)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Headers>, D::Error> {
        let Some(list) = Option::<Vec<EnvelopeHeader>>::deserialize(deserializer)? else { return Ok(None) };
        let mut headers = Headers::with_capacity(list.len());
        for header in list {
            let value = match (header.value, header.value_base64) {
                (Some(text), _) => Some(text.into_bytes()),
                (None, Some(text)) => {
                    Some(Bytes::from(STANDARD.decode(text).map_err(serde::de::Error::custom)?))
                }
                (None, None) => None,
            };
            headers.push_header(header.name, value);
        }
        Ok(Some(headers))
    }
}

/// The event that a rejected message leaves: CloudEvents in JSON, with the envelope's fields as its data.
///
/// ```
/// use redrive_core::{Envelope, Facts, RejectionEvent, Text, Timestamp, headers::Trail};
///
/// let envelope = Envelope::new("msg-9e117".into(), "orders", &Facts::default(), &Trail::default());
/// let event = RejectionEvent::new("e-1".into(), "kafka://main/orders".into(), Timestamp::default(), envelope);
/// let json = serde_json::to_value(&event)?;
/// assert_eq!(json["type"], "redrive.rejected");
/// assert_eq!(json["data"]["messageId"], "msg-9e117");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RejectionEvent {
    specversion: Text,
    #[serde(rename = "type")]
    event_type: Text,
    datacontenttype: Text,
    /// The event's own id.
    pub id: Text,
    /// The source's address, without credentials.
    pub source: Text,
    /// When the message was rejected.
    pub time: Timestamp,
    /// The business entity, when it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Text>,
    /// The envelope's fields.
    pub data: Envelope,
}

impl RejectionEvent {
    /// The type of the event.
    pub const TYPE: &'static str = "redrive.rejected";
    /// The media type of the event as JSON.
    pub const CONTENT_TYPE: &'static str = "application/cloudevents+json";

    /// The event of a rejected message.
    pub fn new(id: Text, source: Text, time: Timestamp, data: Envelope) -> Self {
        Self {
            specversion: Text::from_static("1.0"),
            event_type: Text::from_static(Self::TYPE),
            datacontenttype: Text::from_static("application/json"),
            id,
            source,
            time,
            subject: data.aggregate_id.clone(),
            data,
        }
    }
}
