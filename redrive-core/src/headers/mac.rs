//! Signing: how a flow knows that the headers on a retry topic are its own.
//!
//! Whoever can write to a retry topic could otherwise spend another message's budget, send it along another
//! route, or make it due at once. The MAC is HMAC-SHA256 over the body's hash and the values that decisions are
//! made of, each with its length in front, so that no two different messages give the same bytes. It is taken
//! over the values and not over the header text: a message that went through another spelling still verifies.
//!
//! Covered: the body, the origin (topic, partition, offset, timestamp), attempt, attempts allowed, due time,
//! route, first failure, calls used, summed delay, held time, delay counter, entry id, wait id, the count of
//! MAC failures, and the target that the message asks to be sent on to, when it names one.
//!
//! The bytes that are signed, in that order after the text `redrive-mac-v1`: each value as its length in 8 bytes,
//! big-endian, and then itself; numbers and times (in milliseconds) as 8 bytes, big-endian; the body as its SHA-256.
//! An absent value is a length of all ones and nothing more.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Field, Trail};
use crate::Headers;

const VERSION: &str = "v1";
const MAC_BYTES: usize = 32;
const MAX_KEY_ID: usize = 32;
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 32..=64;

/// A text that is no signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no colon between id and secret.
    #[error("a signing key is `<id>:<secret>`, and this text has no colon")]
    NoColon,
    /// The id has other characters than it may have.
    #[error("the id of a signing key is 1 to 32 of A-Z, a-z, 0-9, `_`, `-` and `.`")]
    Id,
    /// The secret is not base64url of 32 to 64 bytes.
    #[error("the secret of a signing key is 32 to 64 bytes in base64url without padding")]
    Secret,
}

/// A signing key and its id. `Debug` never shows the secret.
///
/// ```
/// use redrive_core::headers::Key;
///
/// let key = Key::generate([7; 32]); // 32 bytes from a secure source
/// let again: Key = key.to_secret_text().parse()?;
/// assert_eq!(again.id(), key.id());
/// # Ok::<(), redrive_core::headers::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Key {
    id: String,
    secret: Vec<u8>,
    // Prepared once: hashing the key anew for each message would double the cost of a short one.
    prepared: Hmac<Sha256>,
}

impl Key {
    /// A key from an id and a secret of 32 to 64 bytes.
    pub fn new(id: &str, secret: &[u8]) -> Result<Self, KeyError> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if id.is_empty() || id.len() > MAX_KEY_ID || !id.bytes().all(is_id) {
            return Err(KeyError::Id);
        }
        if !SECRET_BYTES.contains(&secret.len()) {
            return Err(KeyError::Secret);
        }
        let prepared = Hmac::new_from_slice(secret).map_err(|_| KeyError::Secret)?;
        Ok(Self { id: id.to_owned(), secret: secret.to_vec(), prepared })
    }

    /// A key from 32 bytes that the caller drew from a secure random source. Its id follows from them.
    pub fn generate(random: [u8; 32]) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"redrive signing key id\0");
        digest.update(random);
        let id = URL_SAFE_NO_PAD.encode(&digest.finalize()[..6]);
        let prepared = prepare(&random);
        Self { id, secret: random.to_vec(), prepared }
    }

    /// The id, which stands in each signed message.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key as `<id>:<base64url>`, to be kept as a secret.
    pub fn to_secret_text(&self) -> String {
        format!("{}:{}", self.id, URL_SAFE_NO_PAD.encode(&self.secret))
    }

    fn mac(&self, trail: &Trail, body: Option<&[u8]>) -> [u8; MAC_BYTES] {
        let mut mac = Covered(self.prepared.clone());
        mac.cover(trail, body);
        mac.0.finalize().into_bytes().into()
    }
}

/// An HMAC over a key of exactly one block's half, which has no length to refuse.
fn prepare(secret: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..secret.len()].copy_from_slice(secret);
    Hmac::new(&block)
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (id, secret) = text.trim().split_once(':').ok_or(KeyError::NoColon)?;
        if secret.len() > 2 * SECRET_BYTES.end() {
            return Err(KeyError::Secret);
        }
        Self::new(id, &URL_SAFE_NO_PAD.decode(secret).map_err(|_| KeyError::Secret)?)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A list of keys that is no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// There is no key to sign with.
    #[error("a keyring needs at least one key")]
    Empty,
    /// Two keys have one id.
    #[error("two signing keys have the id `{0}`")]
    Twice(String),
}

/// What a look at a message's MAC found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MacCheck {
    /// The values are the ones that were signed.
    Valid,
    /// There is no `x-redrive-mac`.
    Missing,
    /// There is one, and it cannot be read.
    Malformed,
    /// It names a key that this ring does not have.
    UnknownKey,
    /// The values, the body or the MAC were changed.
    Mismatch,
}

/// The keys of a flow: the first signs, all of them verify.
///
/// To rotate: add the new key behind the others everywhere, then move it to the front everywhere, then remove the
/// old one once the longest delay has passed.
#[derive(Debug, Clone)]
pub struct Keyring {
    signing: Key,
    retired: Vec<Key>,
}

impl Keyring {
    /// A ring of one key.
    pub fn new(signing: Key) -> Self {
        Self { signing, retired: Vec::new() }
    }

    /// A ring whose first key signs.
    pub fn from_keys(keys: impl IntoIterator<Item = Key>) -> Result<Self, KeyringError> {
        let mut keys = keys.into_iter();
        let mut ring = Self::new(keys.next().ok_or(KeyringError::Empty)?);
        for key in keys {
            if ring.key(key.id()).is_some() {
                return Err(KeyringError::Twice(key.id));
            }
            ring.retired.push(key);
        }
        Ok(ring)
    }

    fn key(&self, id: &str) -> Option<&Key> {
        std::iter::once(&self.signing).chain(&self.retired).find(|key| key.id == id)
    }

    /// Writes `x-redrive-mac` for a trail that was [encoded](super::encode) into the same headers.
    pub fn sign(&self, trail: &Trail, body: Option<&[u8]>, headers: &mut Headers) {
        let mac = self.signing.mac(&trail.clone().bounded(), body);
        let value = format!("{VERSION},{},{}", self.signing.id, URL_SAFE_NO_PAD.encode(mac));
        headers.set(Field::Mac.header_name(), value);
    }

    /// Checks the MAC of a message that was read. The comparison takes the same time wherever they differ.
    ///
    /// ```
    /// use redrive_core::{Headers, headers::{self, Key, Keyring, MacCheck, Spelling, Trail}};
    ///
    /// let ring = Keyring::new(Key::generate([7; 32]));
    /// let trail = Trail { attempt: 3, ..Trail::default() };
    /// let mut headers = Headers::new();
    /// headers::encode(&trail, &mut headers, Spelling::Default);
    /// ring.sign(&trail, Some(b"body"), &mut headers);
    ///
    /// headers.set("x-retry-attempt", "1");
    /// let read = headers::decode(&headers, Spelling::Default);
    /// assert_eq!(ring.verify(read.mac.as_deref(), &read.trail, Some(b"body")), MacCheck::Mismatch);
    /// ```
    pub fn verify(&self, mac: Option<&[u8]>, trail: &Trail, body: Option<&[u8]>) -> MacCheck {
        let Some(mac) = mac else { return MacCheck::Missing };
        let Some((id, claimed)) = parse(mac) else { return MacCheck::Malformed };
        let Some(key) = self.key(id) else { return MacCheck::UnknownKey };
        if key.mac(trail, body).ct_eq(&claimed).into() { MacCheck::Valid } else { MacCheck::Mismatch }
    }
}

fn parse(mac: &[u8]) -> Option<(&str, [u8; MAC_BYTES])> {
    let text = std::str::from_utf8(mac).ok()?;
    let (id, encoded) = text.strip_prefix(VERSION)?.strip_prefix(',')?.split_once(',')?;
    if id.is_empty() || id.len() > MAX_KEY_ID {
        return None;
    }
    let mut claimed = [0; MAC_BYTES];
    // Base64 of another length is refused by the slice, and of other spare bits by the engine.
    let written = URL_SAFE_NO_PAD.decode_slice(encoded, &mut claimed).ok()?;
    (written == MAC_BYTES).then_some((id, claimed))
}

/// The bytes that are signed: each value with its length, an absent one told from an empty one.
struct Covered(Hmac<Sha256>);

impl Covered {
    fn cover(&mut self, trail: &Trail, body: Option<&[u8]>) {
        let text = |text: &Option<crate::Text>| text.as_ref().map(|text| text.as_bytes().clone());
        self.value(Some(b"redrive-mac-v1"));
        self.value(body.map(Sha256::digest).as_deref());
        self.value(text(&trail.origin.topic).as_deref());
        self.number(trail.origin.partition.map(i64::from));
        self.number(trail.origin.offset);
        self.number(trail.origin.timestamp.map(crate::Timestamp::as_millis));
        self.number(Some(i64::from(trail.attempt)));
        self.number(trail.max.map(i64::from));
        self.number(trail.process_after.map(crate::Timestamp::as_millis));
        self.value(text(&trail.delay_route).as_deref());
        self.number(trail.first_failure_at.map(crate::Timestamp::as_millis));
        self.number(Some(i64::from(trail.calls_used)));
        self.number(Some(trail.delay_total.as_millis() as i64));
        self.number(Some(trail.held.as_millis() as i64));
        self.number(Some(i64::from(trail.delay_counter)));
        self.value(text(&trail.entry_id).as_deref());
        self.value(text(&trail.wait_id).as_deref());
        self.number(Some(i64::from(trail.mac_failures)));
        // Only where there is one, so that what was signed before there were targets still verifies.
        if let Some(target) = &trail.forward_to {
            self.value(Some(target.as_bytes()));
        }
    }

    fn number(&mut self, value: Option<i64>) {
        self.value(value.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }

    fn value(&mut self, value: Option<&[u8]>) {
        // No covered value is near this long: bodies are hashed first, texts are bounded.
        let length = value.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.0.update(&length.to_be_bytes());
        self.0.update(value.unwrap_or_default());
    }
}

/// What to do with a message after its MAC was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Go on with what the headers say.
    Trusted,
    /// Go on with this trail instead: a first attempt. The wait of the level the message was found on is kept,
    /// so it never runs at once; count it and raise the alarm.
    Restart(Box<Trail>),
    /// Park the message as `SIGNATURE_INVALID`, with this trail: nothing in it was claimed by the message.
    Park(Box<Trail>),
}

/// What follows from a MAC that does not hold.
///
/// The first time, nothing that a budget, a route or a ledger entry hangs on is taken from the message: it starts
/// over, and `x-redrive-mac-failures` says so. That header is covered by the next MAC, so a copy of ours keeps it;
/// a message whose MAC fails while it says 1 or more is parked. Who removes the header from a copy gets one more
/// first attempt, after the level's wait, which a new message would get too; who adds it gets that copy parked.
///
/// What identifies the message to its handler (idempotency key, correlation, causation) is kept: forging these
/// gains nothing over a new message, and losing them when signing is first switched on would defeat the
/// handler's own deduplication.
///
/// A message without a MAC that claims none of the covered values is a fresh one, and trusted.
pub fn after_bad_mac(check: MacCheck, claimed: &Trail) -> Trust {
    if check == MacCheck::Valid || (check == MacCheck::Missing && claims_nothing(claimed)) {
        return Trust::Trusted;
    }
    let again = claimed.mac_failures > 0;
    let trail = Box::new(Trail {
        mac_failures: if again { 2 } else { 1 },
        idempotency_key: claimed.idempotency_key.clone(),
        correlation_id: claimed.correlation_id.clone(),
        causation_id: claimed.causation_id.clone(),
        ..Trail::default()
    });
    if again { Trust::Park(trail) } else { Trust::Restart(trail) }
}

fn claims_nothing(trail: &Trail) -> bool {
    // Everything that is not covered may be there; what is left must be a first delivery.
    let covered = Trail {
        attempt: trail.attempt,
        max: trail.max,
        process_after: trail.process_after,
        origin: trail.origin.clone(),
        first_failure_at: trail.first_failure_at,
        delay_route: trail.delay_route.clone(),
        delay_counter: trail.delay_counter,
        wait_id: trail.wait_id.clone(),
        entry_id: trail.entry_id.clone(),
        calls_used: trail.calls_used,
        delay_total: trail.delay_total,
        held: trail.held,
        mac_failures: trail.mac_failures,
        forward_to: trail.forward_to.clone(),
        ..Trail::default()
    };
    covered == Trail::default()
}
