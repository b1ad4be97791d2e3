//! What the supervisor needs to know about a kind of server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::{Error, Result, failed};

use super::kafka::Kafka;
use super::postgres::Postgres;
use super::process::Process;
use super::protocol::Kind;
use super::rabbitmq::Rabbitmq;

/// One server, or one cluster of them, with its own folder and ports.
pub(super) trait Service: Send {
    /// The version of the software.
    fn version(&self) -> String;
    /// Where clients find it.
    fn address(&self) -> String;
    /// How many nodes it has.
    fn nodes(&self) -> usize;
    /// Starts a node, which may not be ready yet.
    fn spawn(&mut self, node: usize) -> Result<Process>;
    /// Looks whether these nodes answer, as a client would see it; an error says what is still wrong.
    fn healthy(&self, nodes: &[usize]) -> std::result::Result<(), String>;
    /// The last word after the first healthy answer, by the server's own tool.
    fn confirm(&self) -> Result<()> {
        Ok(())
    }
    /// Runs the tool that comes with the server; answers with what it printed.
    fn tool(&self, _arguments: &[String]) -> Result<String> {
        Err(failed("it comes with no tool that can be run here"))
    }
    /// The signal of an orderly stop, and how long that may take.
    fn stop_signal(&self) -> (Signal, Duration);
    /// Undoes what a killed node left outside its folder.
    fn clean(&self) {}
}

/// Why a server cannot be used.
pub(super) enum Trouble {
    /// It cannot be had on this machine.
    Unavailable(String),
    /// It should have worked.
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Where an instance lives.
#[derive(Clone)]
pub(super) struct Site {
    /// For its data.
    pub(super) folder: PathBuf,
    /// For its logs, whose names begin with the instance's.
    pub(super) logs: PathBuf,
    /// The instance's name, fit for a file name.
    pub(super) name: String,
    /// Settings of the server that a test asked for, in the server's own language.
    pub(super) settings: Option<String>,
    pub(super) ending: Ending,
}

impl Site {
    /// The log of one of its processes.
    pub(super) fn log(&self, part: &str) -> PathBuf {
        self.logs.join(format!("{}-{part}.log", self.name))
    }
}

/// Makes a server ready to be started for the first time.
pub(super) fn prepare(
    kind: Kind,
    nodes: usize,
    site: Site,
) -> std::result::Result<Box<dyn Service>, Trouble> {
    if site.settings.is_some() && kind == Kind::Postgres {
        return Err(Trouble::Failed(failed("PostgreSQL takes no settings here")));
    }
    Ok(match kind {
        Kind::Kafka => Box::new(Kafka::prepare(nodes, site)?),
        Kind::Rabbitmq => Box::new(Rabbitmq::prepare(site)?),
        Kind::Postgres => Box::new(Postgres::prepare(site)?),
    })
}

/// Whether the supervisor has been told to end.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<AtomicBool>);

impl Ending {
    pub(super) fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
