//! Entries as they are shown.

use std::collections::BTreeMap;

use bytes::Bytes;
use redrive_core::{ErrorLink, Timestamp};
use redrive_engine::port::{
    Entry, EntryId, EntryState, ErrorShown, HistoryLine, MessageShown, Payload, Refusal, SafeToReplay,
    SourceRef, SourceShown,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::apart::{Body, place};
use super::record::entry_id;
use super::tally::parsed;
use super::{lanes, processed, state};
use crate::codec;
use crate::fault::{Done, Fault};

pub(crate) const COLUMNS: &str = "eid, last_failed, id, flow, state, message, mid, message_key, type, content_type, size, \
     attempts, first_failed, due, class, reason, grp, http_status, owner, entity, tenant, correlation, causation, \
     parent, replays, held_behind, handler_version, source_kind, source_name, partition, position, error_type, \
     error_message, because, chain, headers, lane, mark_expired, bodiless, copy_kind, copy_name, \
     copy_partition, copy_position";

/// One entry, by its own id or its message's; of several entries of one message the newest.
pub(crate) fn find(sql: &Connection, id: &str) -> Done<Option<Entry>> {
    let Some(eid) = row_of(sql, id)? else { return Ok(None) };
    let found = sql
        .prepare_cached(&format!("SELECT {COLUMNS} FROM entries WHERE eid = ?1"))?
        .query_row([eid], |row| Ok(read(sql, row)))
        .optional()?;
    found.transpose()
}

/// The row of an entry, by its own id or its message's.
pub(crate) fn row_of(sql: &Connection, id: &str) -> Done<Option<i64>> {
    if let Ok(id) = id.parse::<EntryId>() {
        let found = row_of_entry(sql, id)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    let found = sql
        .prepare_cached("SELECT max(eid) FROM entries WHERE mid = ?1")?
        .query_row([id], |row| row.get::<_, Option<i64>>(0))?;
    Ok(found)
}

pub(crate) fn row_of_entry(sql: &Connection, id: EntryId) -> Done<Option<i64>> {
    let found = sql
        .prepare_cached("SELECT eid FROM entries WHERE id = ?1")?
        .query_row([&id.as_bytes()[..]], |row| row.get(0))
        .optional()?;
    Ok(found)
}

pub(crate) fn history(sql: &Connection, id: EntryId) -> Done<Vec<HistoryLine>> {
    let mut statement = sql.prepare_cached(
        "SELECT line FROM history WHERE entry = (SELECT eid FROM entries WHERE id = ?1) ORDER BY n",
    )?;
    let mut rows = statement.query([&id.as_bytes()[..]])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let line = serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        lines.push(
            line.map_err(|error| Fault::broken(format!("a line of the history cannot be read: {error}")))?,
        );
    }
    Ok(lines)
}

pub(crate) fn payload(sql: &Connection, id: EntryId) -> Done<Option<Payload>> {
    let found = sql
        .prepare_cached(
            "SELECT m.body, m.content_type, e.bodiless, e.eid FROM entries e JOIN messages m ON m.id = e.message
             WHERE e.id = ?1 AND e.bodiless <> 1",
        )?
        .query_row([&id.as_bytes()[..]], |row| {
            let body: Option<Vec<u8>> = row.get(0)?;
            let payload = Payload { body: body.map(Bytes::from), content_type: row.get(1)? };
            Ok((payload, Body::of(row.get(2)?), row.get(3)?))
        })
        .optional()?;
    let Some((payload, body, eid)) = found else { return Ok(None) };
    match body.why_not(place::of_copy(sql, eid)?.as_ref()) {
        Some(why) => Err(Refusal::State(why).into()),
        None => Ok(Some(payload)),
    }
}

/// An entry from a row of [`COLUMNS`].
pub(crate) fn read(sql: &Connection, row: &Row<'_>) -> Done<Entry> {
    let id = entry_id(row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?)?;
    let standing = state::of(row.get(4)?)?;
    let attempts: u32 = row.get(11)?;
    let mid: String = row.get(6)?;
    let flow: String = row.get(3)?;
    let held_behind = match standing {
        EntryState::Held => {
            lanes::held_behind(sql, &flow, row.get::<_, Option<String>>(36)?.as_deref(), row.get(25)?)?
        }
        _ => None,
    };
    let chain: Vec<ErrorLink> =
        serde_json::from_str(row.get_ref(34)?.as_str().map_err(rusqlite::Error::from)?)
            .map_err(|error| Fault::broken(format!("the errors of entry {id} cannot be read: {error}")))?;
    let kept = row.get::<_, Option<i64>>(5)?.is_some();
    let place = if row.get::<_, Option<String>>(39)?.is_some() { Some(place::read(row, 39)?) } else { None };
    let body = Kept { row: kept, body: Body::of(row.get(38)?), place };
    let safe_to_replay = safety(sql, standing, &body, attempts, &mid, held_behind.as_deref(), row.get(37)?)?;
    Ok(Entry {
        id,
        flow,
        state: standing,
        message: MessageShown {
            id: mid,
            key: row.get(7)?,
            kind: row.get(8)?,
            content_type: row.get(9)?,
            size: row.get(10)?,
            headers: headers(row)?,
        },
        source: SourceShown {
            kind: row.get(27)?,
            name: row.get(28)?,
            partition: row.get(29)?,
            offset: row.get(30)?,
            delivery: None,
        },
        attempts,
        first_failed_at: Timestamp::from_millis(row.get(12)?),
        last_failed_at: Timestamp::from_millis(row.get(1)?),
        due_at: row
            .get::<_, Option<i64>>(13)?
            .filter(|_| matches!(standing, EntryState::Waiting | EntryState::Replaying))
            .map(Timestamp::from_millis),
        class: parsed(&row.get::<_, String>(14)?)?,
        reason: parsed(&row.get::<_, String>(15)?)?,
        group: row.get::<_, Option<String>>(16)?.unwrap_or_default(),
        error: ErrorShown { kind: row.get(31)?, message: row.get(32)?, chain },
        http_status: row.get(17)?,
        because: row.get(33)?,
        handler_version: row.get(26)?,
        owner: row.get(18)?,
        entity: row.get(19)?,
        tenant: row.get(20)?,
        correlation_id: row.get(21)?,
        causation_id: row.get(22)?,
        parent_id: row.get::<_, Option<Vec<u8>>>(23)?.map(|bytes| entry_id(&bytes)).transpose()?,
        replays: row.get(24)?,
        held_behind,
        followers: followers(sql, id)?,
        safe_to_replay,
    })
}

fn headers(row: &Row<'_>) -> Done<BTreeMap<String, String>> {
    let Some(blob) = row.get::<_, Option<Vec<u8>>>(35)? else { return Ok(BTreeMap::new()) };
    let headers = codec::decode(&Bytes::from(blob))
        .ok_or_else(|| Fault::broken("the headers of an entry cannot be read"))?;
    Ok(headers
        .iter()
        .map(|header| {
            let value = header.value.as_deref().unwrap_or_default();
            (header.name.as_str().to_owned(), super::record::shown_key(value))
        })
        .collect())
}

fn followers(sql: &Connection, id: EntryId) -> Done<u64> {
    let count: i64 = sql
        .prepare_cached("SELECT coalesce(sum(count), 0) FROM lanes WHERE head = ?1")?
        .query_row([&id.as_bytes()[..]], |row| row.get(0))?;
    Ok(count.max(0).cast_unsigned())
}

/// What of a message is at hand.
struct Kept {
    /// Whether its row is there.
    row: bool,
    body: Body,
    /// Where its copy lies at the broker.
    place: Option<SourceRef>,
}

impl Kept {
    /// Why it cannot be sent; nothing when it can. What lies at the broker is fetched when it is sent.
    fn why_not(&self) -> Option<String> {
        match self.body {
            Body::Here if !self.row => Some("its body is not kept here".to_owned()),
            Body::AtBroker => None,
            body => body.why_not(self.place.as_ref()),
        }
    }

    /// Where its body is, as part of a sentence.
    fn is_kept(&self) -> String {
        match (self.body, &self.place) {
            (Body::AtBroker, Some(place)) => format!("its body lies at {place}"),
            _ => "its body is kept".to_owned(),
        }
    }
}

fn safety(
    sql: &Connection,
    standing: EntryState,
    kept: &Kept,
    attempts: u32,
    mid: &str,
    held_behind: Option<&str>,
    mark_expired: bool,
) -> Done<SafeToReplay> {
    let (verdict, why) = match standing {
        EntryState::Recovered => ("no", "it has succeeded".to_owned()),
        EntryState::Rejected => ("no", "it was rejected to the business".to_owned()),
        EntryState::Waiting => ("no", "a retry is due by itself; retry-now sends it at once".to_owned()),
        EntryState::Replaying => ("no", "a replay has sent it; its outcome is not known yet".to_owned()),
        EntryState::Held => {
            let head = held_behind.unwrap_or("the head of its lane");
            ("no", format!("it is held behind {head} and goes by itself when that is done"))
        }
        EntryState::Discarded | EntryState::Archived => ("no", format!("it is {standing}; restore it first")),
        EntryState::Dead | EntryState::Parked => {
            if let Some(why) = kept.why_not() {
                return Ok(SafeToReplay { verdict: "no".to_owned(), why });
            }
            let marks = processed::of(sql, mid)?;
            if marks.whole {
                ("no", "the handler has marked it as processed".to_owned())
            } else if mark_expired {
                let why = "a mark of what was done for it has expired: done again, it is done twice unless the handler \
                           recognises its idempotency key";
                ("unknown", why.to_owned())
            } else if attempts == 0 {
                ("yes", format!("it was never attempted, and {}", kept.is_kept()))
            } else {
                let why = format!(
                    "{} and no handler has marked it as processed; check that an attempt which failed left nothing \
                     half done, or that the handler may run twice",
                    kept.is_kept()
                );
                ("unknown", why)
            }
        }
    };
    Ok(SafeToReplay { verdict: verdict.to_owned(), why })
}
