//! An address as somebody wrote it, before anybody has read it.

use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address that keeps its text and shows it without its credentials.
///
/// ```
/// use redrive::address::AddressText;
///
/// let address = AddressText::from("postgres://app:hunter2@db/redrive?sslpassword=x&queue=q");
/// assert_eq!(format!("{address:?}"), "postgres://app:***@db/redrive?sslpassword=***&queue=q");
/// assert!(address.contains("hunter2"));
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct AddressText(String);

impl From<&str> for AddressText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The text itself, credentials and all.
impl Deref for AddressText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

/// Schemes whose user is a name and no secret. Over HTTP a token may stand in either place, or alone.
const NAMED_USERS: [&str; 4] = ["amqp", "amqps", "postgres", "postgresql"];

/// An address without its password and without parameters that are named like one; a command without those in any of
/// its words.
pub(super) fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut is_value = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let option = word.trim_start_matches(['\'', '"']).starts_with("--");
        match word.split_once('=') {
            _ if is_value && !option && !word.is_empty() => shown.push_str("***"),
            Some((name, _)) if option && is_secret(name) => {
                shown.push_str(name);
                shown.push_str("=***");
            }
            _ => shown.push_str(&masked_word(word)),
        }
        // More white space may stand before the value.
        is_value = if option { !word.contains('=') && is_secret(word) } else { is_value && word.is_empty() };
        shown.push_str(&piece[word.len()..]);
    }
    shown
}

fn masked_word(url: &str) -> String {
    let Some(start) = url.find("://").map(|at| at + 3) else { return url.to_owned() };
    let scheme = url[..start - 3].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let (authority, rest) = (&url[start..end], &url[end..]);
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) if NAMED_USERS.contains(&scheme) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => authority.to_owned(),
        },
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    let rest = match rest.split_once('?') {
        Some((path, query)) => {
            let pairs: Vec<_> = query.split('&').map(masked_parameter).collect();
            format!("{path}?{}", pairs.join("&"))
        }
        None => rest.to_owned(),
    };
    format!("{}{authority}{rest}", &url[..start])
}

fn masked_parameter(pair: &str) -> String {
    let name = pair.split_once('=').map_or("", |(name, _)| name);
    if is_secret(name) { format!("{name}=***") } else { pair.to_owned() }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["password", "secret", "token", "key"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_credentials_and_nothing_else() {
        for (text, shown) in [
            ("https://tok_1@host:3000/x?y=1", "https://***@host:3000/x?y=1"),
            ("https://tok_1:@host", "https://***@host"),
            ("https://app:hunter2@host/x?api_key=a&b=c", "https://***@host/x?api_key=***&b=c"),
            ("https://host/users/a@b", "https://host/users/a@b"),
            ("postgres://app@db/redrive", "postgres://app@db/redrive"),
            ("amqps://app:hunter2@h/v?queue=q", "amqps://app:***@h/v?queue=q"),
            ("exec:curl -s https://tok_1@host/x -o y", "exec:curl -s https://***@host/x -o y"),
            (
                "exec:./h --token  tok_1 --api-key=k '--secret' s x",
                "exec:./h --token  *** --api-key=*** '--secret' *** x",
            ),
            ("exec:./h --token --verbose a", "exec:./h --token --verbose a"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
