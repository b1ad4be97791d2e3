//! Bodies that are left to a broker apart: where they lie, and how they come here.
//!
//! A body is dropped here only when the place of a copy that carries it is known, and never from a row that can be handed
//! out. Whatever makes a row deliverable asks for its body first.

use bytes::Bytes;
use redrive_core::Timestamp;
use redrive_core::fingerprint::PayloadHash;
use redrive_engine::bring_bodies;
use redrive_engine::port::{
    EntryId, EntryState, Fetched, HistoryLine, Payload, Pointer, PortError, Refusal, SourceRef,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::place;
use crate::fault::Done;
use crate::ledger::record::{self, Stored, entry_id};
use crate::ledger::{entry, state};
use crate::store::Store;
use crate::tx::Tx;

/// Entries that are handed out at once.
const MOST: usize = 10_000;

/// What of an entry's body is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// It is here, or the message is a tombstone.
    Here,
    /// It could not be read where it lies.
    Unread,
    /// It lies in the broker's copy.
    AtBroker,
    /// It lay in the broker's copy, and was gone when it was asked for.
    Gone,
}

impl Body {
    pub(crate) const fn of(number: i64) -> Self {
        match number {
            0 => Self::Here,
            2 => Self::AtBroker,
            3 => Self::Gone,
            _ => Self::Unread,
        }
    }

    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Here => 0,
            Self::Unread => 1,
            Self::AtBroker => 2,
            Self::Gone => 3,
        }
    }

    /// Why what is here cannot be sent; nothing when it can.
    pub(crate) fn why_not(self, place: Option<&SourceRef>) -> Option<String> {
        let place = place.map_or_else(|| "its broker".to_owned(), ToString::to_string);
        match self {
            Self::Here => None,
            Self::Unread => Some(
                "its body lies elsewhere and could not be read: what would be sent is not the message"
                    .to_owned(),
            ),
            Self::AtBroker => Some(format!(
                "its body lies at {place}, and is read there by an instance that runs its flow: start one, and try again"
            )),
            Self::Gone => Some(format!("its body is gone: it lay at {place}")),
        }
    }
}

/// Why the body of an entry that is stored cannot be sent; nothing when it can.
pub(crate) fn why_not(sql: &Connection, stored: &Stored) -> Done<Option<String>> {
    if stored.body == Body::Here {
        return Ok(None);
    }
    Ok(stored.body.why_not(place::of_copy(sql, stored.eid)?.as_ref()))
}

const COLUMNS: &str = "id, flow, size, copy_kind, copy_name, copy_partition, copy_position";

fn read(row: &Row<'_>) -> Done<Pointer> {
    Ok(Pointer {
        entry: entry_id(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?,
        flow: row.get(1)?,
        size: row.get(2)?,
        place: place::read(row, 3)?,
    })
}

/// Of these rows, those whose bodies are not here but may be fetched. What was gone is looked for once more: whoever said so
/// may have been wrong.
pub(crate) fn pointers(sql: &Connection, rows: &[i64]) -> Done<Vec<Pointer>> {
    let mut statement = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM entries
         WHERE eid = ?1 AND bodiless IN (2, 3) AND message IS NOT NULL AND copy_kind IS NOT NULL"
    ))?;
    let mut found = Vec::new();
    for row in rows {
        let pointer = statement.query_row([row], |row| Ok(read(row))).optional()?;
        found.extend(pointer.transpose()?);
    }
    Ok(found)
}

/// The rows of entries, as far as they are there.
pub(crate) fn rows_of(sql: &Connection, entries: &[EntryId]) -> Done<Vec<i64>> {
    entries.iter().filter_map(|id| entry::row_of_entry(sql, *id).transpose()).collect()
}

/// Of these rows, those that wait or are held again once they are restored.
pub(crate) fn to_run_again(sql: &Connection, rows: &[i64]) -> Done<Vec<i64>> {
    let mut statement = sql.prepare_cached("SELECT 1 FROM entries WHERE eid = ?1 AND earlier IN (?2, ?3)")?;
    let (waiting, held) = (state::number(EntryState::Waiting), state::number(EntryState::Held));
    let mut found = Vec::new();
    for row in rows {
        if statement.exists(params![row, waiting, held])? {
            found.push(*row);
        }
    }
    Ok(found)
}

/// The lowest place of each partition in which bodies lie. Each is found by one step into the index.
pub(crate) fn lowest_pointers(sql: &Connection, flow: &str) -> Done<Vec<SourceRef>> {
    let mut statement = sql.prepare_cached(
        "SELECT copy_kind, copy_name, copy_partition, copy_position FROM entries INDEXED BY entries_pointers
         WHERE bodiless = 2 AND message IS NOT NULL AND flow = ?1 AND (copy_name, copy_partition) > (?2, ?3)
         ORDER BY copy_name, copy_partition, copy_position LIMIT 1",
    )?;
    let mut lowest: Vec<SourceRef> = Vec::new();
    loop {
        let (name, partition) = lowest
            .last()
            .map_or(("", i64::MIN), |place| (&place.name, place.partition.map_or(i64::MIN, i64::from)));
        let next =
            statement.query_row(params![flow, name, partition], |row| place::read(row, 0)).optional()?;
        match next {
            Some(next) if lowest.len() < MOST => lowest.push(next),
            _ => return Ok(lowest),
        }
    }
}

pub(crate) fn pointers_before(
    sql: &Connection,
    flow: &str,
    before: &SourceRef,
    limit: usize,
) -> Done<Vec<Pointer>> {
    let mut statement = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM entries INDEXED BY entries_pointers
         WHERE bodiless = 2 AND message IS NOT NULL AND flow = ?1 AND copy_name = ?2 AND copy_partition = ?3
           AND copy_position < ?4
         ORDER BY copy_position LIMIT ?5"
    ))?;
    let mut rows = statement.query(params![
        flow,
        &*before.name,
        before.partition,
        before.offset.unwrap_or(i64::MAX),
        limit.min(MOST)
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// A body that was fetched, with its hash.
struct Brought {
    fetched: Fetched,
    hash: Option<PayloadHash>,
}

pub(crate) async fn keep_bodies(store: &Store, fetched: Vec<Fetched>) -> Result<u64, PortError> {
    // Hashes are made here, not on the writer's thread.
    let brought: Vec<Brought> = fetched
        .into_iter()
        .map(|fetched| Brought { hash: fetched.body.as_deref().map(PayloadHash::of), fetched })
        .collect();
    let now = store.now();
    let write = move |tx: &mut Tx<'_>| {
        let mut gone = 0;
        for one in &brought {
            gone += u64::from(keep(tx, one, now)?);
        }
        Ok(gone)
    };
    store.inner.writer.run(write).await
}

/// Answers whether the body was found to be gone just now.
fn keep(tx: &mut Tx<'_>, brought: &Brought, now: Timestamp) -> Done<bool> {
    let Brought { fetched, hash } = brought;
    let Some(stored) = Stored::by_id(tx, fetched.entry)? else { return Ok(false) };
    let pointed = matches!(stored.body, Body::AtBroker | Body::Gone);
    // It may have been moved since, or have come to an end.
    let (true, Some(row)) = (pointed, stored.message) else { return Ok(false) };
    if place::of_copy(tx.sql, stored.eid)?.as_ref() != Some(&fetched.place) {
        return Ok(false);
    }
    // Another message may lie there, since the topic was made anew.
    let own = is_known_by(tx, stored.eid, hash.as_ref())?;
    if own {
        put(tx, stored.eid, row, fetched.body.as_deref())?;
    } else if stored.body != Body::Gone {
        set(tx, stored.eid, Body::Gone)?;
        let because = Body::Gone.why_not(Some(&fetched.place));
        let line = HistoryLine { because, ..HistoryLine::new(now, "body gone") };
        record::add_line(tx, stored.eid, &line)?;
        return Ok(true);
    }
    Ok(false)
}

pub(super) fn set(tx: &Tx<'_>, eid: i64, body: Body) -> Done<()> {
    tx.sql
        .prepare_cached("UPDATE entries SET bodiless = ?2 WHERE eid = ?1")?
        .execute(params![eid, body.number()])?;
    Ok(())
}

/// Puts the body of an entry into its row.
pub(super) fn put(tx: &Tx<'_>, eid: i64, row: i64, body: Option<&[u8]>) -> Done<()> {
    let size = body.map_or(0, <[u8]>::len);
    tx.sql
        .prepare_cached("UPDATE messages SET body = ?2, size = ?3 WHERE id = ?1")?
        .execute(params![row, body, size])?;
    set(tx, eid, Body::Here)
}

/// Whether a body of this hash is the entry's own.
pub(super) fn is_known_by(tx: &Tx<'_>, eid: i64, hash: Option<&PayloadHash>) -> Done<bool> {
    let Some(hash) = hash else { return Ok(false) };
    Ok(tx
        .sql
        .prepare_cached("SELECT 1 FROM entries WHERE eid = ?1 AND payload_hash = ?2")?
        .exists(params![eid, &hash.as_bytes()[..]])?)
}

/// The body of an entry is not here, since it was left to the broker, whose copy carries it and lies where the entry says.
pub(super) fn left(tx: &Tx<'_>, entry: EntryId) -> Done<()> {
    tx.sql
        .prepare_cached("UPDATE entries SET bodiless = ?2 WHERE id = ?1")?
        .execute(params![&entry.as_bytes()[..], Body::AtBroker.number()])?;
    Ok(())
}

/// Leaves the body of an entry to the broker, whose copy carries it and lies where the entry says. Nothing happens where the
/// row can be handed out by now or is kept for its lane, and where what is fetched could not be known again by its hash.
pub(super) fn leave(tx: &Tx<'_>, entry: EntryId, hash: Option<&PayloadHash>) -> Done<()> {
    let Some(stored) = Stored::by_id(tx, entry)? else { return Ok(()) };
    let rests = matches!(stored.state, EntryState::Waiting | EntryState::Dead | EntryState::Parked);
    let (true, Body::Here, Some(row), Some(hash)) = (rests, stored.body, stored.message, hash) else {
        return Ok(());
    };
    // A tombstone has nothing that could be left.
    let left = tx
        .sql
        .prepare_cached(
            "UPDATE messages SET body = NULL, size = 0 WHERE id = ?1 AND due IS NULL AND body IS NOT NULL
             AND EXISTS (SELECT 1 FROM entries WHERE eid = ?2 AND payload_hash = ?3 AND copy_kind IS NOT NULL)",
        )?
        .execute(params![row, stored.eid, &hash.as_bytes()[..]])?;
    if left > 0 { set(tx, stored.eid, Body::AtBroker) } else { Ok(()) }
}

/// Fetches the bodies of these rows, as far as their flows' brokers are at hand: those of the others are refused by name
/// where they are asked for.
pub(crate) async fn bring(store: &Store, rows: Vec<i64>) -> Result<(), PortError> {
    let mut wanted = store.inner.readers.run(move |sql| pointers(sql, &rows)).await?;
    wanted.sort_by(|one, other| key(one).cmp(&key(other)));
    for of_flow in wanted.chunk_by(|one, next| one.flow == next.flow) {
        let Some(broker) = of_flow.first().and_then(|one| store.inner.brokers.of(&one.flow)) else {
            continue;
        };
        bring_bodies(store, &*broker, of_flow).await?;
    }
    Ok(())
}

/// Neighbours are fetched together.
fn key(pointer: &Pointer) -> (&str, &str, Option<i32>, Option<i64>) {
    (&pointer.flow, &pointer.place.name, pointer.place.partition, pointer.place.offset)
}

/// The body of an entry as it lies at its broker; nothing when it does not, or when nobody here can ask that broker.
pub(crate) async fn fetch(store: &Store, id: EntryId) -> Result<Option<Payload>, PortError> {
    let find = move |sql: &Connection| {
        let Some(eid) = entry::row_of_entry(sql, id)? else { return Ok(None) };
        let Some(pointer) = pointers(sql, &[eid])?.pop() else { return Ok(None) };
        let known = sql
            .prepare_cached("SELECT payload_hash, content_type FROM entries WHERE eid = ?1")?
            .query_row([eid], |row| Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get(1)?)))?;
        Ok(Some((pointer, known)))
    };
    let Some((pointer, (hash, content_type))) = store.inner.readers.run(find).await? else { return Ok(None) };
    let Some(broker) = store.inner.brokers.of(&pointer.flow) else { return Ok(None) };
    let places = std::slice::from_ref(&pointer.place);
    let body = broker.fetch_all(places).await?.pop().flatten().and_then(|message| message.body);
    let own = |body: &Bytes| hash.as_deref() == Some(&PayloadHash::of(body).as_bytes()[..]);
    match body.filter(own) {
        Some(body) => Ok(Some(Payload { body: Some(body), content_type })),
        None => {
            // It is noted, so that the entry says so from now on.
            let fetched = Fetched { entry: pointer.entry, place: pointer.place.clone(), body: None };
            keep_bodies(store, vec![fetched]).await?;
            let why = Body::Gone.why_not(Some(&pointer.place)).unwrap_or_default();
            Err(Refusal::State(why).into())
        }
    }
}
