//! Copies that wait at a broker apart: which are still wanted, which should have come, which came unseen.

use redrive_core::Timestamp;
use redrive_engine::port::{Copied, EntryId, EntryState, Expected, HistoryLine, Keeper, LaneName, Overdue};
use rusqlite::{Connection, OptionalExtension, params};

use super::{keeper_of, place};
use crate::fault::Done;
use crate::ledger::record::{self, Move, Stored, entry_id};
use crate::ledger::{lanes, state};
use crate::tx::Tx;

/// Entries that are handed out at once.
const MOST: usize = 10_000;

/// Which of these copies are still wanted, seen at one moment.
pub(crate) fn expected(sql: &Connection, flow: &str, copies: &[Copied]) -> Done<Vec<Expected>> {
    let snapshot = sql.unchecked_transaction()?;
    copies.iter().map(|copy| is_expected(&snapshot, flow, copy)).collect()
}

struct Waited {
    state: EntryState,
    keeper: Option<Keeper>,
    attempts: u32,
    copy_known: bool,
    presumed: bool,
    own: bool,
}

/// A copy is wanted while its entry waits for it at the broker. One that is older than what was written down is spent, unless
/// nobody said where the newer one lies: the ledger was told first, and the broker may not have learned of it.
fn is_expected(sql: &Connection, flow: &str, copy: &Copied) -> Done<Expected> {
    let found = sql
        .prepare_cached(
            "SELECT state, keeper, attempts, copy_kind IS NOT NULL, presumed IS NOT NULL, flow = ?2 AND mid = ?3
             FROM entries WHERE id = ?1",
        )?
        .query_row(params![&copy.entry.as_bytes()[..], flow, copy.message.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    let Some((standing, keeper, attempts, copy_known, presumed, own)) = found else {
        return Ok(Expected::Unknown);
    };
    let keeper = keeper.map(keeper_of);
    let known = Waited { state: state::of(standing)?, keeper, attempts, copy_known, presumed, own };
    Ok(known.wants(copy))
}

impl Waited {
    fn wants(&self, copy: &Copied) -> Expected {
        if !self.own {
            return Expected::Anothers;
        }
        if self.keeper != Some(Keeper::Broker) {
            return Expected::No;
        }
        let is_last = copy.attempts >= self.attempts;
        let wanted = match self.state {
            EntryState::Recovered if self.presumed && is_last => return Expected::AfterAll,
            EntryState::Waiting => is_last || !self.copy_known,
            EntryState::Dead | EntryState::Parked => !self.copy_known,
            _ => false,
        };
        if wanted { Expected::Yes } else { Expected::No }
    }
}

pub(crate) fn overdue(
    sql: &Connection,
    flow: &str,
    before: Timestamp,
    after: Option<(Timestamp, EntryId)>,
    limit: usize,
) -> Done<Vec<Overdue>> {
    let mut statement = sql.prepare_cached(
        "SELECT id, due, copy_kind, copy_name, copy_partition, copy_position FROM entries INDEXED BY entries_at_broker
         WHERE flow = ?1 AND keeper = 1 AND state = 0 AND due < ?2 AND due >= ?3 AND (due, id) > (?3, ?4)
           AND copy_kind IS NOT NULL ORDER BY due, id LIMIT ?5",
    )?;
    let (due, id) = after.map_or((i64::MIN, EntryId::nil()), |(due, id)| (due.as_millis(), id));
    let mut rows =
        statement.query(params![flow, before.as_millis(), due, &id.as_bytes()[..], limit.min(MOST)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = entry_id(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?;
        let due_at = Timestamp::from_millis(row.get(1)?);
        found.push(Overdue { entry, due_at, copy: place::read(row, 2)? });
    }
    Ok(found)
}

/// The broker has passed these copies. An entry that waits for another one by now is left alone.
pub(crate) fn passed(tx: &mut Tx<'_>, copies: &[Overdue], now: Timestamp) -> Done<()> {
    for one in copies {
        let Some(stored) = Stored::by_id(tx, one.entry)? else { continue };
        let was_due = stored.due.is_some_and(|due| due < now.as_millis());
        let waits_there = stored.state == EntryState::Waiting && stored.keeper == Some(Keeper::Broker);
        if !was_due || !waits_there || place::of_copy(tx.sql, stored.eid)?.as_ref() != Some(&one.copy) {
            continue;
        }
        if let Some(row) = stored.message {
            // While the broker keeps the message no reader can have this row.
            tx.sql.prepare_cached("DELETE FROM messages WHERE id = ?1 AND due IS NULL")?.execute([row])?;
        }
        let lane = lanes::own_of(tx, &stored)?;
        let lane = lane.as_ref().map_or("", LaneName::as_str);
        let step = Move { to: EntryState::Recovered, earlier: None, due: None, message: None };
        record::put(tx, &stored, &step, now)?;
        record::add_line(tx, stored.eid, &passed_line(now))?;
        tx.sql
            .prepare_cached("UPDATE entries SET presumed = ?2 WHERE eid = ?1")?
            .execute(params![stored.eid, lane])?;
        lanes::ended(tx, &stored)?;
    }
    Ok(())
}

fn passed_line(now: Timestamp) -> HistoryLine {
    HistoryLine {
        because: Some("the broker has passed its copy, and keeps no other".to_owned()),
        ..HistoryLine::new(now, EntryState::Recovered.as_str())
    }
}
