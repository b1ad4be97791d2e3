//! What becomes of waiting records: they wait here, are handed out, or are moved on.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::Timestamp;
use redrive_engine::port::Refusal;

use super::{Reader, Waits};
use crate::copy::Hop;
use crate::delay::{Delays, Waiting};
use crate::metrics;
use crate::options::Role;
use crate::reader::member::Handed;
use crate::record;
use crate::settle::Moving;

/// How long a record waits that cannot be moved on now.
const AGAIN: Duration = Duration::from_secs(1);

impl Reader {
    pub(super) fn look_at_waiting(&mut self) {
        let now = self.now();
        while !self.is_busy_moving()
            && let Some((_, waits)) = self.waiting.pop_due(now)
        {
            self.sort(waits);
        }
        for back in self.with.settler.not_moved() {
            self.wait(now + AGAIN, back);
        }
        if self.with.member.waits {
            metrics::waiting(&self.with.flow.flow, self.waiting.len());
        }
    }

    /// Decides what becomes of a record of a delay topic now.
    pub(super) fn sort(&mut self, waits: Waits) {
        let now = self.now();
        if let Some(group) = waits.delivery.trail.left_to().cloned() {
            return self.sort_of_another(waits, &group, now);
        }
        let Waits { delivery, appended } = &waits;
        let last = || {
            let delays = self.with.copies.delays();
            delays.stay(&delivery.source.name, *appended, &delivery.trail).last
        };
        let others = match self.with.flow.role {
            Role::Retry => !last(),
            Role::Delay => last(),
            Role::All | Role::Main | Role::Ledger => false,
        };
        if others {
            return self.move_on(waits, Vec::new());
        }
        match self.with.copies.hop(delivery, *appended, now) {
            Ok(Hop::Wait(until)) => self.wait(until, waits),
            // Whoever moves records on calls nobody: a late one goes to a level that it leaves at once.
            Ok(Hop::Ready) if self.with.flow.role == Role::Delay => {
                match self.with.copies.last_hop(delivery, *appended, now) {
                    Ok(copy) => self.move_on(waits, vec![copy]),
                    Err(refusal) => self.cannot_move(waits, now, &refusal),
                }
            }
            Ok(Hop::Ready) => self.with.member.is_due(waits.delivery),
            Ok(Hop::Move(copy)) => self.move_on(waits, vec![copy]),
            Err(refusal) => self.cannot_move(waits, now, &refusal),
        }
    }

    /// Two services read one topic, and their flows have one name: each has its own copies. The ledger may know it all the
    /// same, when the group had another name before; only what nobody here knows is left to the other.
    fn sort_of_another(&mut self, waits: Waits, group: &str, now: Timestamp) {
        let topic = &waits.delivery.source.name;
        self.with.alarms.raise("shared_topics", topic, format!(
            "copies of the group `{group}` lie in `{topic}` too, and are left to it: give each service that reads the topic a flow name of its own (--name)"
        ));
        let due = Delays::due(waits.appended, &waits.delivery.trail).unwrap_or(now);
        if !self.with.flow.ledger || self.with.flow.role == Role::Delay {
            self.move_on(waits, Vec::new());
        } else if due > now {
            self.wait(due, waits);
        } else {
            self.with.member.is_due(waits.delivery);
        }
    }

    fn cannot_move(&mut self, waits: Waits, now: Timestamp, refusal: &Refusal) {
        let text = format!("a waiting message cannot be moved on, and stays: {refusal}");
        self.with.alarms.raise("copy_refused", &waits.delivery.source.name, text);
        self.wait(now + AGAIN, waits);
    }

    fn wait(&mut self, until: Timestamp, waits: Waits) {
        let bytes = record::size(&waits.delivery.message);
        let stream = waits.delivery.tag.stream;
        let waiting = Waiting { until, appended: waits.appended, bytes, record: waits };
        // One of a stream that was given up lies where it lies.
        let _ = self.waiting.push(stream, waiting);
    }

    fn move_on(&mut self, waits: Waits, copies: Vec<crate::copy::Copy>) {
        let now = self.now();
        if self.is_busy_moving() {
            // It is looked at again as soon as others have arrived, and counts in the window until then.
            return self.wait(now, waits);
        }
        match self.with.member.hand_to_settler(waits.delivery.tag) {
            Handed::Taken => self.with.settler.move_on(Moving::new(waits, copies, Arc::clone(&self.moving))),
            Handed::NoRoom => self.wait(now + AGAIN, waits),
            Handed::Gone => {}
        }
    }
}
