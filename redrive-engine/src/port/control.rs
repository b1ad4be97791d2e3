//! Controls: what people have ordered, for as long as it is in force.

use std::fmt;
use std::str::FromStr;

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::LaneName;

/// What a person orders a flow to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// No call begins.
    Pause,
    /// No retry begins; fresh messages go on.
    PauseRetries,
    /// Ends a pause.
    Resume,
    /// Ends a pause of the retries.
    ResumeRetries,
    /// Keeps what fits back.
    Quarantine(Quarantine),
    /// Lets what was kept back go, in the order in which it came.
    Release(Quarantine),
}

impl Order {
    /// The command's name, as it stands in the audit.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::PauseRetries => "pause --retries",
            Self::Resume => "resume",
            Self::ResumeRetries => "resume --retries",
            Self::Quarantine(_) => "quarantine add",
            Self::Release(_) => "quarantine rm",
        }
    }
}

/// Which messages of a flow are kept back: `key=K`, `tenant=T` or `header:NAME=V`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quarantine {
    /// Those with this key.
    Key(String),
    /// Those of this tenant.
    Tenant(String),
    /// Those with this value of this header.
    Header {
        /// The header's name.
        name: String,
        /// Its value.
        value: String,
    },
}

impl Quarantine {
    /// The longest text of a quarantine.
    pub const LONGEST: usize = 400;

    /// The lane that keeps what fits.
    pub fn lane(&self) -> LaneName {
        LaneName::of_quarantine(&self.to_string())
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(value) => write!(f, "key={value}"),
            Self::Tenant(value) => write!(f, "tenant={value}"),
            Self::Header { name, value } => write!(f, "header:{name}={value}"),
        }
    }
}

/// What is wrong with the text of a quarantine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` names nothing to keep back; write key=VALUE, tenant=VALUE or header:NAME=VALUE")]
pub struct QuarantineError {
    /// The text, cut.
    pub found: String,
}

impl FromStr for Quarantine {
    type Err = QuarantineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || QuarantineError { found: text.chars().take(64).collect() };
        let (subject, value) = text.split_once('=').ok_or_else(wrong)?;
        if value.is_empty() || text.len() > Self::LONGEST {
            return Err(wrong());
        }
        let value = value.to_owned();
        match (subject, subject.strip_prefix("header:")) {
            ("key", _) => Ok(Self::Key(value)),
            ("tenant", _) => Ok(Self::Tenant(value)),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Header { name: name.to_owned(), value }),
            _ => Err(wrong()),
        }
    }
}

/// What a control does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ControlKind {
    /// The flow stands still.
    Pause,
    /// Its retries stand still.
    PauseRetries,
    /// Some messages are kept back.
    Quarantine,
}

impl ControlKind {
    /// The name as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::PauseRetries => "pause-retries",
            Self::Quarantine => "quarantine",
        }
    }
}

/// A control in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Control {
    /// The flow.
    pub flow: String,
    /// What it does.
    pub kind: ControlKind,
    /// Which messages, for a quarantine; else empty.
    pub target: String,
    /// Who ordered it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// How many messages a quarantine keeps.
    pub held: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_reads_what_it_writes() {
        for text in ["key=a=b", "tenant=acme", "header:x-region=eu west"] {
            assert_eq!(text.parse::<Quarantine>().unwrap().to_string(), text);
        }
        for text in ["", "key", "key=", "header:=x", "colour=red", &format!("key={}", "x".repeat(500))] {
            let error = text.parse::<Quarantine>().unwrap_err().to_string();
            assert!(error.contains("tenant=VALUE"), "{error}");
        }
    }
}
