//! Spring's error-handling deserializer: a serialized Java object in a header.
//!
//! To decode one is to build whatever objects its writer names. It is shown that it is there, and how large it is.

use serde::Serialize;

use super::{ForeignFailure, Writer};
use crate::{ErrorLink, Headers};

const KEY: &str = "springDeserializerExceptionKey";
const VALUE: &str = "springDeserializerExceptionValue";
/// What the header holds.
const KIND: &str = "org.springframework.kafka.support.serializer.DeserializationException";
/// What every stream of serialized Java objects begins with.
const MAGIC: &[u8] = &[0xac, 0xed, 0x00, 0x05];

/// Serialized Java objects that a message's headers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SerializedErrors {
    /// Of the key that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SerializedError>,
    /// Of the value that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<SerializedError>,
}

/// A serialized Java object that is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SerializedError {
    /// Its size.
    pub bytes: usize,
    /// Whether it begins as serialized Java objects do.
    pub java: bool,
}

impl SerializedErrors {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.key.is_none() && self.value.is_none()
    }
}

pub(super) fn read(headers: &Headers) -> SerializedErrors {
    let of = |name| {
        let value = headers.get(name)?;
        Some(SerializedError { bytes: value.len(), java: value.starts_with(MAGIC) })
    };
    SerializedErrors { key: of(KEY), value: of(VALUE) }
}

/// The failure of a message that nobody else wrote headers for.
pub(super) fn alone(serialized: &SerializedErrors) -> Option<ForeignFailure> {
    if serialized.is_empty() {
        return None;
    }
    let parts = [("key", serialized.key), ("value", serialized.value)];
    let mut failure = ForeignFailure::of(Writer::SpringDeserializer);
    failure.chain = parts
        .into_iter()
        .filter(|(_, error)| error.is_some())
        .map(|(part, _)| ErrorLink {
            kind: KIND.to_owned(),
            message: format!("the {part} could not be deserialized; the error is a serialized Java object"),
        })
        .collect();
    Some(failure)
}
