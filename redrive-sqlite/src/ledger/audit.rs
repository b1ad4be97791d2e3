//! The audit: lines that are only ever added, numbered without gaps.

use redrive_core::Timestamp;
use redrive_engine::port::{Actor, AuditLine};
use rusqlite::{Connection, params};

use crate::fault::Done;
use crate::tx::Tx;

pub(crate) fn add(
    tx: &Tx<'_>,
    actor: &Actor,
    what: &str,
    subject: &str,
    count: u64,
    at: Timestamp,
) -> Done<()> {
    tx.sql
        .prepare_cached(
            "INSERT INTO audit (number, at, who, what, subject, why, count)
             SELECT coalesce(max(number), 0) + 1, ?1, ?2, ?3, ?4, ?5, ?6 FROM audit",
        )?
        .execute(params![at.as_millis(), actor.who, what, subject, actor.why, count])?;
    Ok(())
}

pub(crate) fn list(sql: &Connection, before: Option<u64>, limit: usize) -> Done<Vec<AuditLine>> {
    let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let mut statement = sql.prepare_cached(
        "SELECT number, at, who, what, subject, why, count FROM audit WHERE number < ?1
         ORDER BY number DESC LIMIT ?2",
    )?;
    let rows = statement.query_map(params![before, limit.min(1_000)], |row| {
        Ok(AuditLine {
            number: row.get(0)?,
            at: Timestamp::from_millis(row.get(1)?),
            who: row.get(2)?,
            what: row.get(3)?,
            subject: row.get(4)?,
            why: row.get(5)?,
            count: row.get(6)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
