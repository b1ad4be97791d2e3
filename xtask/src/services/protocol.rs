//! What is said over the supervisor's socket: one JSON object a line, each request answered by one line.
//!
//! ```text
//! {"need":"kafka","nodes":3,"own":true}     {"address":"127.0.0.1:…","version":"4.3.0","given":false,"instance":"own-1"}
//! {"kill":"kafka","instance":"own-1","node":0}                         {"done":true}
//! {"need":"rabbitmq"}                       {"unavailable":"RabbitMQ is not installed"}
//! {"tool":"rabbitmq","arguments":["list_users"]}                        {"said":"…"}
//! {"program":"spring"}                      {"class_path":"…"}
//! {"status":true}                           {"status":{…}}
//! ```

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::maven::Program;

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Apache Kafka.
    Kafka,
    /// RabbitMQ.
    Rabbitmq,
    /// PostgreSQL.
    Postgres,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Kafka, Self::Rabbitmq, Self::Postgres];

    /// As it is written in the protocol and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Rabbitmq => "rabbitmq",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request, as it stands on the line. Exactly one of the verbs is expected.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "verbs of the protocol, not states")]
pub(crate) struct Request {
    /// Verb: a server is needed; started unless it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) need: Option<Kind>,
    /// Verb: stop it as an operator would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<Kind>,
    /// Verb: start it again, with its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Kind>,
    /// Verb: kill -9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kill: Option<Kind>,
    /// Verb: run the tool that comes with the server, which must be running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<Kind>,
    /// Verb: end an own instance and remove its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) release: Option<Kind>,
    /// Verb: a Java program is needed; built unless it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<Program>,
    /// Verb: a test did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skip: Option<Skip>,
    /// Verb: something failed, so the logs are worth keeping.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) failed: bool,
    /// Verb: what runs.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) status: bool,
    /// Verb: stop everything and end.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) shutdown: bool,

    /// With `need`: how many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    /// With `need`: a server that nobody else gets, which ends with the connection.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) own: bool,
    /// With `need` and `own`: settings of the server, in its own language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<String>,
    /// Which instance; the shared one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<String>,
    /// With `stop`, `start`, `kill`: one node; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<usize>,
    /// With `tool`: what it is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) arguments: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// To `need`.
    Server { address: String, version: Option<String>, given: bool, instance: String },
    /// To `status`.
    Status { status: Status },
    /// To `program`.
    Program { class_path: String },
    /// To `tool`: what it printed.
    Said { said: String },
    /// The server cannot be had on this machine.
    Unavailable { unavailable: String },
    /// The run was asked to do without it.
    LeftOut { left_out: String },
    /// It should have worked.
    Error { error: String },
    /// To everything else.
    Done { done: bool },
}

impl Answer {
    pub(crate) fn error(text: impl fmt::Display) -> Self {
        Self::Error { error: text.to_string() }
    }
}

/// Everything the supervisor knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The folder that everything is in.
    pub(crate) folder: String,
    /// Where the logs go at the end, once something has failed.
    pub(crate) kept_logs: Option<String>,
    /// Each server that was asked for and is still there.
    pub(crate) servers: Vec<ServerStatus>,
    /// Those that ended with the test that they belonged to.
    #[serde(default)]
    pub(crate) past: Vec<ServerStatus>,
    /// Tests that did not run.
    pub(crate) skips: Vec<Skip>,
}

/// One server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerStatus {
    pub(crate) kind: Kind,
    pub(crate) instance: String,
    pub(crate) state: String,
    pub(crate) address: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) given: bool,
    /// How long the first start took.
    pub(crate) started_in_ms: Option<u64>,
    pub(crate) pids: Vec<u32>,
}

/// A test that did not run, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skip {
    pub(crate) test: String,
    pub(crate) kind: SkipKind,
    pub(crate) reason: String,
}

/// Why a test did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SkipKind {
    /// Its server cannot be had: a failure under CI=true.
    Skipped,
    /// It would have to break a server that was given.
    NotApplicable,
    /// The run was asked to be quick.
    LeftOut,
    /// A scenario of the contract that does not apply to an adapter. Its name begins with the crate.
    Scenario,
}

impl fmt::Display for SkipKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skipped => "skipped",
            Self::NotApplicable => "not applicable",
            Self::LeftOut => "left out",
            Self::Scenario => "does not apply",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_flat_objects() {
        let request = Request { need: Some(Kind::Kafka), nodes: Some(3), own: true, ..Request::default() };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"need":"kafka","nodes":3,"own":true}"#);
    }

    #[test]
    fn answers_are_told_apart_by_their_keys() {
        let read = |text: &str| serde_json::from_str::<Answer>(text).unwrap();
        assert!(matches!(read(r#"{"unavailable":"no"}"#), Answer::Unavailable { .. }));
        assert!(matches!(read(r#"{"error":"no"}"#), Answer::Error { .. }));
        assert!(matches!(read(r#"{"done":true}"#), Answer::Done { .. }));
        assert!(matches!(read(r#"{"class_path":"a:b"}"#), Answer::Program { .. }));
        assert!(matches!(read(r#"{"said":""}"#), Answer::Said { .. }));
        let server = read(r#"{"address":"a","version":null,"given":true,"instance":"shared"}"#);
        assert!(matches!(server, Answer::Server { given: true, .. }));
    }
}
