//! An edited copy: a new message that knows which entry it came from.

use redrive_core::Timestamp;
use redrive_engine::port::{Actor, NewMessage, PortError, Refusal};
use rusqlite::OptionalExtension;

use super::record::{self, Stored};
use super::{audit, deeds, entry};
use crate::fault::Done;
use crate::publish::{self, Insert};
use crate::store::Store;
use crate::tx::Tx;

pub(crate) async fn copy(
    store: &Store,
    id: &str,
    edited: NewMessage,
    actor: &Actor,
    now: Timestamp,
) -> Result<String, PortError> {
    let (id, actor) = (id.to_owned(), actor.clone());
    store.inner.writer.run(move |tx| publish_copy(tx, &id, &edited, &actor, now)).await
}

fn publish_copy(
    tx: &mut Tx<'_>,
    id: &str,
    edited: &NewMessage,
    actor: &Actor,
    now: Timestamp,
) -> Done<String> {
    let missing = || Refusal::NotFound { what: "entry", name: id.to_owned() };
    let eid = entry::row_of(tx.sql, id)?.ok_or_else(missing)?;
    let stored = Stored::by_eid(tx, eid)?.ok_or_else(missing)?;
    let name: Option<String> = tx
        .sql
        .prepare_cached("SELECT source_name FROM entries WHERE eid = ?1 AND source_kind = 'embedded'")?
        .query_row([eid], |row| row.get(0))
        .optional()?;
    let name = name.ok_or_else(|| {
        Refusal::State("its source is no queue of this file: publish the copy there".to_owned())
    })?;
    let queue = tx.queue(&name)?;
    let meta = tx.meta(queue)?;
    let new = publish::publish_one(
        tx,
        &mut Insert::new(tx)?,
        queue,
        &name,
        meta,
        edited,
        Some(stored.id.as_bytes()),
    )??;
    record::add_line(tx, eid, &deeds::person_line("copy", actor, None, now))?;
    audit::add(tx, actor, "copy", &format!("{} as {new}", stored.id.hyphenated()), 1, now)?;
    Ok(new)
}
