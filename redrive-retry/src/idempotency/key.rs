//! The key of one logical call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// How long a key may be, in bytes.
pub const MAX_KEY: usize = 255;

/// The key of one logical call: made once, kept over all attempts, the same after a restart if it is stored.
///
/// It goes into the header `Idempotency-Key`. As text it can be stored with whatever the call belongs to; a key that
/// [follows](Self::derived) from something stored already, such as a message's own key, needs no storing.
///
/// ```
/// use redrive_retry::idempotency::IdempotencyKey;
///
/// let key = IdempotencyKey::new();
/// let stored = key.to_string();
/// assert_eq!(stored.parse::<IdempotencyKey>()?, key);
///
/// let charge = IdempotencyKey::derived("order-771", "charge");
/// assert_eq!(charge, IdempotencyKey::derived("order-771", "charge"));
/// assert_ne!(charge, IdempotencyKey::derived("order-771", "refund"));
/// # Ok::<(), redrive_retry::idempotency::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey(Arc<str>);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is empty.
    #[error("an idempotency key is at least one character long")]
    Empty,
    /// It is too long.
    #[error("an idempotency key is at most {MAX_KEY} characters long, and this one has {0}")]
    TooLong(usize),
    /// It has something in it that a header cannot carry unchanged.
    #[error("an idempotency key is made of visible ASCII characters, and character {0} of this one is none")]
    Character(usize),
}

impl IdempotencyKey {
    /// A key that nobody else has: a random UUID.
    #[expect(clippy::new_without_default, reason = "no two are alike, so none is the default")]
    pub fn new() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    /// The key of a step of something that has a key or an id of its own: the same every time.
    pub fn derived(parent: &str, step: &str) -> Self {
        let mut hash = Sha256::new();
        // The length keeps two pairs with the same text together apart.
        hash.update((parent.len() as u64).to_le_bytes());
        hash.update(parent);
        hash.update(step);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string().into())
    }

    /// The key as it stands in the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(KeyError::Character(at + 1));
        }
        if text.len() > MAX_KEY { Err(KeyError::TooLong(text.len())) } else { Ok(Self(text.into())) }
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdempotencyKey").field(&self.0).finish()
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_header_carries_is_a_key() {
        assert_eq!("".parse::<IdempotencyKey>(), Err(KeyError::Empty));
        assert_eq!("a b".parse::<IdempotencyKey>(), Err(KeyError::Character(2)));
        assert_eq!("schlüssel".parse::<IdempotencyKey>(), Err(KeyError::Character(5)));
        assert_eq!("k\n".parse::<IdempotencyKey>(), Err(KeyError::Character(2)));
        assert_eq!("x".repeat(256).parse::<IdempotencyKey>(), Err(KeyError::TooLong(256)));
        assert!("x".repeat(255).parse::<IdempotencyKey>().is_ok());
    }

    #[test]
    fn a_derived_key_stays_the_same_in_every_version() {
        let key = IdempotencyKey::derived("order-771", "charge");
        assert_eq!(key.as_str(), "efca7325-c694-8f62-90ad-2f47997d97a4");
        assert_ne!(IdempotencyKey::derived("a", "bc"), IdempotencyKey::derived("ab", "c"));
        assert_ne!(IdempotencyKey::new(), IdempotencyKey::new());
    }
}
