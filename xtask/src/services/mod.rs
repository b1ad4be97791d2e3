//! Real servers for tests: Kafka, RabbitMQ and PostgreSQL on free ports, in one temporary folder.
//!
//! A supervisor process owns them. It starts a server when somebody asks for it over a Unix socket, and stops
//! everything when its parent is gone, however the parent died: it reads a pipe that ends with the parent. The
//! servers in turn are tied to the supervisor, so nothing outlives it either.

mod background;
mod client;
mod folder;
mod given;
mod instance;
mod kafka;
mod kafka_wire;
mod maven;
mod ports;
mod postgres;
mod process;
mod protocol;
mod rabbitmq;
mod service;
mod supervisor;

use clap::Subcommand;

use crate::error::Result;
use crate::install;

pub(crate) use client::{Supervisor, VARIABLE};
pub(crate) use maven::{Program, Workshop};
#[cfg(test)]
pub(crate) use protocol::ServerStatus;
pub(crate) use protocol::{Kind, Skip, SkipKind, Status};

/// `cargo xtask services …`
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Start servers that stay until `services down`
    Up {
        /// Which of them; all three when none is named
        names: Vec<Kind>,
    },
    /// Stop them
    Down,
    /// Show what runs
    Status,
    /// Show the end of the servers' logs
    Logs {
        /// Of this server only
        name: Option<Kind>,
    },
    /// Own servers for another process (used by the tests)
    #[command(hide = true)]
    Serve {
        /// Live until told to end, not until the end of standard input
        #[arg(long)]
        detached: bool,
        /// Refuse what needs Java
        #[arg(long)]
        quick: bool,
    },
}

/// What these servers need from the system, except those that somebody else runs.
pub(crate) fn needs(kinds: &[Kind]) -> Vec<&'static [install::Need]> {
    kinds
        .iter()
        .filter(|kind| given::address(**kind).is_none())
        .map(|kind| match kind {
            Kind::Kafka => install::JAVA,
            Kind::Rabbitmq => install::RABBITMQ,
            Kind::Postgres => install::POSTGRES,
        })
        .collect()
}

pub(crate) fn run(action: Action) -> Result<()> {
    match action {
        Action::Up { names } => background::up(&names),
        Action::Down => background::down(),
        Action::Status => background::status(),
        Action::Logs { name } => background::logs(name),
        Action::Serve { detached, quick } => supervisor::serve(detached, quick),
    }
}
