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

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn said(code: i32) -> PortError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        Fault::from(error).into_port(Path::new("redrive.db"))
    }

    /// A refusal ends a delivery, the others are tried again: what the disk does must never look like a refusal.
    #[test]
    fn what_the_disk_does_is_tried_again_and_names_the_file() {
        for (code, words) in [
            (ffi::SQLITE_FULL, "is full"),
            (ffi::SQLITE_IOERR_WRITE, "could not be read or written"),
            (ffi::SQLITE_IOERR_FSYNC, "could not be read or written"),
            (ffi::SQLITE_READONLY_DBMOVED, "it is read-only"),
            (ffi::SQLITE_CANTOPEN, "cannot be opened"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "is locked by another program"),
            (ffi::SQLITE_NOMEM, "no memory left"),
        ] {
            let error = said(code);
            assert!(matches!(error, PortError::Unavailable(_)), "{code}: {error:?}");
            let text = error.to_string();
            assert!(text.contains("redrive.db") && text.contains(words), "{code}: {text}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_CORRUPT_INDEX, ffi::SQLITE_NOTADB] {
            let error = said(code);
            assert!(matches!(error, PortError::Broken(_)), "{code}: {error:?}");
            assert!(error.to_string().contains("redrive.db is damaged"), "{code}: {error}");
        }
    }
}
