//! Retention, in small steps.

use std::time::Duration;

use redrive_core::Timestamp;
use redrive_engine::port::{EntryState, Retention};
use rusqlite::params;

use super::record::Stored;
use super::{processed, state, tally};
use crate::fault::Done;
use crate::tx::Tx;

/// Free pages that one step gives back to the file system.
const PAGES: i64 = 512;
/// Free pages that the file keeps for what comes next.
const SPARE: i64 = 4_096;

pub(crate) fn tidy(tx: &mut Tx<'_>, retention: &Retention, limit: u64, now: Timestamp) -> Done<u64> {
    let limit = limit.min(1_000);
    let rules = [
        (EntryState::Recovered, retention.finished),
        (EntryState::Rejected, retention.finished),
        (EntryState::Discarded, retention.discarded),
        (EntryState::Archived, retention.archived),
    ];
    let mut removed = 0;
    // While a copy waits at a broker apart its entry says that it is spent.
    for (standing, kept) in rules {
        let Some(before) = kept.map(|kept| before(now, kept)) else { continue };
        let rows: Vec<i64> = tx
            .sql
            .prepare_cached(
                "SELECT eid FROM entries WHERE state = ?1 AND last_failed < ?2 AND changed < ?2
                 AND (copy_due IS NULL OR copy_due < ?2)
                 AND NOT EXISTS (SELECT 1 FROM lanes WHERE head = entries.id) LIMIT ?3",
            )?
            .query_map(params![state::number(standing), before, limit - removed], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for row in rows {
            removed += u64::from(remove(tx, row)?);
        }
    }
    if let Some(kept) = retention.processed {
        removed += processed::expire(tx, before(now, kept), limit - removed)?;
    }
    tx.sql
        .prepare_cached(
            "DELETE FROM recent WHERE (queue, mid) IN
             (SELECT queue, mid FROM recent WHERE until <= ?1 ORDER BY until LIMIT ?2)",
        )?
        .execute(params![now.as_millis(), limit])?;
    give_pages_back(tx)?;
    Ok(removed)
}

fn before(now: Timestamp, kept: Duration) -> i64 {
    now.as_millis().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX))
}

fn remove(tx: &mut Tx<'_>, eid: i64) -> Done<bool> {
    let Some(stored) = Stored::by_eid(tx, eid)? else { return Ok(false) };
    if let Some(row) = stored.message {
        // What may be removed is never deliverable, so no reader has it and no queue counts it.
        tx.sql.prepare_cached("DELETE FROM messages WHERE id = ?1 AND due IS NULL")?.execute([row])?;
    }
    tx.sql.prepare_cached("DELETE FROM history WHERE entry = ?1")?.execute([eid])?;
    tx.sql.prepare_cached("DELETE FROM entries WHERE eid = ?1")?.execute([eid])?;
    tally::gone(tx, stored.place())?;
    if let Some(group) = &stored.group {
        let key = params![stored.flow, group];
        tx.sql
            .prepare_cached("DELETE FROM group_counts WHERE flow = ?1 AND grp = ?2 AND n = 0")?
            .execute(key)?;
        tx.sql
            .prepare_cached(
                "DELETE FROM failure_groups WHERE flow = ?1 AND grp = ?2
                 AND NOT EXISTS (SELECT 1 FROM group_counts WHERE flow = ?1 AND grp = ?2)",
            )?
            .execute(key)?;
    }
    Ok(true)
}

fn give_pages_back(tx: &Tx<'_>) -> Done<()> {
    let free: i64 = tx.sql.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > SPARE {
        tx.sql.pragma(None, "incremental_vacuum", PAGES.min(free - SPARE), |_| Ok(()))?;
    }
    Ok(())
}
