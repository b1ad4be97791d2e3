//! A partition in hand: what of it can be handed out, and what keeps it from being so.

use std::collections::VecDeque;

use redrive_engine::port::{Delivery, Tag};

use super::book::Book;
use crate::position::Position;
use crate::record::{self, Spot};

/// How many deliveries of one partition are handed out before the next one's turn.
const TURN: usize = 64;

/// A partition that this member has.
pub(super) struct Stream {
    pub(super) spot: Spot,
    pub(super) book: Book,
    pub(super) ready: VecDeque<Delivery>,
    pub(super) bytes: usize,
    /// It is being given up: nothing more is handed out.
    pub(super) draining: bool,
    /// How many of it the settler has.
    pub(super) settling: usize,
    /// Nothing more is handed out before its lowest one is settled.
    pub(super) stands: bool,
    /// The flow holds it for one of its messages.
    pub(super) gated: bool,
}

/// How much may be handed out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Messages.
    pub(crate) messages: usize,
    /// Bytes.
    pub(crate) bytes: usize,
}

/// The offset that a tag names.
pub(crate) fn offset(tag: Tag) -> i64 {
    i64::try_from(tag.number).unwrap_or(i64::MAX)
}

impl Stream {
    /// A partition that begins to be read.
    pub(super) fn new(spot: Spot, committed: Option<Position>) -> Self {
        Self {
            spot,
            book: Book::new(committed),
            ready: VecDeque::new(),
            bytes: 0,
            draining: false,
            settling: 0,
            stands: false,
            gated: false,
        }
    }

    /// Hands out what can be, within a turn and the allowance; how many those are.
    pub(super) fn hand_out(
        &mut self,
        metadata_room: usize,
        left: &mut Allowance,
        into: &mut Vec<Delivery>,
    ) -> usize {
        let mut given = 0;
        if self.draining || self.gated {
            return 0;
        }
        while given < TURN && left.messages > 0 && left.bytes > 0 {
            let Some(first) = self.ready.front() else { break };
            let number = offset(first.tag);
            if !self.book.has_room(number, metadata_room) {
                self.stands = true;
                break;
            }
            let size = record::size(&first.message);
            if size > left.bytes && !into.is_empty() {
                left.bytes = 0;
                break;
            }
            let Some(delivery) = self.ready.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(size);
            if !self.book.hand_out(number) {
                continue;
            }
            into.push(delivery);
            given += 1;
            left.messages -= 1;
            left.bytes = left.bytes.saturating_sub(size);
        }
        given
    }

    /// Takes a delivery that can be handed out; one that comes back goes to its place.
    pub(super) fn put(&mut self, delivery: Delivery, back: bool) {
        self.bytes += record::size(&delivery.message);
        if !back {
            return self.ready.push_back(delivery);
        }
        if self.spot.waits {
            return self.ready.push_front(delivery);
        }
        let place = self.ready.partition_point(|other| other.tag.number < delivery.tag.number);
        self.ready.insert(place, delivery);
    }

    /// Forgets what was not handed out: it is read again by whoever has the partition next.
    pub(super) fn drop_ready(&mut self) {
        self.ready.clear();
        self.bytes = 0;
    }
}
