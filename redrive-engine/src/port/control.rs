//! Controls: what people have ordered, for as long as it is in force.

use std::fmt;
use std::str::FromStr;

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LaneName, Refusal};

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

    /// The control that it puts in force or ends.
    pub const fn control(&self) -> ControlKind {
        match self {
            Self::Pause | Self::Resume => ControlKind::Pause,
            Self::PauseRetries | Self::ResumeRetries => ControlKind::PauseRetries,
            Self::Quarantine(_) | Self::Release(_) => ControlKind::Quarantine,
        }
    }

    /// Whether it puts a control in force, rather than ending one.
    pub const fn begins(&self) -> bool {
        matches!(self, Self::Pause | Self::PauseRetries | Self::Quarantine(_))
    }

    /// Which messages of the flow it is about.
    pub const fn quarantine(&self) -> Option<&Quarantine> {
        match self {
            Self::Quarantine(quarantine) | Self::Release(quarantine) => Some(quarantine),
            _ => None,
        }
    }

    /// The same as the control's target: text for a quarantine, else empty.
    pub fn target(&self) -> String {
        self.quarantine().map(ToString::to_string).unwrap_or_default()
    }

    /// What the audit says it was done to: the flow, and for a quarantine which of its messages.
    pub fn subject(&self, flow: &str) -> String {
        self.quarantine().map_or_else(|| flow.to_owned(), |quarantine| format!("{flow} {quarantine}"))
    }

    /// Refuses what no flow could obey: a name that is none, a quarantine that could not be read again.
    pub fn check(&self, flow: &str) -> Result<(), Refusal> {
        let fits = (1..=100).contains(&flow.len())
            && flow.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !fits {
            let found: String = flow.chars().take(64).collect();
            return Err(Refusal::Invalid(format!(
                "`{found}` is no name of a flow; expected 1 to 100 of a-z, A-Z, 0-9, `.`, `_` and `-`"
            )));
        }
        let Some(quarantine) = self.quarantine() else { return Ok(()) };
        match quarantine.to_string().parse::<Quarantine>() {
            Ok(read) if read == *quarantine => Ok(()),
            Ok(_) => Err(Refusal::Invalid(format!("`{quarantine}` would be read as another quarantine"))),
            Err(error) => Err(Refusal::Invalid(error.to_string())),
        }
    }

    /// Why it is refused where it would change nothing.
    pub fn refusal(&self, flow: &str) -> Refusal {
        let target = self.target();
        Refusal::State(match self {
            Self::Pause => format!("flow `{flow}` is paused already"),
            Self::PauseRetries => format!("the retries of flow `{flow}` are paused already"),
            Self::Resume => format!("flow `{flow}` is not paused"),
            Self::ResumeRetries => format!("the retries of flow `{flow}` are not paused"),
            Self::Quarantine(_) => format!("`{target}` of flow `{flow}` is in quarantine already"),
            Self::Release(_) => format!("`{target}` of flow `{flow}` is not in quarantine"),
        })
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
    /// The longest text of a quarantine, in bytes.
    pub const LONGEST: usize = 400;
    /// The most of one flow.
    pub const MOST: u64 = 1_000;

    /// Why another one is refused when the flow has as many as it may.
    pub fn limit(flow: &str) -> Refusal {
        Refusal::Limit(format!(
            "flow `{flow}` has {} quarantines, which is the most; release one first, or pause the flow",
            Self::MOST
        ))
    }

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
#[error(
    "`{found}` names nothing to keep back; write key=VALUE, tenant=VALUE or header:NAME=VALUE, at most {} bytes",
    Quarantine::LONGEST
)]
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
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Pause, Self::PauseRetries, Self::Quarantine];

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
    fn an_order_that_nobody_could_obey_is_refused() {
        let keep = |quarantine| Order::Quarantine(quarantine).check("orders");
        assert_eq!(Order::Pause.check("orders.eu-1_a"), Ok(()));
        assert_eq!(keep(Quarantine::Key("a=b".to_owned())), Ok(()));
        for flow in ["", "a b", "a/b", "ä", &"x".repeat(101)] {
            assert!(matches!(Order::Pause.check(flow), Err(Refusal::Invalid(_))), "{flow}");
        }
        assert!(matches!(keep(Quarantine::Key(String::new())), Err(Refusal::Invalid(_))));
        assert!(matches!(keep(Quarantine::Tenant("x".repeat(400))), Err(Refusal::Invalid(_))));
        let name = "a=b".to_owned();
        assert!(matches!(keep(Quarantine::Header { name, value: "c".to_owned() }), Err(Refusal::Invalid(_))));
    }

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
