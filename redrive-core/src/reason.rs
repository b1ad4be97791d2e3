//! Reason codes: the short, stable name of what went wrong.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Class;

/// A reason code in UPPER_SNAKE, at most 64 characters. Cloning never allocates.
///
/// ```
/// use redrive_core::Reason;
///
/// let own = Reason::new("ORDER_ALREADY_SHIPPED")?;
/// assert_eq!(own.as_str(), "ORDER_ALREADY_SHIPPED");
/// assert!(Reason::new("order already shipped").is_err());
/// # Ok::<(), redrive_core::ReasonError>(())
/// ```
#[derive(Clone)]
pub struct Reason(Code);

#[derive(Clone)]
enum Code {
    Static(&'static str),
    Shared(Arc<str>),
}

/// A text that is not a reason code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a reason code; expected 1 to 64 of A-Z, 0-9 and _, beginning with a letter")]
pub struct ReasonError(String);

const fn is_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > 64 || !bytes[0].is_ascii_uppercase() {
        return false;
    }
    let mut i = 1;
    while i < bytes.len() {
        if !(bytes[i].is_ascii_uppercase() || bytes[i].is_ascii_digit() || bytes[i] == b'_') {
            return false;
        }
        i += 1;
    }
    true
}

impl Reason {
    /// A reason of one's own, checked.
    pub fn new(code: impl AsRef<str>) -> Result<Self, ReasonError> {
        let code = code.as_ref();
        if !is_code(code) {
            return Err(ReasonError(code.chars().take(64).collect()));
        }
        match CATALOGUE.iter().find(|entry| entry.reason.as_str() == code) {
            Some(entry) => Ok(entry.reason.clone()),
            None => Ok(Self(Code::Shared(code.into()))),
        }
    }

    /// A reason known when the program is built.
    ///
    /// # Panics
    /// When the text is no reason code; in a `const` that is an error of the build.
    pub const fn from_static(code: &'static str) -> Self {
        assert!(is_code(code), "a reason code is 1 to 64 of A-Z, 0-9 and _");
        Self(Code::Static(code))
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Code::Static(code) => code,
            Code::Shared(code) => code,
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Reason {}

impl PartialOrd for Reason {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reason {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl std::hash::Hash for Reason {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl std::borrow::Borrow<str> for Reason {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl std::str::FromStr for Reason {
    type Err = ReasonError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Cow::<'_, str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        "Reason".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[A-Z][A-Z0-9_]{0,63}$",
            "description": "a reason code in UPPER_SNAKE, of the catalogue or of one's own"
        })
    }
}

/// One line of the catalogue of reasons that Redrive itself gives.
#[derive(Debug, Clone)]
pub struct CatalogueEntry {
    /// The code.
    pub reason: Reason,
    /// The class it comes with unless a rule says otherwise.
    pub class: Class,
    /// What it means, in one line.
    pub meaning: &'static str,
}

macro_rules! catalogue {
    ($( $name:ident, $class:ident, $meaning:literal; )+) => {
        impl Reason {
            $(
                #[doc = $meaning]
                pub const $name: Self = Self::from_static(stringify!($name));
            )+
        }

        /// Every reason that Redrive gives by itself, with its class and meaning.
        pub static CATALOGUE: &[CatalogueEntry] = &[
            $(CatalogueEntry { reason: Reason::$name, class: Class::$class, meaning: $meaning }),+
        ];
    };
}

catalogue! {
    DOWNSTREAM_TIMEOUT, Transient, "the handler or what it calls did not answer in time";
    DOWNSTREAM_UNAVAILABLE, Transient, "the handler or what it calls could not be reached, or said so";
    DOWNSTREAM_ERROR, Transient, "the handler answered with a server error";
    RATE_LIMITED, Transient, "the handler asked for fewer calls, or a rate limit of its own let none through";
    CONNECTION_FAILED, Transient, "a connection was refused, reset or broken";
    RESOURCE_EXHAUSTED, Transient, "memory, disk, connections, time for a call or another resource ran out";
    TRY_AGAIN, Transient, "a command ended with the code for a temporary failure";
    HANDLER_VERDICT, Transient, "the handler itself asked for a retry";
    RETRY_REQUESTED, Transient, "the error was wrapped in one that asks for a retry";
    OPTIMISTIC_LOCK_CONFLICT, Contention, "another writer was first";
    LOCKED, Contention, "a resource is locked by another";
    DEADLOCK, Contention, "a database chose this transaction as a deadlock's victim";
    PREDECESSOR_PENDING, Contention, "the message follows one that has not finished";
    DESERIALIZATION_FAILED, PermanentTechnical, "the bytes could not be read as what they should be";
    UNSUPPORTED_SCHEMA_VERSION, PermanentTechnical, "the schema version is not one this handler knows";
    INVALID_MESSAGE, PermanentTechnical, "a required field is missing or a value is not allowed";
    PAYLOAD_TOO_LARGE, PermanentTechnical, "the message is larger than its target accepts";
    REQUEST_REFUSED, PermanentTechnical, "the handler refused the request as wrong";
    ENDPOINT_MISCONFIGURED, PermanentTechnical, "the endpoint is wrong or its credentials are, whatever the message";
    NOT_SUPPORTED, PermanentTechnical, "the handler does not support what was asked of it";
    NOT_RETRYABLE, PermanentTechnical, "the error was wrapped in one that forbids a retry";
    CONSTRAINT_VIOLATION, PermanentTechnical, "a database constraint forbids the write";
    PERMISSION_DENIED, PermanentTechnical, "the handler lacks a right that it needs";
    BODY_GONE, PermanentTechnical, "the message waited without its body, and that is not where it lay any more";
    FORWARD_REFUSED, PermanentTechnical, "the message asks to be sent on, and may not be, or does not say where or when";
    DEADLINE_PASSED, PermanentBusiness, "the message's own deadline is over";
    ILLEGAL_BUSINESS_TRANSITION, PermanentBusiness, "the business entity is not in a state that allows this";
    BUSINESS_REJECTED, PermanentBusiness, "the domain refused the message";
    HANDLER_CRASHED, Poison, "the message was in flight each time its process died";
    HANDLER_PANICKED, Unknown, "the handler panicked";
    SIGNATURE_INVALID, Poison, "the retry headers were not signed by a known key, twice";
    FOREIGN_FAILURE, Unknown, "another system gave the message up, by an error that no rule knows";
    COMMAND_FAILED, Unknown, "a command ended with a code that has no meaning of its own";
    UNKNOWN_FAILURE, Unknown, "nothing more is known";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn catalogue_has_each_code_once() {
        let codes: BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.reason.as_str()).collect();
        assert_eq!(codes.len(), CATALOGUE.len());
    }

    #[test]
    fn refuses_what_is_no_code() {
        for text in ["", "lower", "1ST", "_X", "A B", "Ä", &"A".repeat(65)] {
            assert!(Reason::new(text).is_err(), "{text}");
        }
        assert_eq!(Reason::new("A".repeat(64)).map(|r| r.as_str().len()), Ok(64));
    }
}
