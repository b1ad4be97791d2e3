//! The message behind an entry: the row that keeps its body while the entry is open.

use bytes::Bytes;
use redrive_core::headers::{Replay, Trail};
use redrive_core::{Headers, Message, Text, Timestamp};
use redrive_engine::port::{Carried, Delivery, DeliveryParts, HeaderRules, SourceRef, Tag};
use rusqlite::{OptionalExtension, params};

use super::record::Stored;
use crate::codec;
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// The row of an entry's message, kept from the readers until the transaction ends.
pub(crate) struct Shelf {
    row: i64,
    queue: u32,
    due: Option<i64>,
}

/// Why an entry's message cannot be had.
pub(crate) enum Missing {
    /// Its body is not kept here.
    Body,
    /// A handler has it in hand.
    InFlight,
}

impl Missing {
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Body => "its body is not kept here".to_owned(),
            Self::InFlight => {
                "it is being handled right now; try again when that attempt has ended".to_owned()
            }
        }
    }
}

impl Shelf {
    pub(crate) fn of(tx: &mut Tx<'_>, stored: &Stored) -> Done<Result<Self, Missing>> {
        let Some(row) = stored.message else { return Ok(Err(Missing::Body)) };
        let found: Option<(u32, Option<i64>)> = tx
            .sql
            .prepare_cached("SELECT queue, due FROM messages WHERE id = ?1")?
            .query_row([row], |found| Ok((found.get(0)?, found.get(1)?)))
            .optional()?;
        let Some((queue, due)) = found else { return Ok(Err(Missing::Body)) };
        if !tx.hold(queue, row, due) {
            return Ok(Err(Missing::InFlight));
        }
        Ok(Ok(Self { row, queue, due }))
    }

    pub(crate) fn row(&self) -> i64 {
        self.row
    }

    /// Where it stood: 0 = ready, else its due time; nothing when it was not to be delivered.
    pub(crate) fn due(&self) -> Option<i64> {
        self.due
    }

    /// Lets the message be delivered from `due` on, or not at all.
    pub(crate) fn put(&self, tx: &mut Tx<'_>, due: Option<i64>) -> Done<()> {
        tx.sql
            .prepare_cached("UPDATE messages SET due = ?2 WHERE id = ?1")?
            .execute(params![self.row, due])?;
        tx.moved(self.queue, self.due, due);
        if let Some(due) = due {
            tx.arrived(self.queue, self.row, due);
        }
        Ok(())
    }

    /// Lets the message begin again by its policy: no attempt made, no budget spent. Who sent it travels with it.
    pub(crate) fn begin_again(
        &self,
        tx: &mut Tx<'_>,
        stored: &Stored,
        due: i64,
        replay: Option<Replay>,
    ) -> Done<()> {
        let mut all = self.headers(tx)?;
        let old = HeaderRules::read_own(&all);
        let fresh = Trail {
            origin: old.origin.clone(),
            entry_id: Some(Text::from(stored.id.hyphenated().to_string())),
            idempotency_key: old.idempotency_key.clone(),
            correlation_id: old.correlation_id.clone(),
            causation_id: old.causation_id.clone(),
            forward_to: old.forward_to.clone(),
            replay,
            ..Trail::default()
        };
        let rules = tx.rules(self.queue);
        // The body is read for its signature alone.
        let body: Option<Vec<u8>> = if rules.signs() { self.body(tx)? } else { None };
        rules.write(&fresh, &mut all, body.as_deref());
        tx.sql
            .prepare_cached("UPDATE messages SET headers = ?2 WHERE id = ?1")?
            .execute(params![self.row, codec::encode(&all)])?;
        self.put(tx, Some(due))
    }

    fn body(&self, tx: &Tx<'_>) -> Done<Option<Vec<u8>>> {
        Ok(tx
            .sql
            .prepare_cached("SELECT body FROM messages WHERE id = ?1")?
            .query_row([self.row], |row| row.get(0))?)
    }

    fn headers(&self, tx: &Tx<'_>) -> Done<Headers> {
        let blob: Option<Vec<u8>> = tx
            .sql
            .prepare_cached("SELECT headers FROM messages WHERE id = ?1")?
            .query_row([self.row], |row| row.get(0))?;
        match blob {
            None => Ok(Headers::new()),
            Some(blob) => codec::decode(&Bytes::from(blob))
                .ok_or_else(|| Fault::broken(format!("the headers of message {} cannot be read", self.row))),
        }
    }

    /// The message as it would be delivered.
    pub(crate) fn delivery(&self, tx: &Tx<'_>) -> Done<Delivery> {
        let headers = self.headers(tx)?;
        let message = tx
            .sql
            .prepare_cached("SELECT mid, key, content_type, body FROM messages WHERE id = ?1")?
            .query_row([self.row], |row| {
                Ok(Message {
                    id: row.get::<_, String>(0)?.into(),
                    key: row.get::<_, Option<Vec<u8>>>(1)?.map(Bytes::from),
                    content_type: row.get::<_, Option<String>>(2)?.map(Text::from),
                    body: row.get::<_, Option<Vec<u8>>>(3)?.map(Bytes::from),
                    headers,
                })
            })?;
        Ok(Delivery::from(DeliveryParts {
            tag: Tag { stream: self.queue, epoch: 0, number: self.row.cast_unsigned() },
            message,
            trail: Carried::default(),
            source: SourceRef { kind: "embedded".into(), name: "".into(), partition: None, offset: None },
            ready_at: Timestamp::default(),
            redelivered: false,
        }))
    }
}
