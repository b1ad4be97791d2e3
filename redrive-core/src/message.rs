//! A message as Redrive carries it: opaque bytes, headers, a key and an id.
//!
//! Everything here is shared, never copied or re-encoded: a message may go through the handler, the ledger and
//! back to the broker, and its bytes stay the ones that were read.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::Text;
use crate::headers::Origin;

/// The longest message id that is taken from a header, in characters.
pub const MAX_MESSAGE_ID: usize = 300;

/// The name of a header. Cloning never allocates.
#[derive(Clone)]
pub struct HeaderName(Name);

#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl HeaderName {
    /// A name known when the program is built.
    pub const fn from_static(name: &'static str) -> Self {
        Self(Name::Static(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl From<&str> for HeaderName {
    fn from(name: &str) -> Self {
        Self(Name::Shared(name.into()))
    }
}

impl From<String> for HeaderName {
    fn from(name: String) -> Self {
        Self(Name::Shared(name.into()))
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for HeaderName {}

/// One header: a name and a value, which may be null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, compared byte by byte.
    pub name: HeaderName,
    /// The value. A null is not an empty value.
    pub value: Option<Bytes>,
}

/// Headers in their order, a name as often as it was written, as Kafka has them.
///
/// Names are compared exactly. A lookup takes the last value of a name; [`set`](Self::set) replaces all of them,
/// so what Redrive writes never piles up.
///
/// ```
/// use redrive_core::Headers;
///
/// let mut headers = Headers::new();
/// headers.push("type", "OrderCreated");
/// headers.push("type", "OrderPlaced");
/// assert_eq!(headers.get_text("type", 64).as_deref(), Some("OrderPlaced"));
///
/// headers.set("type", "OrderShipped");
/// assert_eq!(headers.len(), 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// No headers yet, with room for so many.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// How many headers there are, repeated names included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }

    /// The last header of that name, exactly as written.
    pub fn get_header(&self, name: &str) -> Option<&Header> {
        self.0.iter().rev().find(|header| header.name.as_str() == name)
    }

    /// The last value of that name; nothing when the name is absent or that value is null.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.get_header(name)?.value.as_ref()
    }

    /// The last value of that name as text, cut to `max` characters; nothing when it is not UTF-8.
    pub fn get_text(&self, name: &str, max: usize) -> Option<Text> {
        Some(Text::from_utf8(self.get(name)?.clone())?.cut(max))
    }

    /// Whether there is a header of that name, null or not.
    pub fn contains(&self, name: &str) -> bool {
        self.get_header(name).is_some()
    }

    /// Adds a header behind those of the same name.
    pub fn push(&mut self, name: impl Into<HeaderName>, value: impl Into<Bytes>) {
        self.push_header(name, Some(value.into()));
    }

    /// Adds a header whose value may be null.
    pub fn push_header(&mut self, name: impl Into<HeaderName>, value: Option<Bytes>) {
        self.0.push(Header { name: name.into(), value });
    }

    /// Replaces every value of that name by this one, at the place of the first; adds it when there was none.
    pub fn set(&mut self, name: impl Into<HeaderName>, value: impl Into<Bytes>) {
        let name = name.into();
        let value = Some(value.into());
        let Some(first) = self.0.iter().position(|header| header.name == name) else {
            self.0.push(Header { name, value });
            return;
        };
        let mut place = 0;
        self.0.retain(|header| {
            let keep = place <= first || header.name != name;
            place += 1;
            keep
        });
        if let Some(header) = self.0.get_mut(first) {
            header.value = value;
        }
    }

    /// Removes every header of that name; tells whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|header| header.name.as_str() != name);
        self.0.len() != before
    }

    /// Keeps only the headers for which `keep` answers yes.
    pub fn retain(&mut self, keep: impl FnMut(&Header) -> bool) {
        self.0.retain(keep);
    }

    /// The id that a producer gave the message: `ce_id`, else `message-id`.
    ///
    /// An id that is empty, longer than [`MAX_MESSAGE_ID`], not text, or that has control characters is passed
    /// over: cut or cleaned it would be another message's id.
    pub fn message_id(&self) -> Option<Text> {
        ["ce_id", "message-id"].iter().find_map(|name| {
            let text = Text::from_utf8(self.get(name)?.clone())?;
            text.into_id(MAX_MESSAGE_ID)
        })
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Headers {
    type Item = Header;
    type IntoIter = std::vec::IntoIter<Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

/// A message: opaque bytes, headers, a key and an id.
///
/// `Debug` shows sizes instead of the key and the body, so that no log line leaks them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The id that stays the same across attempts and replays, and is the idempotency key.
    pub id: Text,
    /// The key, if it has one.
    pub key: Option<Bytes>,
    /// The body. `None` is a tombstone, which is not an empty body.
    pub body: Option<Bytes>,
    /// The headers, in the order they were read.
    pub headers: Headers,
    /// The media type of the body, if the source names one.
    pub content_type: Option<Text>,
}

impl Message {
    /// The id a message goes by: its header, else the broker's own property, else where it was read.
    ///
    /// `None` when there is none of these, as for a RabbitMQ message without a message id; one is minted then.
    ///
    /// ```
    /// use redrive_core::{Headers, Message, Text, headers::Origin};
    ///
    /// let origin = Origin {
    ///     topic: Some(Text::from("orders")), partition: Some(3), offset: Some(42), timestamp: None,
    /// };
    /// let mut headers = Headers::new();
    /// assert_eq!(Message::id_of(&headers, None, &origin).as_deref(), Some("orders/3/42"));
    ///
    /// headers.push("message-id", "msg-9e117");
    /// assert_eq!(Message::id_of(&headers, None, &origin).as_deref(), Some("msg-9e117"));
    /// ```
    pub fn id_of(headers: &Headers, property: Option<&str>, origin: &Origin) -> Option<Text> {
        headers.message_id().or_else(|| Text::from(property?).into_id(MAX_MESSAGE_ID)).or_else(|| {
            let (topic, partition, offset) = (origin.topic.as_ref()?, origin.partition?, origin.offset?);
            Some(Text::from(format!("{topic}/{partition}/{offset}")))
        })
    }

    /// The body read as JSON. A tombstone is an error, like an empty body.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.body.as_deref().unwrap_or_default())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("key_bytes", &self.key.as_ref().map(Bytes::len))
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .field("headers", &self.headers.len())
            .field("content_type", &self.content_type)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &Headers) -> Vec<&str> {
        headers.iter().map(|header| header.name.as_str()).collect()
    }

    #[test]
    fn set_replaces_every_value_in_place() {
        let mut headers = Headers::new();
        for name in ["a", "b", "a", "c", "a"] {
            headers.push(name, "old");
        }
        headers.set("a", "new");
        assert_eq!(names(&headers), ["a", "b", "c"]);
        assert_eq!(headers.get("a").map(|value| &value[..]), Some(&b"new"[..]));
        headers.set("d", "new");
        assert_eq!(names(&headers), ["a", "b", "c", "d"]);
        assert!(headers.remove("a"));
        assert!(!headers.remove("a"));
    }

    #[test]
    fn the_last_value_counts_even_when_it_is_null() {
        let mut headers = Headers::new();
        headers.push("a", "1");
        headers.push_header("a", None);
        assert_eq!(headers.get("a"), None);
        assert!(headers.contains("a"));
        assert!(!headers.contains("A"));
    }

    #[test]
    fn an_unusable_id_falls_through() {
        let origin = Origin { topic: Some("t".into()), partition: Some(0), offset: Some(1), timestamp: None };
        let mut headers = Headers::new();
        headers.push("ce_id", vec![0xff]);
        headers.push("message-id", "x".repeat(MAX_MESSAGE_ID + 1));
        assert_eq!(headers.message_id(), None);
        assert_eq!(Message::id_of(&headers, Some("amqp-1"), &origin).as_deref(), Some("amqp-1"));
        assert_eq!(Message::id_of(&headers, Some("a\tb"), &origin).as_deref(), Some("t/0/1"));
        assert_eq!(Message::id_of(&headers, None, &Origin::default()), None);
    }

    #[test]
    fn debug_shows_no_content() {
        let message =
            Message { key: Some("secret".into()), body: Some("secret".into()), ..Message::default() };
        assert!(!format!("{message:?}").contains("secret"));
    }
}
