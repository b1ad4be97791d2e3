//! An edited copy: a new message that knows which entry it came from.

use base64::Engine as _;
use bytes::Bytes;
use redrive_core::{Headers, Message, Text, Timestamp};
use redrive_engine::port::{Actor, NewMessage, PortError, Refusal, home_of};
use rusqlite::{OptionalExtension, Row};

use super::record::{self, Stored};
use super::{audit, deeds, entry};
use crate::codec;
use crate::fault::{Done, Fault};
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
    store.inner.writer.run(move |tx| publish_copy(tx, &id, edited, &actor, now)).await
}

fn publish_copy(
    tx: &mut Tx<'_>,
    id: &str,
    edited: NewMessage,
    actor: &Actor,
    now: Timestamp,
) -> Done<String> {
    let missing = || Refusal::NotFound { what: "entry", name: id.to_owned() };
    let eid = entry::row_of(tx.sql, id)?.ok_or_else(missing)?;
    let stored = Stored::by_eid(tx, eid)?.ok_or_else(missing)?;
    let (name, queue) = if stored.keeper.is_some() {
        (home_of(&stored.flow), tx.home(&stored.flow)?)
    } else {
        let name: Option<String> = tx
            .sql
            .prepare_cached("SELECT source_name FROM entries WHERE eid = ?1 AND source_kind = 'embedded'")?
            .query_row([eid], |row| row.get(0))
            .optional()?;
        let name = name.ok_or_else(|| {
            Refusal::State("its source is no queue of this file: publish the copy there".to_owned())
        })?;
        let queue = tx.queue(&name)?;
        (name, queue)
    };
    let copy = edited.as_copy_of(parent(tx, &stored)?, &tx.rules(queue));
    let meta = tx.meta(queue)?;
    let new = publish::publish_one(
        tx,
        &mut Insert::new(tx)?,
        queue,
        &name,
        meta,
        &copy,
        Some(stored.id.as_bytes()),
    )??;
    record::add_line(tx, eid, &deeds::person_line("copy", actor, None, now))?;
    audit::add(tx, actor, "copy", &format!("{} as {new}", stored.id.hyphenated()), 1, now)?;
    Ok(new)
}

/// The message behind an entry without its body: as it lies in its queue, or, when it is gone, as the entry knows it.
fn parent(tx: &Tx<'_>, stored: &Stored) -> Done<Message> {
    if let Some(row) = stored.message {
        let kept = tx
            .sql
            .prepare_cached("SELECT key, content_type, headers FROM messages WHERE id = ?1")?
            .query_row([row], |row| Ok(read(row, row.get::<_, Option<Vec<u8>>>(0)?.map(Bytes::from))))
            .optional()?;
        if let Some(kept) = kept {
            return kept;
        }
    }
    tx.sql
        .prepare_cached("SELECT message_key, content_type, headers FROM entries WHERE eid = ?1")?
        .query_row([stored.eid], |row| Ok(read(row, row.get::<_, Option<String>>(0)?.map(as_shown))))?
}

/// The bytes of a key that is shown as text.
fn as_shown(key: String) -> Bytes {
    let bytes =
        key.strip_prefix("base64:").and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok());
    bytes.map_or_else(|| Bytes::from(key), Bytes::from)
}

fn read(row: &Row<'_>, key: Option<Bytes>) -> Done<Message> {
    let headers = match row.get::<_, Option<Vec<u8>>>(2)? {
        None => Headers::new(),
        Some(blob) => codec::decode(&Bytes::from(blob))
            .ok_or_else(|| Fault::broken("the headers of the original cannot be read"))?,
    };
    let content_type = row.get::<_, Option<String>>(1)?.map(Text::from);
    Ok(Message { id: Text::from(""), key, body: None, headers, content_type })
}
