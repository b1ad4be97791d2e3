//! Standard Webhooks signatures, so that a receiver can tell who sent a message and that it is whole.
//!
//! What is signed is `<webhook-id>.<webhook-timestamp>.<body>`, with HMAC-SHA256. The timestamp is the attempt's,
//! so a receiver that refuses old signatures accepts a retry.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A secret shared with the receiver: `whsec_` and base64, or any other text, whose bytes are then the key.
///
/// ```
/// use redrive_engine::handler::http::WebhookSecret;
///
/// let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// assert_eq!(format!("{secret:?}"), "WebhookSecret(..)");
/// assert!("whsec_no base64".parse::<WebhookSecret>().is_err());
/// # Ok::<(), redrive_engine::handler::http::WebhookSecretError>(())
/// ```
#[derive(Clone)]
pub struct WebhookSecret(Hmac<Sha256>);

/// A text that is no webhook secret. The text itself is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretError {
    /// What follows the prefix cannot be decoded.
    #[error("a webhook secret that begins with `whsec_` goes on in base64")]
    NotBase64,
    /// There is nothing in it.
    #[error("a webhook secret is not empty")]
    Empty,
}

impl FromStr for WebhookSecret {
    type Err = WebhookSecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let key = match text.strip_prefix("whsec_") {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| WebhookSecretError::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        if key.is_empty() {
            return Err(WebhookSecretError::Empty);
        }
        // HMAC takes a key of any length; the error of the constructor is for other kinds of MAC.
        Hmac::new_from_slice(&key).map(Self).map_err(|_| WebhookSecretError::Empty)
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(..)")
    }
}

/// The value of `webhook-signature`: one signature a secret, so that a receiver may know the old or the new one.
pub(super) fn sign(secrets: &[WebhookSecret], id: &[u8], timestamp: &str, body: &[u8]) -> String {
    let mut signatures = String::with_capacity(secrets.len() * 48);
    for secret in secrets {
        let mut mac = secret.0.clone();
        for part in [id, b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        if !signatures.is_empty() {
            signatures.push(' ');
        }
        signatures.push_str("v1,");
        STANDARD.encode_string(mac.finalize().into_bytes(), &mut signatures);
    }
    signatures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector that the scheme's own libraries are tested with.
    #[test]
    fn signs_as_the_scheme_says() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let body = br#"{"test": 2432232314}"#;
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let id = b"msg_p5jXN8AQM9LWM0D4loKWxJek";
        assert_eq!(sign(std::slice::from_ref(&secret), id, "1614265330", body), one);

        let raw = WebhookSecret::from_str("a raw secret").unwrap();
        let both = sign(&[raw.clone(), secret], id, "1614265330", body);
        assert_eq!(both, format!("{} {one}", sign(&[raw], id, "1614265330", body)));
    }

    #[test]
    fn refuses_what_is_no_secret() {
        assert_eq!(WebhookSecret::from_str(" ").unwrap_err(), WebhookSecretError::Empty);
        assert_eq!(WebhookSecret::from_str("whsec_").unwrap_err(), WebhookSecretError::Empty);
        assert_eq!(WebhookSecret::from_str("whsec_%").unwrap_err(), WebhookSecretError::NotBase64);
    }
}
