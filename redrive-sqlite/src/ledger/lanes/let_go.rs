//! Letting messages go that a lane keeps: many at once, so in statements that know no single message.

use redrive_engine::port::{EntryState, HistoryLine, LaneName};
use rusqlite::params;

use super::Lane;
use crate::fault::{Done, Fault};
use crate::ledger::record::LINES;
use crate::ledger::tally;
use crate::tx::Tx;

/// The lane's held entries up to a message: flow, lane, message.
const CHOSEN: &str = "flow = ?1 AND lane = ?2 AND state = 1 AND message <= ?3";

/// Lets the next ones go, at most so many, in the order of their messages; says how many.
pub(super) fn window(tx: &mut Tx<'_>, lane: &Lane, most: i64, due: i64) -> Done<i64> {
    let (last, count): (Option<i64>, i64) = tx
        .sql
        .prepare_cached(
            "SELECT max(message), count(*) FROM (
                 SELECT message FROM entries INDEXED BY entries_followers
                 WHERE flow = ?1 AND lane = ?2 AND state = 1 ORDER BY message LIMIT ?3)",
        )?
        .query_row(params![lane.flow, lane.name.as_str(), most], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(last) = last else { return Ok(0) };
    let because = "the messages in front of it have come to an end";
    let chosen = Chosen { lane, last, count, due, because };
    chosen.go(tx)?;
    // They stay counted in their lane until they come to an end.
    tx.sql
        .prepare_cached(&format!(
            "UPDATE entries INDEXED BY entries_followers SET state = 0, due = ?4, changed = ?5, because = ?6
             WHERE {CHOSEN}"
        ))?
        .execute(params![lane.flow, lane.name.as_str(), last, due, tx.now.as_millis(), because])?;
    Ok(count)
}

/// Lets everything go that a quarantine keeps, back to where it stood in its queue: before whatever came later. Answers
/// with how many that were.
pub(crate) fn release_quarantine(tx: &mut Tx<'_>, flow: &str, lane: &LaneName) -> Done<u64> {
    let Some(mut lane) = Lane::load(tx, flow, lane)?.filter(|lane| lane.name.is_quarantine()) else {
        return Ok(0);
    };
    let (last, count) = (i64::MAX, lane.count);
    let because = "its quarantine has ended";
    Chosen { lane: &lane, last, count, due: 0, because }.go(tx)?;
    tx.sql
        .prepare_cached(&format!(
            "UPDATE entries INDEXED BY entries_followers
             SET state = 0, due = ?4, changed = ?4, because = ?5, lane = NULL WHERE {CHOSEN}"
        ))?
        .execute(params![flow, lane.name.as_str(), last, tx.now.as_millis(), because])?;
    lane.count = 0;
    lane.go_on(tx)?;
    Ok(count.max(0).cast_unsigned())
}

/// Entries that are let go together, before their own rows change.
struct Chosen<'l> {
    lane: &'l Lane,
    /// The last of their messages.
    last: i64,
    count: i64,
    /// Where their messages go: 0 = where they stood in their queue, else the time.
    due: i64,
    because: &'static str,
}

impl Chosen<'_> {
    fn go(&self, tx: &mut Tx<'_>) -> Done<()> {
        self.tell_queues(tx)?;
        let (flow, lane) = (self.lane.flow.as_str(), self.lane.name.as_str());
        tx.sql
            .prepare_cached(&format!(
                "UPDATE messages SET due = ?4 WHERE id IN
                 (SELECT message FROM entries INDEXED BY entries_followers WHERE {CHOSEN})"
            ))?
            .execute(params![flow, lane, self.last, self.due])?;
        self.add_lines(tx)?;
        let (from, to) = (EntryState::Held, EntryState::Waiting);
        tally::shift_many(tx, flow, from, to, self.count)?;
        for (state, sign) in [(from, -1_i64), (to, 1)] {
            tx.sql
                .prepare_cached(&format!(
                    "INSERT INTO group_counts (flow, grp, state, n)
                     SELECT flow, grp, ?4, ?5 * count(*) FROM entries INDEXED BY entries_followers
                     WHERE {CHOSEN} AND grp IS NOT NULL GROUP BY grp
                     ON CONFLICT (flow, grp, state) DO UPDATE SET n = n + excluded.n"
                ))?
                .execute(params![flow, lane, self.last, crate::ledger::state::number(state), sign])?;
        }
        Ok(())
    }

    /// Keeps the queues' counts, and tells their readers from where on to look again.
    fn tell_queues(&self, tx: &mut Tx<'_>) -> Done<()> {
        let queues: Vec<(u32, i64, i64)> = tx
            .sql
            .prepare_cached(
                "SELECT m.queue, min(m.id), count(*) FROM entries e INDEXED BY entries_followers
                 JOIN messages m ON m.id = e.message
                 WHERE e.flow = ?1 AND e.lane = ?2 AND e.state = 1 AND e.message <= ?3 GROUP BY m.queue",
            )?
            .query_map(params![self.lane.flow, self.lane.name.as_str(), self.last], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (queue, first, count) in queues {
            if self.due == 0 {
                tx.counted(queue, count, 0);
                tx.back(queue, first, 0);
            } else {
                tx.counted(queue, 0, count);
                tx.arrived(queue, first, self.due);
            }
        }
        Ok(())
    }

    fn add_lines(&self, tx: &Tx<'_>) -> Done<()> {
        let line =
            HistoryLine { because: Some(self.because.to_owned()), ..HistoryLine::new(tx.now, "released") };
        let line = serde_json::to_string(&line).map_err(|error| Fault::broken(error.to_string()))?;
        let (flow, lane) = (self.lane.flow.as_str(), self.lane.name.as_str());
        tx.sql
            .prepare_cached(&format!(
                "UPDATE entries INDEXED BY entries_followers SET lines = lines + 1 WHERE {CHOSEN}"
            ))?
            .execute(params![flow, lane, self.last])?;
        tx.sql
            .prepare_cached(&format!(
                "INSERT INTO history (entry, n, line)
                 SELECT eid, lines, ?4 FROM entries INDEXED BY entries_followers WHERE {CHOSEN}"
            ))?
            .execute(params![flow, lane, self.last, line])?;
        tx.sql
            .prepare_cached(&format!(
                "DELETE FROM history WHERE (entry, n) IN (
                     SELECT eid, lines - ?4 + 1 FROM entries INDEXED BY entries_followers
                     WHERE {CHOSEN} AND lines > ?4)"
            ))?
            .execute(params![flow, lane, self.last, LINES])?;
        Ok(())
    }
}
