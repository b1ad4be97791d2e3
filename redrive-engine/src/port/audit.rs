//! Who did what, and why.

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Who does something, and why. Both stand in the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// A person's or a token's name.
    pub who: String,
    /// Their reason.
    pub why: String,
}

/// One line of the audit. Lines are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditLine {
    /// Its number, without gaps.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// What: `discard`, `replay run`, `pause`.
    pub what: String,
    /// On what: an id, a flow, a filter.
    pub subject: String,
    /// Why.
    pub why: String,
    /// How many messages it touched.
    pub count: u64,
}
