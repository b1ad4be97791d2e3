//! Which messages a handler has processed, so that a second delivery can be told from a first.

use redrive_core::Timestamp;
use rusqlite::{Connection, params};

use crate::fault::Done;
use crate::tx::Tx;

pub(crate) fn mark(tx: &Tx<'_>, handler: &str, mid: &str, at: Timestamp) -> Done<()> {
    tx.sql
        .prepare_cached(
            "INSERT INTO processed (mid, handler, at) VALUES (?1, ?2, ?3)
             ON CONFLICT (mid, handler) DO UPDATE SET at = excluded.at",
        )?
        .execute(params![mid, handler, at.as_millis()])?;
    Ok(())
}

pub(crate) fn which(sql: &Connection, handler: &str, mids: &[String]) -> Done<Vec<bool>> {
    let mut statement = sql.prepare_cached("SELECT 1 FROM processed WHERE mid = ?1 AND handler = ?2")?;
    let found: rusqlite::Result<_> = mids.iter().map(|mid| statement.exists(params![mid, handler])).collect();
    Ok(found?)
}

/// What the marks of a message tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// A handler has processed it.
    pub(crate) whole: bool,
    /// Steps of it ran once and are not run again.
    pub(crate) steps: bool,
}

/// What any handler has marked of the message.
pub(crate) fn of(sql: &Connection, mid: &str) -> Done<Marks> {
    let whole = sql.prepare_cached("SELECT 1 FROM processed WHERE mid = ?1")?.exists([mid])?;
    // The mark of a step is the message's id, a line break and the step's name.
    let steps = sql
        .prepare_cached("SELECT 1 FROM processed WHERE mid > ?1 || char(10) AND mid < ?1 || char(11)")?
        .exists([mid])?;
    Ok(Marks { whole, steps })
}

/// Whether anything is marked in this file.
pub(crate) fn any(sql: &Connection) -> Done<bool> {
    Ok(sql.prepare_cached("SELECT 1 FROM processed LIMIT 1")?.exists([])?)
}

/// Removes marks that were set before this time, and tells the entries of their messages.
pub(crate) fn expire(tx: &Tx<'_>, before: i64, limit: u64) -> Done<u64> {
    let mut statement = tx.sql.prepare_cached(
        "DELETE FROM processed WHERE (mid, handler) IN
         (SELECT mid, handler FROM processed WHERE at < ?1 ORDER BY at LIMIT ?2) RETURNING mid",
    )?;
    let marks: Vec<String> =
        statement.query_map(params![before, limit], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut tell = tx.sql.prepare_cached("UPDATE entries SET mark_expired = 1 WHERE mid = ?1")?;
    for mark in &marks {
        tell.execute([mark.split('\n').next().unwrap_or(mark)])?;
    }
    Ok(marks.len() as u64)
}
