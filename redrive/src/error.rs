//! What can go wrong when flows are set up and run.

use std::path::PathBuf;

use redrive_engine::StartError;
use redrive_engine::port::{PortError, Topology};
use redrive_server::{ListenError, TokenError};
use redrive_sqlite::OpenError;

use crate::codes::{self, Code};
use crate::setup::SetupError;
use crate::topology;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong when flows are set up and run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flow was described wrongly.
    #[error("{0}")]
    Flow(String),
    /// A flow cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The data file cannot be opened.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// Something is missing at a flow's broker, and the flow does not create it.
    #[error(
        "flow `{flow}`: {} missing at its broker: {}",
        if missing.len() == 1 { "something is" } else { "some things are" },
        listed(missing)
    )]
    Missing {
        /// The flow.
        flow: String,
        /// What is missing.
        missing: Vec<Topology>,
    },
    /// A flow did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The HTTP API did not start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The token is not usable.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The broker or the ledger said no.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The operating system said no.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

fn listed(missing: &[Topology]) -> String {
    let named = missing.iter().filter(|thing| !topology::is_way(thing));
    let named = named.map(|thing| format!("{} {}", thing.kind, thing.name));
    named.chain(topology::counted_ways(missing)).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// The code of its page.
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => codes::TOPOLOGY_MISSING,
            Self::Open { .. } => codes::NO_DATA_ACCESS,
            Self::Listen(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Flow(_) | Self::Setup(_) | Self::Start(_) | Self::Port(_) | Self::System(_) => {
                codes::CANNOT_RUN
            }
        }
    }
}
