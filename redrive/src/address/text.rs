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

/// The address without its password and without parameters that are named like one.
pub(super) fn masked(url: &str) -> String {
    let Some(start) = url.find("://").map(|at| at + 3) else { return url.to_owned() };
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let (authority, rest) = (&url[start..end], &url[end..]);
    let authority = match authority.rfind('@').and_then(|at| Some((at, authority[..at].find(':')?))) {
        Some((at, colon)) => format!("{}:***{}", &authority[..colon], &authority[at..]),
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
    let secret = ["password", "secret", "token", "key"].iter().any(|word| name.to_lowercase().contains(word));
    if secret { format!("{name}=***") } else { pair.to_owned() }
}
