//! The part of `deny.toml` that is checked here, under cargo-deny's own key names.

use serde::Deserialize;

/// The whole file. A key that is not known here would be a rule that nobody checks, so it is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    pub(super) licenses: Licenses,
    #[serde(default)]
    pub(super) bans: Bans,
    /// Always as strict as it can be: only crates.io.
    #[allow(dead_code, reason = "its values are checked while it is read")]
    #[serde(default)]
    sources: Sources,
}

/// Which licences may be in the tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// Licences that one crate may have besides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    krate: String,
    allow: Vec<String>,
}

impl Licenses {
    /// Whether this crate may come under this licence.
    pub(super) fn allows(&self, krate: &str, licence: &str) -> bool {
        let excepted =
            self.exceptions.iter().filter(|exception| exception.krate == krate).flat_map(|e| &e.allow);
        self.allow.iter().chain(excepted).any(|allowed| allowed == licence)
    }
}

/// Which crates may not be in the tree.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bans {
    #[serde(default)]
    pub(super) deny: Vec<Ban>,
    #[allow(dead_code, reason = "its value is checked while it is read")]
    #[serde(default)]
    wildcards: Deny,
    /// Two versions of a crate cost build time, not correctness.
    #[allow(dead_code, reason = "its value is checked while it is read")]
    #[serde(default, rename = "multiple-versions")]
    multiple_versions: Allow,
}

/// One banned crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ban {
    #[serde(rename = "crate")]
    pub(super) krate: String,
    pub(super) reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    #[allow(dead_code, reason = "its value is checked while it is read")]
    #[serde(default)]
    unknown_registry: Deny,
    #[allow(dead_code, reason = "its value is checked while it is read")]
    #[serde(default)]
    unknown_git: Deny,
}

/// The only value that is implemented for a key.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deny {
    #[default]
    Deny,
}

/// The only value that is implemented for a key.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Allow {
    #[default]
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_nobody_would_check_is_refused() {
        let unknown = toml::from_str::<Rules>("[licenses]\nallow = []\n[advisories]\n");
        assert!(unknown.is_err());
        let lax = toml::from_str::<Rules>("[licenses]\nallow = []\n[sources]\nunknown-git = \"allow\"\n");
        assert!(lax.is_err());
    }
}
