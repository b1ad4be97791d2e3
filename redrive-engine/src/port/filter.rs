//! Which entries are meant.

use redrive_core::{Class, Reason, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Entry, EntryState};

/// Conditions on entries; all that are given hold. The same words as the flags of `redrive messages ls`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// The flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// One of these states; none given means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<EntryState>,
    /// The class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The failure group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The message's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The message's type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The business entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Failed last at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Failed last before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// A text in the last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Filter {
    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a page of results goes on. Opaque text; it stays valid while entries come and go.
pub type Cursor = String;

/// Which part of the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// At most so many; held to 1,000.
    pub limit: usize,
    /// After this place.
    pub after: Option<Cursor>,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

/// A page of entries, the one that failed last first.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<Cursor>,
}
