//! The file's layout and its versions.
//!
//! Each step runs in one transaction together with the number it leads to, so a file is of one version or of the next,
//! never between. A binary that meets a version it does not know refuses the file by name.

mod steps;

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::OpenError;
use steps::{STEPS, Step};

/// Marks a file as Redrive's: `RDRV`.
const APPLICATION: i64 = 0x5244_5256;

/// Brings the file to the version of this crate.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    migrate(connection, path, STEPS)
}

/// Takes the steps that the file has not taken yet.
fn migrate(connection: &mut Connection, path: &Path, steps: &[Step]) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| open_error(&error, path);
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION && (tables > 0 || found > 0) {
        return Err(OpenError::Foreign { file: path.to_owned() });
    }
    let known = steps.len() as u32;
    if found > known {
        return Err(OpenError::Newer { file: path.to_owned(), found, known });
    }
    for (step, to) in steps.iter().zip(1_u32..).skip(found as usize) {
        take(connection, step, to).map_err(|error| match open_error(&error, path) {
            OpenError::System { file, why } => OpenError::Migration { file, to, brings: step.brings, why },
            other => other,
        })?;
    }
    Ok(())
}

fn take(connection: &mut Connection, step: &Step, to: u32) -> rusqlite::Result<()> {
    // Everything is rolled back when this is left early.
    let transaction = connection.transaction()?;
    transaction.execute_batch(step.sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", to)?;
    transaction.commit()
}

pub(crate) fn open_error(error: &rusqlite::Error, path: &Path) -> OpenError {
    let (file, why) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Damaged { file, why },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { file, why },
        _ => OpenError::System { file, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Step = Step {
        brings: "notes",
        sql: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
              INSERT INTO notes (text) VALUES ('kept');",
    };
    const SECOND: Step = Step {
        brings: "colours",
        sql: "ALTER TABLE notes ADD COLUMN colour TEXT; UPDATE notes SET colour = 'red' WHERE text = 'kept';",
    };
    const BROKEN: Step = Step {
        brings: "shapes",
        sql: "ALTER TABLE notes ADD COLUMN shape TEXT; UPDATE notes SET shape = 'round';
              INSERT INTO nowhere VALUES (1);",
    };

    fn path() -> &'static Path {
        Path::new("redrive.db")
    }

    fn version(connection: &Connection) -> u32 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    fn notes(connection: &Connection) -> Vec<(String, Option<String>)> {
        let mut statement = connection.prepare("SELECT text, colour FROM notes ORDER BY id").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn an_older_file_takes_only_the_steps_it_has_not_taken() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, path(), &[FIRST]).unwrap();
        assert_eq!(version(&connection), 1);
        connection.execute("INSERT INTO notes (text) VALUES ('mine')", []).unwrap();
        migrate(&mut connection, path(), &[FIRST, SECOND]).unwrap();
        assert_eq!(version(&connection), 2);
        let expected = vec![("kept".to_owned(), Some("red".to_owned())), ("mine".to_owned(), None)];
        assert_eq!(notes(&connection), expected);
        migrate(&mut connection, path(), &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection), expected, "a step was taken twice");
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_the_step_before_it_did() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, path(), &[FIRST]).unwrap();
        let error = migrate(&mut connection, path(), &[FIRST, SECOND, BROKEN]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("redrive.db could not be brought to schema 3 (shapes)"), "{text}");
        assert!(text.contains("no such table: nowhere"), "{text}");
        assert_eq!(version(&connection), 2);
        assert!(connection.prepare("SELECT shape FROM notes").is_err(), "half a step was kept");
        migrate(&mut connection, path(), &[FIRST, SECOND]).unwrap();
        assert_eq!(notes(&connection).len(), 1);
    }

    #[test]
    fn a_file_of_more_steps_than_are_known_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, path(), &[FIRST, SECOND]).unwrap();
        let error = migrate(&mut connection, path(), &[FIRST]).unwrap_err();
        assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    }
}
