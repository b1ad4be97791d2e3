//! How a port says no.

/// Why a broker or a ledger did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// It may work later: the disk is full, the server is away. Nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// It will not work by trying again.
    #[error("{0}")]
    Refused(Refusal),
    /// What is stored cannot be read: a damaged file, a newer schema.
    #[error("{0}")]
    Broken(String),
}

/// A refusal that a person or a program reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such thing.
    #[error("{what} `{name}` is not there")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Its name or id.
        name: String,
    },
    /// The state does not allow it.
    #[error("{0}")]
    State(String),
    /// A limit is reached: a queue's size, a message's size.
    #[error("{0}")]
    Limit(String),
    /// The same id is already there.
    #[error("the id `{0}` is already in the queue")]
    Duplicate(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl From<Refusal> for PortError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
