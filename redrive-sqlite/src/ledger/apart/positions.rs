//! Positions that are kept by name: how far something has been read or told.

use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::Done;
use crate::tx::Tx;

pub(crate) fn position(sql: &Connection, name: &str) -> Done<Option<String>> {
    let mut statement = sql.prepare_cached("SELECT position FROM positions WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

pub(crate) fn keep_position(tx: &Tx<'_>, name: &str, position: &str) -> Done<()> {
    tx.sql
        .prepare_cached(
            "INSERT INTO positions (name, position) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET position = excluded.position",
        )?
        .execute(params![name, position])?;
    Ok(())
}
