//! Counts that are kept, not counted: by flow and state, by failure group.

use redrive_core::{Class, Timestamp};
use redrive_engine::port::{Counts, EntryState, Group, StateCount};
use rusqlite::{Connection, params};

use super::state;
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// Where an entry is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) flow: &'a str,
    pub(crate) state: EntryState,
    pub(crate) group: Option<&'a str>,
}

/// Moves one entry from place to place.
pub(crate) fn shift(tx: &Tx<'_>, from: Option<Place<'_>>, to: Option<Place<'_>>) -> Done<()> {
    if from == to {
        return Ok(());
    }
    for (place, by) in [(from, -1_i64), (to, 1)] {
        let Some(place) = place else { continue };
        let number = state::number(place.state);
        count_more(tx, place.flow, place.state, by)?;
        if let Some(group) = place.group {
            tx.sql
                .prepare_cached(
                    "INSERT INTO group_counts (flow, grp, state, n) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (flow, grp, state) DO UPDATE SET n = n + excluded.n",
                )?
                .execute(params![place.flow, group, number, by])?;
        }
    }
    Ok(())
}

/// Moves so many entries of a flow from state to state; those of their groups are another matter.
pub(crate) fn shift_many(tx: &Tx<'_>, flow: &str, from: EntryState, to: EntryState, count: i64) -> Done<()> {
    count_more(tx, flow, from, -count)?;
    count_more(tx, flow, to, count)
}

fn count_more(tx: &Tx<'_>, flow: &str, of: EntryState, by: i64) -> Done<()> {
    tx.sql
        .prepare_cached(
            "INSERT INTO counts (flow, state, n) VALUES (?1, ?2, ?3)
             ON CONFLICT (flow, state) DO UPDATE SET n = n + excluded.n",
        )?
        .execute(params![flow, state::number(of), by])?;
    Ok(())
}

pub(crate) fn counts(sql: &Connection) -> Done<Counts> {
    let mut statement = sql.prepare_cached(
        "SELECT flow, state, n,
                (SELECT min(first_failed) FROM entries e WHERE e.flow = c.flow AND e.state = c.state)
         FROM counts c WHERE n > 0 ORDER BY flow, state",
    )?;
    let mut rows = statement.query([])?;
    let mut states = Vec::new();
    while let Some(row) = rows.next()? {
        states.push(StateCount {
            flow: row.get(0)?,
            state: state::of(row.get(1)?)?,
            count: row.get(2)?,
            oldest_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_millis),
        });
    }
    Ok(Counts { states })
}

pub(crate) fn count(sql: &Connection, flow: &str, of: EntryState) -> Done<u64> {
    let count: Option<i64> = sql
        .prepare_cached("SELECT max(n) FROM counts WHERE flow = ?1 AND state = ?2")?
        .query_row(params![flow, state::number(of)], |row| row.get(0))?;
    Ok(count.unwrap_or(0).max(0).cast_unsigned())
}

/// Groups that have unresolved entries, the largest first.
pub(crate) fn groups(sql: &Connection, flow: Option<&str>, limit: usize) -> Done<Vec<Group>> {
    let unresolved = state::UNRESOLVED.map(|state| state::number(state).to_string()).join(",");
    let mut statement = sql.prepare_cached(&format!(
        "SELECT g.flow, g.grp, g.class, g.reason, g.type, g.example, g.first_seen, g.last_seen, sum(c.n) AS open
         FROM group_counts c JOIN failure_groups g USING (flow, grp)
         WHERE c.n > 0 AND c.state IN ({unresolved}) AND (?1 IS NULL OR c.flow = ?1)
         GROUP BY c.flow, c.grp ORDER BY open DESC, g.last_seen DESC, g.grp LIMIT ?2"
    ))?;
    let mut by_state =
        sql.prepare_cached("SELECT state, n FROM group_counts WHERE flow = ?1 AND grp = ?2 AND n > 0")?;
    let mut rows = statement.query(params![flow, limit.min(10_000)])?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let (flow, id): (String, String) = (row.get(0)?, row.get(1)?);
        let mut counts = std::collections::BTreeMap::new();
        let mut states = by_state.query(params![flow, id])?;
        while let Some(line) = states.next()? {
            counts.insert(state::of(line.get(0)?)?.as_str().to_owned(), line.get(1)?);
        }
        groups.push(Group {
            class: parsed::<Class>(&row.get::<_, String>(2)?)?,
            reason: parsed(&row.get::<_, String>(3)?)?,
            kind: row.get(4)?,
            example: row.get(5)?,
            first_seen_at: Timestamp::from_millis(row.get(6)?),
            last_seen_at: Timestamp::from_millis(row.get(7)?),
            id,
            flow,
            counts,
        });
    }
    Ok(groups)
}

/// A stored name read back.
pub(crate) fn parsed<T: std::str::FromStr>(text: &str) -> Done<T> {
    text.parse().map_err(|_| Fault::broken(format!("`{text}` stands where a known name is expected")))
}
