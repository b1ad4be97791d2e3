//! The supervisor's protocol: one JSON object a line, each request answered by one line.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Apache Kafka.
    Kafka,
    /// RabbitMQ.
    Rabbitmq,
    /// PostgreSQL.
    Postgres,
}

/// A request: one verb, and what belongs to it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) need: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kill: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) release: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skip: Option<Skip>,
    pub(super) failed: bool,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<usize>,
    pub(super) own: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) arguments: Vec<String>,
}

/// A test that did not run.
#[derive(Debug, Serialize)]
pub(super) struct Skip {
    pub(super) test: String,
    pub(super) kind: &'static str,
    pub(super) reason: String,
}

/// An answer, told apart by its keys.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Server {
        address: String,
        version: Option<String>,
        given: bool,
        instance: String,
    },
    Program {
        class_path: String,
    },
    Said {
        said: String,
    },
    Unavailable {
        unavailable: String,
    },
    LeftOut {
        left_out: String,
    },
    Error {
        error: String,
    },
    Done {
        #[allow(dead_code, reason = "the key tells this answer from the others")]
        done: bool,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { error } => f.write_str(error),
            other => write!(f, "unexpected answer: {other:?}"),
        }
    }
}

/// A connection to the supervisor. Servers of its own end with it.
#[derive(Debug)]
pub(super) struct Connection(Mutex<BufReader<UnixStream>>);

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(socket)
            .map_err(|error| format!("cannot connect to {}: {error}", socket.display()))?;
        Ok(Self(Mutex::new(BufReader::new(stream))))
    }

    /// Asks one thing and waits for the answer.
    pub(super) fn ask(&self, request: &Request) -> Result<Answer, String> {
        let mut text = serde_json::to_string(request).map_err(|error| error.to_string())?;
        text.push('\n');
        // A test that panicked elsewhere has left no half a message here.
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = String::new();
        stream
            .get_mut()
            .write_all(text.as_bytes())
            .and_then(|()| stream.read_line(&mut line))
            .map_err(|error| format!("the supervisor of the servers is gone: {error}"))?;
        serde_json::from_str(&line).map_err(|error| format!("the supervisor said `{}`: {error}", line.trim()))
    }
}
