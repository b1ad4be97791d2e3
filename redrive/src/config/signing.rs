//! The keys with which a flow signs the headers of what it writes.

use std::fs;

use redrive_core::headers::{Key, KeyError, Keyring};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the headers of a flow's messages are signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    /// The keys: the first signs, any of them verifies.
    #[schemars(length(min = 1))]
    pub keys: Vec<SigningKey>,
}

/// A signing key: its id, and where its secret is found. `redrive config key` makes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SigningKey {
    /// Its id, which stands in each signed message: 1 to 32 of A-Z, a-z, 0-9, `_`, `-` and `.`.
    pub id: String,
    /// An environment variable that holds the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// A file that holds the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
}

impl Signing {
    /// The ring of its keys. `env` looks up environment variables.
    pub(crate) fn keyring(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Keyring, String> {
        let keys: Result<Vec<Key>, String> = self.keys.iter().map(|key| key.read(env)).collect();
        Keyring::from_keys(keys?).map_err(|error| format!("signing: {error}"))
    }
}

impl SigningKey {
    fn read(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Key, String> {
        let id = &self.id;
        let text = match (&self.secret_env, &self.secret_file) {
            (Some(name), None) => {
                env(name).ok_or_else(|| format!("signing: key `{id}`: the environment has no `{name}`"))?
            }
            (None, Some(file)) => fs::read_to_string(file)
                .map_err(|error| format!("signing: key `{id}`: secret_file: {file}: {error}"))?,
            _ => return Err(format!("signing: key `{id}` needs secret_env or secret_file")),
        };
        // The whole key, as it was made, or its secret alone.
        let text = text.trim();
        let key = if text.contains(':') { text.parse() } else { format!("{id}:{text}").parse() };
        let key: Key = key.map_err(|error: KeyError| format!("signing: key `{id}`: {error}"))?;
        if key.id() == id {
            Ok(key)
        } else {
            Err(format!("signing: the secret of key `{id}` is that of key `{}`", key.id()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, secret_env: &str) -> SigningKey {
        SigningKey { id: id.to_owned(), secret_env: Some(secret_env.to_owned()), secret_file: None }
    }

    #[test]
    fn a_key_is_read_whole_and_as_its_secret_alone() {
        let made = Key::new("k1", &[7; 32]).unwrap().to_secret_text();
        let alone = made.split_once(':').unwrap().1.to_owned();
        let env = |name: &str| match name {
            "WHOLE" => Some(format!("{made}\n")),
            "ALONE" => Some(alone.clone()),
            "SHORT" => Some("c2hvcnQ".to_owned()),
            _ => None,
        };
        assert_eq!(key("k1", "WHOLE").read(&env).unwrap().to_secret_text(), made);
        assert_eq!(key("k1", "ALONE").read(&env).unwrap().to_secret_text(), made);
        let wrong = |key: SigningKey| key.read(&env).unwrap_err();
        assert_eq!(wrong(key("k2", "WHOLE")), "signing: the secret of key `k2` is that of key `k1`");
        assert_eq!(wrong(key("k2", "NONE")), "signing: key `k2`: the environment has no `NONE`");
        assert_eq!(
            wrong(key("k2", "SHORT")),
            "signing: key `k2`: the secret of a signing key is 32 to 64 bytes in base64url without padding"
        );
        let none = SigningKey { secret_env: None, ..key("k3", "") };
        assert_eq!(wrong(none), "signing: key `k3` needs secret_env or secret_file");
    }
}
