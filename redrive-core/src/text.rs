//! Text that shares the bytes it came in.
//!
//! Half of what Redrive reads from a message is short text that it only shows or writes again. Copying each
//! piece would cost more than reading it, so a [`Text`] is a slice of the header it was found in.

use std::borrow::{Borrow, Cow};
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// UTF-8 text over shared bytes: cloning it, and making it from a header, copies nothing.
///
/// ```
/// use redrive_core::Text;
///
/// let text = Text::from("größer").cut(3);
/// assert_eq!(text, "grö");
/// ```
// The bytes are UTF-8 because every constructor checks them; without unsafe code they are checked again when
// they are read as text, which is cheap for the short texts kept here.
#[derive(Clone, Default)]
pub struct Text(Bytes);

impl Text {
    /// Text known when the program is built.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The bytes as text, when they are UTF-8 to the end.
    pub fn from_utf8(bytes: Bytes) -> Option<Self> {
        std::str::from_utf8(&bytes).is_ok().then_some(Self(bytes))
    }

    /// The beginning of the bytes that is UTF-8: all of them when they are text.
    pub fn from_utf8_prefix(mut bytes: Bytes) -> Self {
        if let Err(error) = std::str::from_utf8(&bytes) {
            bytes.truncate(error.valid_up_to());
        }
        Self(bytes)
    }

    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The bytes of the text, shared.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The bytes of the text.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no character.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first `max` characters.
    #[must_use]
    pub fn cut(mut self, max: usize) -> Self {
        // A text of so many bytes has no more characters than that.
        if self.0.len() > max
            && let Some((end, _)) = self.as_str().char_indices().nth(max)
        {
            self.0.truncate(end);
        }
        self
    }

    /// Whether the text has more than `max` characters.
    pub fn is_longer_than(&self, max: usize) -> bool {
        self.0.len() > max && self.as_str().chars().nth(max).is_some()
    }

    /// The text as a name or an id: not empty, at most `max` characters, none of them a control character.
    ///
    /// Such a text is never cut to fit: the beginning of an id is the id of something else.
    #[must_use]
    pub(crate) fn into_id(self, max: usize) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        // Most ids are printable ASCII, and bytes are quicker to look at than characters.
        if self.0.len() <= max && self.0.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return Some(self);
        }
        let fits = !self.is_longer_than(max) && !self.chars().any(char::is_control);
        fits.then_some(self)
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Text> for Bytes {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // UTF-8 sorts like its bytes.
        self.0.cmp(&other.0)
    }
}

impl std::hash::Hash for Text {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(Cow::<'_, str>::deserialize(deserializer)?.into_owned()))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        assert_eq!(Text::from("ß€😀x").cut(3), "ß€😀");
        assert_eq!(Text::from("ß€😀x").cut(4), "ß€😀x");
        assert_eq!(Text::from("abc").cut(0), "");
        assert!(Text::from("ßß").is_longer_than(1));
        assert!(!Text::from("ßß").is_longer_than(2));
    }

    #[test]
    fn keeps_the_readable_beginning() {
        assert_eq!(Text::from_utf8_prefix(Bytes::from_static(b"ok\xff\xfe")), "ok");
        assert_eq!(Text::from_utf8(Bytes::from_static(b"ok\xff")), None);
    }

    #[test]
    fn an_id_is_whole_or_nothing() {
        assert!(Text::from("order-1").into_id(7).is_some());
        for text in ["", "order-12", "a\nb", "a\u{7f}"] {
            assert_eq!(Text::from(text).into_id(7), None, "{text:?}");
        }
    }
}
