//! Places at a broker apart: where a message was read first, and where its copy lies.

use redrive_core::headers::{Origin, Trail};
use redrive_core::{Text, Timestamp};
use redrive_engine::port::{Delivery, EntryId, EntryState, Keeper, ReadAt, SourceRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::keeper_of;
use crate::fault::Done;
use crate::ledger::record::entry_id;
use crate::ledger::state;

/// Where a message was read first.
#[derive(Debug, Clone)]
pub(crate) struct FirstRead {
    pub(crate) source: SourceRef,
    /// When it was published there; nothing when the place has no number, or is only known by hearsay.
    pub(crate) published: Option<Timestamp>,
}

impl FirstRead {
    pub(crate) fn of(delivery: &Delivery) -> Self {
        let source = delivery.source.clone();
        if delivery.trail.entry_id.is_none() {
            let published = source.offset.map(|_| delivery.ready_at);
            return Self { source, published };
        }
        // A copy that came back: it carries where it came from, and nobody asks for that place any more.
        let origin = &delivery.trail.origin;
        let source = match &origin.topic {
            Some(topic) => SourceRef {
                kind: source.kind,
                name: topic.as_str().into(),
                partition: origin.partition,
                offset: origin.offset,
            },
            None => source,
        };
        Self { source, published: None }
    }

    /// The trail with the place in it, unless it has one.
    pub(crate) fn tell(&self, trail: &mut Trail) {
        if trail.origin.topic.is_none() && self.published.is_some() {
            trail.origin = Origin {
                topic: Some(Text::from(&*self.source.name)),
                partition: self.source.partition,
                offset: self.source.offset,
                timestamp: self.published,
            };
        }
    }
}

/// Where the message of an entry was read first; nothing when that was a queue of this file.
pub(crate) fn origin_of(sql: &Connection, eid: i64) -> Done<Option<SourceRef>> {
    let found = sql
        .prepare_cached("SELECT source_kind, source_name, partition, position FROM entries WHERE eid = ?1")?
        .query_row([eid], |row| read(row, 0))
        .optional()?;
    Ok(found.filter(|source| !source.kind.is_empty()))
}

/// Where the broker's copy of an entry lies, when that is known.
pub(crate) fn of_copy(sql: &Connection, eid: i64) -> Done<Option<SourceRef>> {
    Ok(sql
        .prepare_cached(
            "SELECT copy_kind, copy_name, copy_partition, copy_position FROM entries
             WHERE eid = ?1 AND copy_kind IS NOT NULL",
        )?
        .query_row([eid], |row| read(row, 0))
        .optional()?)
}

/// A place from four columns.
pub(crate) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<SourceRef> {
    Ok(SourceRef {
        kind: row.get(first)?,
        name: row.get(first + 1)?,
        partition: row.get(first + 2)?,
        offset: row.get(first + 3)?,
    })
}

/// What was written down about a message before it was read at its place again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The broker did not learn of it: it runs again under this entry.
    Again(EntryId),
    /// The ledger has it, or it has come to an end.
    Known,
}

/// What is known of the message that was read at a place.
pub(crate) fn before(sql: &Connection, flow: &str, read_at: &ReadAt) -> Done<Option<Before>> {
    let ReadAt { source, published_at } = read_at;
    let Some(position) = source.offset else { return Ok(None) };
    let found: Option<(Vec<u8>, i64, Option<i64>)> = sql
        .prepare_cached(
            "SELECT id, state, keeper FROM entries INDEXED BY entries_place
             WHERE flow = ?1 AND source_name = ?2 AND partition IS ?3 AND position = ?4 AND published = ?5
               AND source_kind = ?6
             ORDER BY eid DESC LIMIT 1",
        )?
        .query_row(
            params![flow, &*source.name, source.partition, position, published_at.as_millis(), &*source.kind],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let Some((id, standing, keeper)) = found else { return Ok(None) };
    let at_the_broker = keeper.map(keeper_of) == Some(Keeper::Broker);
    let open = matches!(state::of(standing)?, EntryState::Waiting | EntryState::Dead | EntryState::Parked);
    Ok(Some(if at_the_broker && open { Before::Again(entry_id(&id)?) } else { Before::Known }))
}
