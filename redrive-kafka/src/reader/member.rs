//! What a member of a group has in hand: shared by the thread that reads, the one that settles, and the flow.

mod settling;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use redrive_engine::port::{Delivery, PortError, Revoked, Tag};
use tokio::sync::{Notify, mpsc};

use super::book::Seen;
use super::stream::{Allowance, Stream, offset};
use super::watch::Watch;
use crate::position::Position;
use crate::record::Spot;

/// What all partitions together may hold that the flow has no room for yet.
const RECORDS: usize = 8_192;
const BYTES: usize = 32 << 20;
/// What one partition may hold at least, however many there are.
const LEAST_RECORDS: usize = 100;
const LEAST_BYTES: usize = 256 << 10;

#[derive(Default)]
struct Desk {
    streams: BTreeMap<u32, Stream>,
    numbers: HashMap<(Arc<str>, i32), u32>,
    /// Whose turn it is.
    turn: u32,
    /// Nothing more is handed out.
    closed: bool,
    /// It ends now, whatever is in hand.
    ended: bool,
    /// What the flow has to hear of.
    trouble: Option<PortError>,
    /// The reading thread waits for room.
    waits_for_room: bool,
}

impl Desk {
    fn stream(&mut self, tag: Tag) -> Option<&mut Stream> {
        self.streams.get_mut(&tag.stream).filter(|stream| stream.spot.epoch == tag.epoch)
    }

    /// The most that one partition may hold.
    fn share(&self) -> (usize, usize) {
        let streams = self.streams.len().max(1);
        ((RECORDS / streams).max(LEAST_RECORDS), (BYTES / streams).max(LEAST_BYTES))
    }
}

/// Whether the settler may end a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    /// It may.
    Taken,
    /// Not before the lowest one of its partition is settled: no more finished ones can be written down.
    NoRoom,
    /// It is not ours any more.
    Gone,
}

/// How far a partition is, for its depth.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// The partition.
    pub(crate) partition: i32,
    /// Behind the last one that was read.
    pub(crate) next: i64,
    /// Read and not finished.
    pub(crate) open: usize,
}

/// A member of a group.
pub(crate) struct Member {
    /// The group.
    pub(crate) group: String,
    /// Whether it reads what waits.
    pub(crate) waits: bool,
    consumer: Mutex<Option<Arc<BaseConsumer<Watch>>>>,
    desk: Mutex<Desk>,
    room: Condvar,
    arrived: Arc<Notify>,
    revoked: mpsc::UnboundedSender<Revoked>,
    epochs: Arc<AtomicU32>,
    first_stream: u32,
    metadata_room: usize,
    /// Whether Kafka did not answer when that was heard of last.
    away: AtomicBool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("group", &self.group)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}

/// What a member is made with.
#[derive(Debug)]
pub(crate) struct Ties {
    /// Rung when something can be handed out.
    pub(crate) arrived: Arc<Notify>,
    /// Where lost streams are told.
    pub(crate) revoked: mpsc::UnboundedSender<Revoked>,
    /// Counts assignments, over all members of the flow in this process.
    pub(crate) epochs: Arc<AtomicU32>,
    /// The number of its first stream.
    pub(crate) first_stream: u32,
    /// How long commit metadata may be.
    pub(crate) metadata_room: usize,
}

impl Member {
    pub(crate) fn new(group: &str, waits: bool, consumer: Arc<BaseConsumer<Watch>>, ties: Ties) -> Self {
        Self {
            group: group.to_owned(),
            waits,
            consumer: Mutex::new(Some(consumer)),
            desk: Mutex::default(),
            room: Condvar::new(),
            arrived: ties.arrived,
            revoked: ties.revoked,
            epochs: ties.epochs,
            first_stream: ties.first_stream,
            metadata_room: ties.metadata_room,
            away: AtomicBool::new(false),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its client, while it is a member.
    pub(crate) fn consumer(&self) -> Option<Arc<BaseConsumer<Watch>>> {
        self.consumer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the client away: it is no member any more.
    pub(crate) fn leave(&self) {
        let consumer = self.consumer.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.desk().streams.clear();
        drop(consumer);
    }
}

/// What the flow asks for.
impl Member {
    /// Adds what can be handed out, partition by partition, within the allowance; says how much of it is left.
    pub(crate) fn hand_out(&self, allowance: Allowance, into: &mut Vec<Delivery>) -> Allowance {
        let mut left = allowance;
        let mut desk = self.desk();
        if desk.closed {
            return left;
        }
        let turn = desk.turn;
        let order: Vec<u32> =
            desk.streams.range(turn..).chain(desk.streams.range(..turn)).map(|(number, _)| *number).collect();
        let mut idle = 0;
        for number in order.iter().cycle() {
            if idle >= order.len() || left.messages == 0 || left.bytes == 0 {
                break;
            }
            let Some(stream) = desk.streams.get_mut(number) else { break };
            let given = stream.hand_out(self.metadata_room, &mut left, into);
            idle = if given == 0 { idle + 1 } else { 0 };
            desk.turn = number.wrapping_add(1);
        }
        let wake = desk.waits_for_room && left.messages < allowance.messages;
        drop(desk);
        if wake {
            self.room.notify_all();
        }
        left
    }

    /// Puts deliveries back to where they were, all at once: whoever reads one of them reads those before it first. No for
    /// one that is not ours any more.
    pub(crate) fn give_back(&self, deliveries: &[&Delivery]) -> Vec<bool> {
        let mut desk = self.desk();
        let closed = desk.closed;
        let mut put = |delivery: &&Delivery| {
            let Some(stream) = desk.stream(delivery.tag) else { return false };
            if !stream.book.give_back(offset(delivery.tag)) {
                return false;
            }
            if !stream.draining && !closed {
                stream.put((*delivery).clone(), true);
            }
            true
        };
        // What has waited goes to the front, so that the first one goes there last.
        let mut back: Vec<bool> = if self.waits {
            deliveries.iter().rev().map(&mut put).collect()
        } else {
            deliveries.iter().map(&mut put).collect()
        };
        if self.waits {
            back.reverse();
        }
        drop(desk);
        self.arrived.notify_one();
        back
    }

    /// A stream stands still for one of its messages, or goes on.
    pub(crate) fn gate(&self, number: u32, closed: bool) {
        if let Some(stream) = self.desk().streams.get_mut(&number) {
            stream.gated = closed;
        }
        if !closed {
            self.arrived.notify_one();
        }
    }

    /// What went wrong since the last time.
    pub(crate) fn trouble(&self) -> Option<PortError> {
        self.desk().trouble.take()
    }

    /// Hands nothing out any more. What is in hand can still be settled.
    pub(crate) fn close(&self) {
        let mut desk = self.desk();
        desk.closed = true;
        for stream in desk.streams.values_mut() {
            stream.drop_ready();
        }
        drop(desk);
        self.room.notify_all();
    }

    /// Ends, whatever is in hand.
    pub(crate) fn end(&self) {
        self.close();
        self.desk().ended = true;
        self.room.notify_all();
    }

    /// Whether it ends, whatever is in hand.
    pub(crate) fn has_ended(&self) -> bool {
        self.desk().ended
    }

    /// Where each partition is.
    pub(crate) fn reach(&self) -> Vec<Reach> {
        let desk = self.desk();
        let streams = desk.streams.values();
        streams
            .map(|stream| Reach {
                topic: Arc::clone(&stream.spot.topic),
                partition: stream.spot.partition,
                next: stream.book.next(),
                open: stream.book.open(),
            })
            .collect()
    }

    /// How many partitions stand because no more finished ones can be written down.
    pub(crate) fn standing(&self) -> usize {
        self.desk().streams.values().filter(|stream| stream.stands).count()
    }
}

/// What the thread that reads asks for.
impl Member {
    /// Whether nothing more is handed out.
    pub(crate) fn is_closed(&self) -> bool {
        self.desk().closed
    }

    /// Whether it may leave the group: it is closed, and nothing is in hand; or it has to.
    pub(crate) fn may_leave(&self) -> bool {
        let desk = self.desk();
        let settling = desk.streams.values().any(|stream| stream.settling > 0);
        let out = desk.streams.values().any(|stream| stream.book.out() > 0);
        !settling && (desk.ended || (desk.closed && !out))
    }

    /// Begins to read a partition.
    pub(crate) fn open(&self, topic: &str, partition: i32, committed: Option<Position>) -> Spot {
        let mut desk = self.desk();
        let topic: Arc<str> = topic.into();
        let count = desk.numbers.len() as u32;
        let first = self.first_stream;
        let stream =
            *desk.numbers.entry((Arc::clone(&topic), partition)).or_insert(first.wrapping_add(count));
        let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        let spot = Spot { stream, epoch, topic, partition, waits: self.waits };
        desk.streams.insert(stream, Stream::new(spot.clone(), committed));
        spot
    }

    /// Notes records that were read and keeps those that can be handed out at once. Those that are left are for the
    /// caller: of a member that reads what waits, all that are not finished. Says which streams went back.
    pub(crate) fn take_in(&self, read: &mut Vec<Delivery>) -> Vec<u32> {
        let mut desk = self.desk();
        let mut back = Vec::new();
        let mut arrived = false;
        let mut waiting = Vec::new();
        for mut delivery in read.drain(..) {
            let closed = desk.closed;
            let Some(stream) = desk.stream(delivery.tag) else { continue };
            if stream.draining || closed || back.contains(&delivery.tag.stream) {
                continue;
            }
            match stream.book.read(offset(delivery.tag)) {
                Seen::Finished => continue,
                Seen::Back => {
                    back.push(delivery.tag.stream);
                    continue;
                }
                Seen::Again => delivery.redelivered = true,
                Seen::New => {}
            }
            if self.waits {
                waiting.push(delivery);
            } else {
                stream.put(delivery, false);
                arrived = true;
            }
        }
        *read = waiting;
        drop(desk);
        if arrived {
            self.arrived.notify_one();
        }
        back
    }

    /// A record's time has come.
    pub(crate) fn is_due(&self, delivery: Delivery) {
        let mut desk = self.desk();
        if desk.closed {
            return;
        }
        let Some(stream) = desk.stream(delivery.tag).filter(|stream| !stream.draining) else { return };
        stream.put(delivery, false);
        drop(desk);
        self.arrived.notify_one();
    }

    /// A record is ended here without having been handed to the flow: the settler may take it.
    pub(crate) fn hand_to_settler(&self, tag: Tag) -> Handed {
        let mut desk = self.desk();
        let Some(stream) = desk.stream(tag).filter(|stream| !stream.draining) else { return Handed::Gone };
        if !stream.book.has_room(offset(tag), self.metadata_room) {
            stream.stands = true;
            return Handed::NoRoom;
        }
        if stream.book.hand_out(offset(tag)) { Handed::Taken } else { Handed::Gone }
    }

    /// It was not ended, and is here again.
    pub(crate) fn give_back_here(&self, tag: Tag) {
        if let Some(stream) = self.desk().stream(tag) {
            stream.book.give_back(offset(tag));
        }
    }

    /// Waits until no partition holds more than its share, at most so long; the streams that still do.
    pub(crate) fn wait_for_room(&self, most: Duration) -> Vec<u32> {
        let full = |desk: &Desk| -> Vec<u32> {
            let (records, bytes) = desk.share();
            let over = |stream: &&Stream| stream.ready.len() >= records || stream.bytes >= bytes;
            desk.streams.values().filter(over).map(|stream| stream.spot.stream).collect()
        };
        let mut desk = self.desk();
        let deadline = std::time::Instant::now() + most;
        loop {
            let now = full(&desk);
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if now.is_empty() || left.is_zero() || desk.closed {
                desk.waits_for_room = false;
                return now;
            }
            desk.waits_for_room = true;
            desk = self.room.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether a partition holds so little that it should be read again.
    pub(crate) fn is_low(&self, stream: u32) -> bool {
        let desk = self.desk();
        let (records, bytes) = desk.share();
        let found = desk.streams.get(&stream);
        found.is_none_or(|stream| stream.ready.len() * 2 < records && stream.bytes * 2 < bytes)
    }

    /// Hands nothing more out of these streams, and tells the flow.
    pub(crate) fn drain(&self, streams: &[u32]) {
        let mut desk = self.desk();
        for number in streams {
            if let Some(stream) = desk.streams.get_mut(number)
                && !stream.draining
            {
                stream.draining = true;
                stream.drop_ready();
                // A flow that has gone needs not to know.
                let _ = self.revoked.send(Revoked { stream: *number, epoch: stream.spot.epoch });
            }
        }
    }

    /// Whether nothing of these streams is in hand.
    pub(crate) fn is_drained(&self, streams: &[u32]) -> bool {
        let desk = self.desk();
        streams.iter().filter_map(|number| desk.streams.get(number)).all(|stream| stream.book.out() == 0)
    }

    /// Gives streams up: what is in hand of them is not ours any more. Not while the settler is at it.
    pub(crate) fn give_up(&self, streams: &[u32]) -> bool {
        let mut desk = self.desk();
        if streams.iter().filter_map(|number| desk.streams.get(number)).any(|stream| stream.settling > 0) {
            return false;
        }
        for number in streams {
            desk.streams.remove(number);
        }
        true
    }

    /// The flow has to hear of something.
    pub(crate) fn report(&self, trouble: PortError) {
        if matches!(trouble, PortError::Unavailable(_)) {
            self.away.store(true, Ordering::Release);
        }
        self.desk().trouble = Some(trouble);
        self.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests;
