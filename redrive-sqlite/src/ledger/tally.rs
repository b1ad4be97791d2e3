//! Counts that are kept, not counted: by flow and state, by failure group.
//!
//! Entries of a batch are mostly of one flow, in a few states and groups: what a transaction adds to their counts is
//! gathered, and written down once at its end.

use redrive_core::{Class, Timestamp};
use redrive_engine::port::{Counts, EntryState, Group, Record, StateCount};
use rusqlite::{Connection, params};

use super::state;
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// How many of the last ones are looked through for one of the same flow and group.
const LOOKED_AT: usize = 32;

/// What is added to the counts of a flow, or of one of its groups.
#[derive(Debug)]
pub(crate) struct Tally {
    flow: String,
    group: Option<String>,
    /// Entries more or less, by state.
    states: [i64; EntryState::ALL.len()],
    /// The group's last failure, and its first and last time.
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    class: &'static str,
    reason: String,
    kind: Option<String>,
    example: String,
    first: i64,
    last: i64,
}

impl Tally {
    /// The one of a flow or group among these, of which there may be more than one: they are added up.
    fn of<'t>(all: &'t mut Vec<Self>, from: usize, flow: &str, group: Option<&str>) -> Option<&'t mut Self> {
        let from = from.max(all.len().saturating_sub(LOOKED_AT));
        let is_it = |one: &Self| one.flow == flow && one.group.as_deref() == group;
        let place = all[from..].iter().position(is_it).map(|place| from + place);
        let place = place.unwrap_or_else(|| {
            let (flow, group) = (flow.to_owned(), group.map(str::to_owned));
            all.push(Self { flow, group, states: Default::default(), seen: None });
            all.len() - 1
        });
        all.get_mut(place)
    }

    pub(crate) fn write(&self, sql: &Connection) -> rusqlite::Result<()> {
        let Self { flow, group, states, seen } = self;
        for (number, by) in (0_i64..).zip(states).filter(|(_, by)| **by != 0) {
            match group {
                None => sql.prepare_cached(MORE)?.execute(params![flow, number, by])?,
                Some(group) => {
                    sql.prepare_cached(MORE_OF_GROUP)?.execute(params![flow, group, number, by])?
                }
            };
        }
        if let Some(Seen { class, reason, kind, example, first, last }) = seen {
            sql.prepare_cached(SEE)?
                .execute(params![flow, group, class, reason, kind, example, first, last])?;
        }
        Ok(())
    }
}

const MORE: &str = "INSERT INTO counts (flow, state, n) VALUES (?1, ?2, ?3)
     ON CONFLICT (flow, state) DO UPDATE SET n = n + excluded.n";
const MORE_OF_GROUP: &str = "INSERT INTO group_counts (flow, grp, state, n) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (flow, grp, state) DO UPDATE SET n = n + excluded.n";
const SEE: &str =
    "INSERT INTO failure_groups (flow, grp, class, reason, type, example, first_seen, last_seen)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
     ON CONFLICT (flow, grp) DO UPDATE SET example = excluded.example,
         first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)";

/// Where an entry is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) flow: &'a str,
    pub(crate) state: EntryState,
    pub(crate) group: Option<&'a str>,
}

/// Moves one entry from place to place.
pub(crate) fn shift(tx: &mut Tx<'_>, from: Option<Place<'_>>, to: Option<Place<'_>>) {
    if from == to {
        return;
    }
    for (place, by) in [(from, -1_i64), (to, 1)] {
        let Some(Place { flow, state, group }) = place else { continue };
        let number = state::place(state);
        let since = tx.tallied();
        for of in [Some(None), group.map(Some)].into_iter().flatten() {
            if let Some(tally) = Tally::of(&mut tx.tallies, since, flow, of) {
                tally.states[number] += by;
            }
        }
    }
}

/// An entry is gone. It is written down at once, since whoever removes it looks whether it was the last one of its group.
pub(crate) fn gone(tx: &Tx<'_>, from: Place<'_>) -> Done<()> {
    let number = state::number(from.state);
    tx.sql.prepare_cached(MORE)?.execute(params![from.flow, number, -1])?;
    if let Some(group) = from.group {
        tx.sql.prepare_cached(MORE_OF_GROUP)?.execute(params![from.flow, group, number, -1])?;
    }
    Ok(())
}

/// A group has failed once more; `first` is when the entry failed first.
pub(crate) fn see(tx: &mut Tx<'_>, record: &Record, first: i64) {
    let Some(attempt) = &record.attempt else { return };
    let (example, last) =
        (attempt.chain.first().map_or("", |link| link.message.as_str()), record.at.as_millis());
    let since = tx.tallied();
    let Some(tally) = Tally::of(&mut tx.tallies, since, &record.flow, Some(&attempt.group.to_string()))
    else {
        return;
    };
    match &mut tally.seen {
        Some(seen) => {
            seen.first = seen.first.min(first);
            seen.last = seen.last.max(last);
            if seen.example != example {
                example.clone_into(&mut seen.example);
            }
        }
        none => {
            *none = Some(Seen {
                class: attempt.class.as_str(),
                reason: attempt.reason.as_str().to_owned(),
                kind: record.message_type.clone(),
                example: example.to_owned(),
                first,
                last,
            });
        }
    }
}

/// Moves so many entries of a flow from state to state; those of their groups are another matter.
pub(crate) fn shift_many(tx: &Tx<'_>, flow: &str, from: EntryState, to: EntryState, count: i64) -> Done<()> {
    count_more(tx, flow, from, -count)?;
    count_more(tx, flow, to, count)
}

fn count_more(tx: &Tx<'_>, flow: &str, of: EntryState, by: i64) -> Done<()> {
    tx.sql.prepare_cached(MORE)?.execute(params![flow, state::number(of), by])?;
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
