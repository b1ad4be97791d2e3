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

/// Whether any handler has marked the message.
pub(crate) fn by_any(sql: &Connection, mid: &str) -> Done<bool> {
    Ok(sql.prepare_cached("SELECT 1 FROM processed WHERE mid = ?1")?.exists([mid])?)
}
