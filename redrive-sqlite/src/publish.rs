//! Taking messages in.

use std::borrow::Cow;

use bytes::Bytes;
use redrive_core::MAX_MESSAGE_ID;
use redrive_engine::fail;
use redrive_engine::port::{NewMessage, PortError, Published, REROUTE_TO, Refusal};
use rusqlite::{CachedStatement, OptionalExtension, params};

use crate::codec;
use crate::fault::Done;
use crate::store::Store;
use crate::tx::{Meta, Tx};

/// Expired ids that one publish may clear away, so that the list shrinks faster than it grows.
const SWEEP: i64 = 2;

/// A row to insert.
pub(crate) struct NewRow<'a> {
    pub(crate) mid: &'a str,
    /// 0 = ready, else unix ms; nothing when it is not to be delivered.
    pub(crate) due: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) headers: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) parent: Option<&'a [u8]>,
    /// Whether its queue takes an id twice.
    pub(crate) twin: bool,
}

pub(crate) async fn publish(
    store: &Store,
    target: &str,
    messages: Vec<NewMessage>,
) -> Result<Vec<Published>, PortError> {
    let target = queue_name(target).to_owned();
    store.inner.writer.run(move |tx| publish_all(tx, &target, &messages)).await
}

/// The queue that an address of this broker names.
pub(crate) fn queue_name(target: &str) -> &str {
    target.strip_prefix("queue:").unwrap_or(target)
}

fn publish_all(tx: &mut Tx<'_>, target: &str, messages: &[NewMessage]) -> Done<Vec<Published>> {
    let queue = tx.queue(target)?;
    let mut meta = tx.meta(queue)?;
    let mut insert = Insert::new(tx)?;
    let mut answers = Vec::with_capacity(messages.len());
    for message in messages {
        match publish_one(tx, &mut insert, queue, target, meta, message, None)? {
            Ok(id) => {
                meta.ready += 1;
                answers.push(Published::Accepted(id));
            }
            Err(refusal) => answers.push(Published::Refused(refusal)),
        }
    }
    fail::point("sqlite.after_publish_insert");
    Ok(answers)
}

/// Publishes one message; the outer result is the transaction's, the inner one the message's.
pub(crate) fn publish_one(
    tx: &mut Tx<'_>,
    insert: &mut Insert<'_>,
    queue: u32,
    name: &str,
    meta: Meta,
    message: &NewMessage,
    parent: Option<&[u8]>,
) -> Done<Result<String, Refusal>> {
    let size = message.body.as_ref().map_or(0, Bytes::len);
    if let Some(refusal) = too_much(tx, name, meta, size) {
        return Ok(Err(refusal));
    }
    let id = match &message.id {
        Some(id) => match check_id(id) {
            Ok(()) => id.clone(),
            Err(refusal) => return Ok(Err(refusal)),
        },
        None => tx.mint().hyphenated().to_string(),
    };
    if let Some(window) = meta.dedup_ms
        && message.id.is_some()
        && !remember(tx, queue, &id, window)?
    {
        return Ok(Err(Refusal::Duplicate(id)));
    }
    let mut passed_on = Cow::Borrowed(&message.headers);
    if meta.home && passed_on.contains(REROUTE_TO) {
        // In a home queue this is an order, which only a person's deed gives.
        passed_on.to_mut().remove(REROUTE_TO);
    }
    let headers = codec::encode(&passed_on);
    let row = NewRow {
        mid: &id,
        due: Some(message.due.map_or(0, |due| due.as_millis().max(1))),
        key: message.key.as_deref(),
        body: message.body.as_deref(),
        headers: headers.as_deref(),
        content_type: message.content_type.as_deref(),
        parent,
        twin: meta.home,
    };
    Ok(if insert.row(tx, queue, &row)?.is_some() { Ok(id) } else { Err(Refusal::Duplicate(id)) })
}

/// The statement that inserts a message, prepared once for as many as there are.
pub(crate) struct Insert<'c>(CachedStatement<'c>);

impl<'c> Insert<'c> {
    pub(crate) fn new(tx: &Tx<'c>) -> Done<Self> {
        let statement = tx.sql.prepare_cached(
            "INSERT INTO messages (id, queue, mid, due, enqueued, size, parent, content_type, key, headers, body,
                                   twin)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
        )?;
        Ok(Self(statement))
    }

    /// Inserts a row; nothing when its id is already in the queue.
    pub(crate) fn row(&mut self, tx: &mut Tx<'_>, queue: u32, new: &NewRow<'_>) -> Done<Option<i64>> {
        let row = tx.next_row();
        let inserted = self.0.execute(params![
            row,
            queue,
            new.mid,
            new.due,
            tx.now.as_millis(),
            new.body.map_or(0, <[u8]>::len),
            new.parent,
            new.content_type,
            new.key,
            new.headers,
            new.body,
            new.twin.then_some(1),
        ])?;
        if inserted == 0 {
            return Ok(None);
        }
        tx.moved(queue, None, new.due);
        if let Some(due) = new.due {
            tx.arrived(queue, row, due);
        }
        Ok(Some(row))
    }
}

/// Why a queue takes no more.
pub(crate) fn too_much(tx: &Tx<'_>, name: &str, meta: Meta, size: usize) -> Option<Refusal> {
    if size > tx.memory.message_limit {
        return Some(Refusal::Limit(format!(
            "the message has {size} bytes; at most {} are taken",
            tx.memory.message_limit
        )));
    }
    let lies = (meta.ready + meta.waiting).max(0).cast_unsigned();
    (lies >= meta.limit).then(|| {
        Refusal::Limit(format!(
            "the queue `{name}` is full: it holds {lies} messages, its limit is {}",
            meta.limit
        ))
    })
}

pub(crate) fn check_id(id: &str) -> Result<(), Refusal> {
    let fits = !id.is_empty()
        && (id.len() <= MAX_MESSAGE_ID || id.chars().count() <= MAX_MESSAGE_ID)
        && !id.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(Refusal::Invalid(format!(
        "a message id is 1 to {MAX_MESSAGE_ID} characters without control characters"
    )))
}

/// Remembers an id for the queue's window; no when it is remembered already.
fn remember(tx: &Tx<'_>, queue: u32, id: &str, window: i64) -> Done<bool> {
    let now = tx.now.as_millis();
    let known: Option<i64> = tx
        .sql
        .prepare_cached("SELECT until FROM recent WHERE queue = ?1 AND mid = ?2")?
        .query_row(params![queue, id], |row| row.get(0))
        .optional()?;
    if known.is_some_and(|until| until > now) {
        return Ok(false);
    }
    // A message that is still queued is refused by its row; its window goes on as it was.
    tx.sql
        .prepare_cached("INSERT OR REPLACE INTO recent (queue, mid, until) VALUES (?1, ?2, ?3)")?
        .execute(params![queue, id, now.saturating_add(window)])?;
    tx.sql
        .prepare_cached(
            "DELETE FROM recent WHERE (queue, mid) IN
             (SELECT queue, mid FROM recent WHERE until <= ?1 ORDER BY until LIMIT ?2)",
        )?
        .execute(params![now, SWEEP])?;
    Ok(true)
}
