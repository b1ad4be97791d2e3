//! What a flow's messages are handed to.

use std::fmt;

use redrive_core::duration::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::AddressText;

/// A handler: its one-line address, or a map with more to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Handler {
    /// `http://…`, `https://…`, `exec:…` or `jsonl:…`.
    Address(AddressText),
    /// A handler with settings of its own.
    Full(Box<HandlerSpec>),
}

/// What it calls, as one line without credentials.
impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = match self {
            Self::Address(address) => return write!(f, "{address}"),
            Self::Full(spec) => spec,
        };
        match (&spec.http, &spec.exec, &spec.jsonl) {
            (Some(address), _, _) => write!(f, "{address}"),
            (None, Some(command), _) => write!(f, "{}", AddressText::from(&*format!("exec:{command}"))),
            (None, None, Some(command)) => write!(f, "{}", AddressText::from(&*format!("jsonl:{command}"))),
            (None, None, None) => f.write_str("forward"),
        }
    }
}

/// A handler with settings: exactly one of `http`, `exec`, `jsonl` and `forward` is given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandlerSpec {
    /// The address of an HTTP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<AddressText>,
    /// A command that is run once per message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<String>,
    /// A long-lived command that speaks JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jsonl: Option<String>,
    /// Send the message on, when it says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forward>,
    /// How long one attempt may take. Default 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// How long a connection may take. Default 3s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Period>,
    /// An environment variable that holds the secret with which requests are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// A file that holds the secret with which requests are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
}

/// Where a message may ask to be sent on to, by `x-forward-to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forward {
    /// The targets that are allowed: queues or topics of the flow's broker by their names, or the beginning of names
    /// with a `*` behind it.
    pub allow: Vec<String>,
    /// How far away the time may lie at which a message is due. Default 7d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Period>,
}
