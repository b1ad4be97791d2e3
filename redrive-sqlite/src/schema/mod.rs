//! The file's layout and its versions.
//!
//! Each migration runs in one transaction, so a file is of one version or of the next, never between. A binary that
//! meets a version it does not know refuses the file by name.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::OpenError;

/// The migrations, oldest first: the first makes version 1.
const MIGRATIONS: &[&str] = &[include_str!("v1.sql"), include_str!("v2.sql")];

/// Marks a file as Redrive's: `RDRV`.
const APPLICATION: i64 = 0x5244_5256;

/// The version that this crate writes.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the file to the version of this crate.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| open_error(&error, path);
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION && (tables > 0 || found > 0) {
        return Err(OpenError::Foreign { file: path.to_owned() });
    }
    if found > VERSION {
        return Err(OpenError::Newer { file: path.to_owned(), found, known: VERSION });
    }
    for (place, migration) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let step = connection.transaction().map_err(failed)?;
        step.execute_batch(migration).map_err(failed)?;
        step.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
        step.pragma_update(None, "user_version", place as u32 + 1).map_err(failed)?;
        step.commit().map_err(failed)?;
    }
    Ok(())
}

pub(crate) fn open_error(error: &rusqlite::Error, path: &Path) -> OpenError {
    let (file, why) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Damaged { file, why },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { file, why },
        _ => OpenError::System { file, why },
    }
}
