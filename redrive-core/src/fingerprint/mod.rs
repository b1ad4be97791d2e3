//! One name for all failures that look the same.
//!
//! Forty thousand dead letters are usually four problems. What tells the problems apart is the class, the reason,
//! the message's type, the error's type and what the error says once numbers, ids, quoted values, paths, addresses
//! and times are masked. The key is stored, linked to and compared across versions, so the masking and the hash
//! never change without a new version byte, and fixed keys in the tests hold that promise.

mod normalise;
mod shape;

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

pub use normalise::{MESSAGE_LIMIT, normalise};

use crate::{Class, Reason};

/// Goes into the hash first. A change of the masking or of the fields needs another.
const VERSION: u8 = 1;
/// What is read of a type's name, in bytes.
const NAME_LIMIT: usize = 256;

/// The key of a group of failures: 64 bits of a SHA-256, printed as 16 hexadecimal digits.
///
/// ```
/// use redrive_core::{Class, Reason};
/// use redrive_core::fingerprint::Fingerprint;
///
/// let of = |message| {
///     Fingerprint::of(Class::Transient, &Reason::DOWNSTREAM_TIMEOUT, Some("order.created"), None, message)
/// };
/// let one = of("order 4711 timed out after 3000 ms");
/// assert_eq!(one, of("order 12 timed out after 2999 ms"));
/// assert_ne!(one, of("order 4711 was refused"));
/// assert_eq!(one.to_string().len(), 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// The key of a failure. Of the message the first [`MESSAGE_LIMIT`] bytes count, of a type's name 256.
    pub fn of(
        class: Class,
        reason: &Reason,
        message_type: Option<&str>,
        error_type: Option<&str>,
        message: &str,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update([VERSION]);
        field(&mut hash, Some(class.as_str()));
        field(&mut hash, Some(reason.as_str()));
        field(&mut hash, message_type.map(name));
        field(&mut hash, error_type.map(name));
        field(&mut hash, Some(&normalise(message)));
        let digest: [u8; 32] = hash.finalize().into();
        let mut key = [0; 8];
        key.copy_from_slice(&digest[..8]);
        Self(key)
    }
}

fn name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_LIMIT)]
}

/// Absent is not empty, and no field can run into the next.
fn field(hash: &mut Sha256, text: Option<&str>) {
    match text {
        None => hash.update([0]),
        Some(text) => {
            hash.update([1]);
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| match pair[at] {
            b'0'..=b'9' => Some(pair[at] - b'0'),
            b'a'..=b'f' => Some(pair[at] - b'a' + 10),
            _ => None,
        };
        *byte = digit(0)? << 4 | digit(1)?;
    }
    Some(bytes)
}

/// A text that is no [`Fingerprint`] or no [`PayloadHash`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct ParseKeyError {
    /// The text that was found, cut to 80 characters.
    pub found: String,
    /// What was expected.
    pub expected: &'static str,
}

impl ParseKeyError {
    fn new(found: &str, expected: &'static str) -> Self {
        Self { found: found.chars().take(80).collect(), expected }
    }
}

/// The SHA-256 of a message's bytes, printed as `sha256:` and 64 hexadecimal digits.
///
/// ```
/// use redrive_core::fingerprint::PayloadHash;
///
/// let hash = PayloadHash::of(b"");
/// let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(hash.to_string(), text);
/// assert_eq!(text.parse(), Ok(hash));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PayloadHash([u8; 32]);

impl PayloadHash {
    /// The hash of these bytes.
    pub fn of(payload: &[u8]) -> Self {
        Self(Sha256::digest(payload).into())
    }

    /// The hash itself.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        write_hex(f, &self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_hex(text)
            .map(Self)
            .ok_or_else(|| ParseKeyError::new(text, "a failure group: 16 hexadecimal digits in lower case"))
    }
}

impl FromStr for PayloadHash {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("sha256:").and_then(read_hex).map(Self).ok_or_else(|| {
            ParseKeyError::new(text, "a payload hash: `sha256:` and 64 hexadecimal digits in lower case")
        })
    }
}

as_text!(Fingerprint, "failure-group", "the key of a group of failures that look the same");
as_text!(PayloadHash, "payload-hash", "the SHA-256 of the message's bytes");
