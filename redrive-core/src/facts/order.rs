//! What keeps the messages of one business process in order.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::FactSource;
use crate::Message;

/// What the lanes of a flow are made by.
///
/// ```
/// use redrive_core::OrderBy;
///
/// assert_eq!("key".parse(), Ok(OrderBy::Key));
/// assert!("json:/order/id".parse::<OrderBy>().is_ok());
/// assert!("customer".parse::<OrderBy>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OrderBy {
    /// Nothing: messages overtake each other.
    #[default]
    None,
    /// The message's key.
    Key,
    /// A header or a value in the body.
    Fact(FactSource),
}

impl OrderBy {
    /// Whether anything is kept in order.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The message's order key; nothing when it has none, and so no order to keep.
    ///
    /// ```
    /// use redrive_core::{Message, OrderBy};
    ///
    /// let mut message = Message::default();
    /// assert_eq!(OrderBy::Key.find(&message), None);
    /// message.key = Some("customer-1".into());
    /// assert_eq!(OrderBy::Key.find(&message).as_deref(), Some(&b"customer-1"[..]));
    /// ```
    pub fn find(&self, message: &Message) -> Option<Bytes> {
        match self {
            Self::None => None,
            Self::Key => message.key.clone(),
            Self::Fact(fact) => {
                let found = fact.find(&message.headers, message.body.as_deref())?;
                Some(Bytes::copy_from_slice(found.as_bytes()))
            }
        }
    }
}

/// A text that names nothing to order by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is nothing to order by; expected none, key, header:NAME or json:/pointer")]
pub struct OrderByError(String);

impl FromStr for OrderBy {
    type Err = OrderByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "key" => Ok(Self::Key),
            _ => match text.parse() {
                Ok(fact @ (FactSource::Header(_) | FactSource::Json(_))) => Ok(Self::Fact(fact)),
                _ => Err(OrderByError(text.chars().take(64).collect())),
            },
        }
    }
}

impl fmt::Display for OrderBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Key => f.write_str("key"),
            Self::Fact(fact) => fact.fmt(f),
        }
    }
}

impl Serialize for OrderBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OrderBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for OrderBy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OrderBy".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(none|key|header:.+|json:/.*)$",
            "description": "none, key, header:NAME or json:/pointer"
        })
    }
}
