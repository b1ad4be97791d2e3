//! A queue: rows in the order of their arrival, each ready, due later, or kept for the ledger.

use std::collections::BTreeMap;

use bytes::Bytes;
use redrive_core::headers::{self, Spelling, Trail};
use redrive_core::{MAX_MESSAGE_ID, Message, Text, Timestamp};
use redrive_engine::port::{Delivery, Depth, EntryId, NewMessage, Published, Refusal, Room, SourceRef, Tag};

use super::state::State;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) stream: u32,
    /// The reader whose claims count.
    pub(super) epoch: u32,
    pub(super) rows: BTreeMap<u64, Row>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) message: Message,
    pub(super) place: Place,
    pub(super) since: Timestamp,
    pub(super) claimed: bool,
    pub(super) redelivered: bool,
    pub(super) entry: Option<EntryId>,
    pub(super) parent: Option<EntryId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Ready,
    Due(Timestamp),
    /// Not to be delivered: the ledger keeps it.
    Kept,
}

impl Queue {
    pub(super) fn new(name: &str, stream: u32) -> Self {
        Self { name: name.to_owned(), stream, epoch: 0, rows: BTreeMap::new() }
    }

    /// A new reader: what an earlier one took is free again.
    pub(super) fn restart(&mut self, epoch: u32) {
        self.epoch = epoch;
        for row in self.rows.values_mut().filter(|row| row.claimed) {
            row.claimed = false;
            row.redelivered = true;
        }
    }

    /// Hands out what can be delivered: what is due in the order of its time, as far as there is room for it, then what is
    /// ready.
    pub(super) fn take(&mut self, room: Room, now: Timestamp, into: &mut Vec<Delivery>) {
        let mut free: Vec<(Timestamp, u64)> = self
            .rows
            .iter()
            .filter(|(_, row)| !row.claimed)
            .filter_map(|(number, row)| match row.place {
                Place::Ready => Some((Timestamp::MAX, *number)),
                Place::Due(due) if due <= now => Some((due, *number)),
                Place::Due(_) | Place::Kept => None,
            })
            .collect();
        free.sort_unstable();
        let (mut taken, mut retries, mut bytes) = (0, 0, 0);
        for (_, number) in free {
            let (stream, epoch) = (self.stream, self.epoch);
            let Some(row) = self.rows.get_mut(&number) else { continue };
            let has_waited = matches!(row.place, Place::Due(_));
            if has_waited && retries >= room.retries {
                continue;
            }
            bytes += row.message.body.as_ref().map_or(0, Bytes::len);
            if taken > 0 && (taken >= room.messages || bytes > room.bytes) {
                return;
            }
            taken += 1;
            retries += usize::from(has_waited);
            row.claimed = true;
            into.push(Delivery {
                tag: Tag { stream, epoch, number },
                trail: headers::decode(&row.message.headers, Spelling::Default).trail.into(),
                message: row.message.clone(),
                source: SourceRef {
                    kind: "memory".into(),
                    name: self.name.as_str().into(),
                    partition: None,
                    offset: None,
                },
                ready_at: match row.place {
                    Place::Due(due) => due,
                    Place::Ready | Place::Kept => row.since,
                },
                redelivered: std::mem::take(&mut row.redelivered),
            });
        }
    }

    /// When the next message becomes due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = |row: &Row| match row.place {
            Place::Due(due) if !row.claimed => Some(due),
            _ => None,
        };
        self.rows.values().filter_map(due).min()
    }

    pub(super) fn depth(&self, now: Timestamp) -> Depth {
        let mut depth = Depth::default();
        for row in self.rows.values() {
            match row.place {
                Place::Due(due) if due > now && !row.claimed => depth.waiting += 1,
                Place::Ready | Place::Due(_) => depth.ready += 1,
                Place::Kept => {}
            }
        }
        depth
    }

    fn has(&self, id: &str) -> bool {
        self.rows.values().any(|row| row.message.id == *id)
    }
}

impl Row {
    /// Replaces what Redrive had written into the headers.
    pub(super) fn carry(&mut self, trail: &Trail) {
        headers::encode(trail, &mut self.message.headers, Spelling::Default);
    }

    /// The trail of a message that begins again: what happened is forgotten, what it is is not.
    pub(super) fn fresh_trail(&self) -> Trail {
        let trail = headers::decode(&self.message.headers, Spelling::Default).trail;
        Trail {
            origin: trail.origin,
            entry_id: trail.entry_id,
            idempotency_key: trail.idempotency_key,
            correlation_id: trail.correlation_id,
            causation_id: trail.causation_id,
            ..Trail::default()
        }
    }
}

impl State {
    /// Takes one message in, unless its id is still queued.
    pub(super) fn publish(
        &mut self,
        target: &str,
        new: NewMessage,
        parent: Option<EntryId>,
        now: Timestamp,
    ) -> Published {
        let id = match new.id {
            Some(id) if id.is_empty() || id.chars().count() > MAX_MESSAGE_ID => {
                return Published::Refused(Refusal::Invalid("an id has 1 to 300 characters".to_owned()));
            }
            Some(id) => id,
            None => self.mint(now).to_string(),
        };
        let number = self.number();
        let queue = self.queue(address(target));
        if queue.has(&id) {
            return Published::Refused(Refusal::Duplicate(id));
        }
        let row = Row {
            message: Message {
                id: Text::from(id.as_str()),
                key: new.key,
                body: new.body,
                headers: new.headers,
                content_type: new.content_type.map(Text::from),
            },
            place: new.due.map_or(Place::Ready, Place::Due),
            since: now,
            claimed: false,
            redelivered: false,
            entry: None,
            parent,
        };
        queue.rows.insert(number, row);
        Published::Accepted(id)
    }

    /// Sends a copy to another queue as a fresh message, under its own id where that is free.
    pub(super) fn forward(&mut self, target: &str, message: &Message, now: Timestamp) {
        let mut copy = NewMessage {
            id: Some(message.id.to_string()),
            key: message.key.clone(),
            body: message.body.clone(),
            headers: message.headers.clone(),
            content_type: message.content_type.as_ref().map(ToString::to_string),
            due: None,
        };
        headers::encode(&Trail::default(), &mut copy.headers, Spelling::Default);
        if let Published::Refused(Refusal::Duplicate(_)) = self.publish(target, copy.clone(), None, now) {
            self.publish(target, NewMessage { id: None, ..copy }, None, now);
        }
    }
}

/// The queue that an address names.
pub(super) fn address(target: &str) -> &str {
    target.strip_prefix("queue:").unwrap_or(target)
}
