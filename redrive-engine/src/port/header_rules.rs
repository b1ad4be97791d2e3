//! How a flow's headers are read and written.
//!
//! Every adapter reads with [`HeaderRules::read`] when it makes a delivery and writes with [`HeaderRules::write`] when
//! it makes a copy, so that spellings and signatures mean the same on every broker. An adapter gets the rules with its
//! [`Subscription`](super::Subscription).

use std::sync::Arc;

use redrive_core::Headers;
use redrive_core::headers::{self, Keyring, MacCheck, Spelling, Trail, Trust, after_bad_mac};

use super::Carried;

/// The spelling of a flow's headers, and the keys that sign them.
///
/// ```
/// use redrive_core::Headers;
/// use redrive_core::headers::{Key, Keyring, Spelling, Trail};
/// use redrive_engine::port::HeaderRules;
///
/// let rules = HeaderRules::new(Spelling::Plain).signed(Keyring::new(Key::generate([7; 32])));
/// let mut headers = Headers::new();
/// rules.write(&Trail { attempt: 2, ..Trail::default() }, &mut headers, Some(b"body"));
/// assert_eq!(rules.read(&headers, Some(b"body")).attempt, 2);
///
/// headers.set("x-retry-attempt", "9");
/// let doubted = rules.read(&headers, Some(b"body"));
/// assert_eq!(doubted.attempt, 0, "it starts over");
/// assert!(doubted.doubt().is_some_and(|doubt| !doubt.again));
/// ```
#[derive(Debug, Clone, Default)]
pub struct HeaderRules {
    spelling: Spelling,
    keys: Option<Arc<Keyring>>,
}

/// Headers that were not signed by a key of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// What is wrong with the signature.
    pub found: MacCheck,
    /// Whether it is not the first time for this message: then it is parked.
    pub again: bool,
}

impl HeaderRules {
    /// Rules that write and read this spelling, and sign nothing.
    pub const fn new(spelling: Spelling) -> Self {
        Self { spelling, keys: None }
    }

    /// The same rules with signatures: the ring's first key signs, any of them verifies.
    #[must_use]
    pub fn signed(self, keys: Keyring) -> Self {
        Self { keys: Some(Arc::new(keys)), ..self }
    }

    /// The spelling.
    pub const fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// Whether copies are signed.
    pub const fn signs(&self) -> bool {
        self.keys.is_some()
    }

    /// What the headers of a message say, with nothing in it that cannot be believed.
    ///
    /// With signatures, a message whose headers claim a past without proving it starts over, and
    /// [`Carried::doubt`] says so. Its trail then has no due time and no route: whatever wait the place imposes in which
    /// it was found is kept by the adapter, and nothing else.
    pub fn read(&self, headers: &Headers, body: Option<&[u8]>) -> Carried {
        if headers.is_empty() {
            return Carried::default();
        }
        let read = headers::decode(headers, self.spelling);
        let Some(keys) = &self.keys else { return read.into() };
        let found = keys.verify(read.mac.as_deref(), &read.trail, body);
        match after_bad_mac(found, &read.trail) {
            Trust::Trusted => read.into(),
            Trust::Restart(trail) => Carried::doubted(*trail, Doubt { found, again: false }),
            Trust::Park(trail) => Carried::doubted(*trail, Doubt { found, again: true }),
        }
    }

    /// What headers say that this very store wrote, in a place that nobody else can write to: no signature is asked for,
    /// and only Redrive's own names count.
    pub fn read_own(headers: &Headers) -> Carried {
        if headers.is_empty() {
            Carried::default()
        } else {
            headers::decode(headers, Spelling::Default).into()
        }
    }

    /// Writes what a copy carries, in place of what was written before, and signs it.
    pub fn write(&self, trail: &Trail, headers: &mut Headers, body: Option<&[u8]>) {
        headers::encode(trail, headers, self.spelling);
        if let Some(keys) = &self.keys {
            keys.sign(trail, body, headers);
        }
    }

    /// Takes out what Redrive wrote, for a copy that goes on elsewhere as a fresh message. Correlation and causation
    /// stay.
    pub fn clear(&self, headers: &mut Headers) {
        headers::encode(&Trail::default(), headers, self.spelling);
    }
}
