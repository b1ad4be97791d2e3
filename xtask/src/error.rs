//! What can go wrong in a task, as text for the person who ran it.

use std::fmt::Display;

/// Why a task ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Something failed; the text says what and, where known, what to do.
    #[error("{0}")]
    Failed(String),
    /// Something failed and has been shown already.
    #[error("failed")]
    Reported,
    /// A person or the system asked the task to end.
    #[error("interrupted")]
    Interrupted,
}

/// The outcome of a task or of a part of it.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A failure with this text.
pub(crate) fn failed(text: impl Into<String>) -> Error {
    Error::Failed(text.into())
}

/// Adds what was being done to an error of the system.
pub(crate) trait Context<T> {
    /// Puts `doing` in front of the error's own text.
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Error::Failed(format!("{doing}: {error}")))
    }
}
