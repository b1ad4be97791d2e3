//! A queue: rows in the order of their arrival, each ready, due later, or kept for the ledger.
//!
//! What can be handed out is indexed, so that a hundred thousand rows cost a look no more than a few do.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use redrive_core::headers::Trail;
use redrive_core::{MAX_MESSAGE_ID, Message, Text, Timestamp};
use redrive_engine::port::{
    Delivery, DeliveryParts, Depth, EntryId, HeaderRules, NewMessage, Published, Refusal, Room, SourceRef,
    Tag,
};

use super::state::State;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) stream: u32,
    /// The reader whose claims count.
    pub(super) epoch: u32,
    /// How the flow that reads it spells and signs its headers.
    pub(super) rules: HeaderRules,
    /// Whether it is read as a log: each place has a number, and what was published can be read again.
    pub(super) is_log: bool,
    rows: BTreeMap<u64, Row>,
    ids: HashSet<String>,
    /// Rows that nobody has taken: those that are ready, and those that are due, by their time.
    ready: BTreeSet<u64>,
    due: BTreeSet<(Timestamp, u64)>,
    /// How many rows are kept for the ledger.
    kept: u64,
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
    /// Where the message lay when a broker apart settled it.
    pub(super) origin: Option<SourceRef>,
    /// Whether a broker apart wrote it, as the copy of a message that it settled.
    pub(super) is_copy: bool,
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
        Self {
            name: name.to_owned(),
            stream,
            epoch: 0,
            rules: HeaderRules::default(),
            is_log: false,
            rows: BTreeMap::new(),
            ids: HashSet::new(),
            ready: BTreeSet::new(),
            due: BTreeSet::new(),
            kept: 0,
        }
    }

    /// The rows, in the order of their arrival.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The rows with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &Row)> {
        self.rows.iter().map(|(number, row)| (*number, row))
    }

    pub(super) fn row(&self, number: u64) -> Option<&Row> {
        self.rows.get(&number)
    }

    pub(super) fn insert(&mut self, number: u64, row: Row) {
        self.ids.insert(row.message.id.to_string());
        self.rows.insert(number, row);
        self.index(number, true);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Row> {
        self.index(number, false);
        let row = self.rows.remove(&number)?;
        self.ids.remove(row.message.id.as_str());
        Some(row)
    }

    /// Changes a row, wherever that moves it; answers with what the change does.
    pub(super) fn change<T>(&mut self, number: u64, change: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.index(number, false);
        let answer = self.rows.get_mut(&number).map(change);
        self.index(number, true);
        answer
    }

    /// Takes a row into the indexes, or out of them.
    fn index(&mut self, number: u64, known: bool) {
        let Some(row) = self.rows.get(&number) else { return };
        match row.place {
            Place::Kept if known => self.kept += 1,
            Place::Kept => self.kept -= 1,
            _ if row.claimed => {}
            Place::Ready if known => _ = self.ready.insert(number),
            Place::Ready => _ = self.ready.remove(&number),
            Place::Due(due) if known => _ = self.due.insert((due, number)),
            Place::Due(due) => _ = self.due.remove(&(due, number)),
        }
    }

    /// A new reader: what an earlier one took is free again.
    pub(super) fn restart(&mut self, epoch: u32) {
        self.epoch = epoch;
        let claimed = self.rows.iter().filter(|(_, row)| row.claimed);
        for number in claimed.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.change(number, |row| {
                row.claimed = false;
                row.redelivered = true;
            });
        }
    }

    /// Hands out what can be delivered: what is due in the order of its time, as far as there is room for it, then what is
    /// ready.
    pub(super) fn take(&mut self, room: Room, now: Timestamp, into: &mut Vec<Delivery>) {
        let due = self.due.range(..=(now, u64::MAX)).map(|(_, number)| *number).take(room.retries);
        let free = due.chain(self.ready.iter().copied());
        let mut chosen = Vec::new();
        let mut bytes = 0;
        for number in free {
            let Some(row) = self.rows.get(&number) else { continue };
            bytes += row.message.body.as_ref().map_or(0, Bytes::len);
            if !chosen.is_empty() && (chosen.len() >= room.messages || bytes > room.bytes) {
                break;
            }
            chosen.push(number);
        }
        let (stream, epoch, rules) = (self.stream, self.epoch, self.rules.clone());
        let is_log = self.is_log;
        let source = SourceRef {
            kind: "memory".into(),
            name: self.name.as_str().into(),
            partition: is_log.then_some(0),
            offset: None,
        };
        let handed = chosen.into_iter().filter_map(|number| {
            self.change(number, |row| {
                row.claimed = true;
                // Like a topic that others can write to: whatever lies here has to prove what it says.
                let mut trail = rules.read(&row.message.headers, row.message.body.as_deref());
                if is_log && !row.is_copy {
                    trail.forget_entry();
                }
                Delivery::from(DeliveryParts {
                    tag: Tag { stream, epoch, number },
                    trail,
                    message: row.message.clone(),
                    source: row.origin.clone().unwrap_or_else(|| SourceRef {
                        offset: is_log.then_some(number.cast_signed()),
                        ..source.clone()
                    }),
                    ready_at: match row.place {
                        Place::Due(due) => due,
                        Place::Ready | Place::Kept => row.since,
                    },
                    redelivered: std::mem::take(&mut row.redelivered),
                })
            })
        });
        into.extend(handed);
    }

    /// When the next message becomes due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn depth(&self, now: Timestamp) -> Depth {
        let waiting = self.due.range((now, u64::MAX)..).count() as u64;
        Depth { ready: self.rows.len() as u64 - self.kept - waiting, waiting }
    }

    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }
}

impl Row {
    /// A message that nobody has an entry for.
    pub(super) const fn new(message: Message, place: Place, since: Timestamp) -> Self {
        Self {
            message,
            place,
            since,
            claimed: false,
            redelivered: false,
            entry: None,
            parent: None,
            origin: None,
            is_copy: false,
        }
    }

    /// Replaces what Redrive had written into the headers.
    pub(super) fn carry(&mut self, trail: &Trail, rules: &HeaderRules) {
        rules.write(trail, &mut self.message.headers, self.message.body.as_deref());
    }

    /// The trail of a message that begins again: what happened is forgotten, what it is is not.
    pub(super) fn fresh_trail(&self) -> Trail {
        let trail = HeaderRules::read_own(&self.message.headers);
        Trail {
            origin: trail.origin.clone(),
            entry_id: trail.entry_id.clone(),
            idempotency_key: trail.idempotency_key.clone(),
            correlation_id: trail.correlation_id.clone(),
            causation_id: trail.causation_id.clone(),
            forward_to: trail.forward_to.clone(),
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
        let limit = self.limit;
        let mut logged = None;
        let queue = self.queue(address(target));
        let Depth { ready, waiting } = queue.depth(now);
        if let Some(limit) = limit.filter(|limit| ready + waiting >= *limit) {
            return Published::Refused(Refusal::Limit(format!("the queue is full: its limit is {limit}")));
        }
        // A broker apart may use an id twice, and so may its ledger's queue.
        if queue.has(&id) && !queue.name.ends_with(".ledger") {
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
            origin: None,
            is_copy: false,
        };
        if queue.is_log {
            logged = Some((queue.name.clone(), number, now, row.message.clone()));
        }
        queue.insert(number, row);
        self.log.extend(logged);
        Published::Accepted(id)
    }

    /// Sends a copy to another queue as a fresh message, under its own id where that is free.
    pub(super) fn forward(&mut self, target: &str, message: &Message, rules: &HeaderRules, now: Timestamp) {
        let mut copy = NewMessage {
            id: Some(message.id.to_string()),
            key: message.key.clone(),
            body: message.body.clone(),
            headers: message.headers.clone(),
            content_type: message.content_type.as_ref().map(ToString::to_string),
            due: None,
        };
        rules.clear(&mut copy.headers);
        if let Published::Refused(Refusal::Duplicate(_)) = self.publish(target, copy.clone(), None, now) {
            self.publish(target, NewMessage { id: None, ..copy }, None, now);
        }
    }
}

/// The queue that an address names.
pub(super) fn address(target: &str) -> &str {
    target.strip_prefix("queue:").unwrap_or(target)
}
