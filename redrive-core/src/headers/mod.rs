//! What a message carries with it between attempts.
//!
//! A retried message may be read next by another process, after a restart, by another version or by a consumer
//! that knows nothing of Redrive. So everything the next decision needs travels in headers, as UTF-8 text. They
//! are written by anybody who can write to the topic, so nothing in them is believed: [`decode`] bounds every
//! value, never fails, and tells what it had to clamp or ignore. Signing ([`Keyring`]) is how a flow learns that
//! the values are its own.
//!
//! ```
//! use redrive_core::{Headers, headers::{self, Field, Spelling, Trail}};
//!
//! let mut headers = Headers::new();
//! let trail = Trail { attempt: 2, error_message: Some("503 from orders".into()), ..Trail::default() };
//! headers::encode(&trail, &mut headers, Spelling::Default);
//! assert_eq!(headers.get_text("x-retry-attempt", 16).as_deref(), Some("2"));
//!
//! headers.set("x-retry-attempt", "4294967296");
//! let decoded = headers::decode(&headers, Spelling::Default);
//! assert_eq!(decoded.trail.attempt, headers::MAX_ATTEMPT);
//! assert!(decoded.clamped.contains(Field::RetryAttempt));
//! ```

mod decode;
mod encode;
mod field;
mod mac;
mod number;
mod spelling;
mod trail;

pub use decode::{Decoded, decode};
pub use encode::encode;
pub use field::{Field, FieldSet};
pub use mac::{Key, KeyError, Keyring, KeyringError, MacCheck, Trust, after_bad_mac};
pub use spelling::Spelling;
pub use trail::{
    MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ERROR_TYPE, MAX_ID, MAX_RESPONSE, MAX_ROUTE, MAX_ROUTE_HOPS,
    MAX_SPAN, MAX_TOPIC, Origin, Replay, Trail,
};
