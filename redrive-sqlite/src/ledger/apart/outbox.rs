//! What people brought to an end, until the broker has been told: a rebuild of the ledger from the broker's own shelves
//! must not bring it back.

use redrive_engine::port::{EntryState, PortError, Resolved};
use rusqlite::{Connection, params};

use crate::fault::Done;
use crate::ledger::record::{Stored, entry_id};
use crate::ledger::state;
use crate::store::Store;
use crate::tx::Tx;

/// Lines that are handed out at once, and lines that are removed at once.
const MOST: usize = 1_000;

/// An entry of a broker apart has come to an end by a person, or is open again; written only when the broker has a copy.
pub(crate) fn resolve(tx: &Tx<'_>, stored: &Stored, to: EntryState) -> Done<()> {
    if stored.keeper.is_none() || !stored.shelved {
        return Ok(());
    }
    tx.sql
        .prepare_cached("INSERT INTO resolved (flow, entry, state) VALUES (?1, ?2, ?3)")?
        .execute(params![stored.flow, &stored.id.as_bytes()[..], state::number(to)])?;
    Ok(())
}

/// The lines of a flow after a number. Whoever asks for them has done with those before.
pub(crate) async fn resolved(
    store: &Store,
    flow: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, Resolved)>, PortError> {
    let flow = flow.to_owned();
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let wanted = flow.clone();
    let (lines, done) = store
        .inner
        .readers
        .run(move |sql| Ok((list(sql, &wanted, after, limit)?, has_done(sql, &wanted, after)?)))
        .await?;
    if done {
        store.inner.writer.run(move |tx| forget(tx, &flow, after)).await?;
    }
    Ok(lines)
}

fn list(sql: &Connection, flow: &str, after: i64, limit: usize) -> Done<Vec<(u64, Resolved)>> {
    let mut statement = sql.prepare_cached(
        "SELECT number, entry, state FROM resolved WHERE flow = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut rows = statement.query(params![flow, after, limit.min(MOST)])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = entry_id(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)?;
        lines.push((row.get(0)?, Resolved { entry, state: state::of(row.get(2)?)? }));
    }
    Ok(lines)
}

fn has_done(sql: &Connection, flow: &str, after: i64) -> Done<bool> {
    let mut statement = sql.prepare_cached("SELECT 1 FROM resolved WHERE flow = ?1 AND number <= ?2")?;
    Ok(statement.exists(params![flow, after])?)
}

fn forget(tx: &Tx<'_>, flow: &str, after: i64) -> Done<()> {
    tx.sql
        .prepare_cached(
            "DELETE FROM resolved WHERE number IN
             (SELECT number FROM resolved WHERE flow = ?1 AND number <= ?2 ORDER BY number LIMIT ?3)",
        )?
        .execute(params![flow, after, MOST])?;
    Ok(())
}
