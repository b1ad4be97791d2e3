//! What can go wrong inside, and what the ports say about it.

use std::path::Path;

use redrive_engine::port::{PortError, Refusal};
use rusqlite::ErrorCode;

/// An error on the way: SQLite's, or already one of the port's.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Port(PortError),
}

pub(crate) type Done<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PortError> for Fault {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Port(PortError::Refused(refusal))
    }
}

impl Fault {
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::Port(PortError::Broken(what.into()))
    }

    pub(crate) fn into_port(self, path: &Path) -> PortError {
        match self {
            Self::Port(error) => error,
            Self::Sql(error) => sql(&error, path),
        }
    }
}

fn sql(error: &rusqlite::Error, path: &Path) -> PortError {
    let file = path.display();
    let Some(code) = error.sqlite_error_code() else {
        return PortError::Broken(format!("{file} holds something unexpected: {error}"));
    };
    match code {
        ErrorCode::DiskFull => PortError::Unavailable(format!(
            "the disk of {file} is full, or the file has reached its limit: nothing was written; make room and it goes on"
        )),
        ErrorCode::ReadOnly => PortError::Unavailable(format!("{file} cannot be written: it is read-only")),
        ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            PortError::Unavailable(format!("{file} cannot be opened: {error}"))
        }
        ErrorCode::SystemIoFailure => {
            PortError::Unavailable(format!("{file} could not be read or written: {error}"))
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            PortError::Unavailable(format!("{file} is locked by another program"))
        }
        ErrorCode::OutOfMemory => PortError::Unavailable(format!("no memory left to work on {file}")),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            PortError::Broken(format!("{file} is damaged ({error}): stop, and restore it from a backup"))
        }
        ErrorCode::TooBig => {
            Refusal::Limit("the message is larger than the file can hold in one place".to_owned()).into()
        }
        _ => PortError::Broken(format!("{file}: {error}")),
    }
}
