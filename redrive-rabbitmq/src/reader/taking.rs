//! What becomes of a delivery: it is handed out, waits a moment, or is sent on its way again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_core::Timestamp;
use redrive_core::headers::Trail;
use redrive_engine::fail;
use redrive_engine::port::{Delivery, EntryId};
use tokio_util::time::DelayQueue;

use super::carver::Found;
use super::pump::{Reader, Reading};
use super::session::Session;
use crate::names;

/// What comes so much too early waits in memory; more than that is moved on.
const IN_MEMORY: Duration = Duration::from_millis(50);
/// How long a copy that found no way waits before it is sent on its way again: what it missed may be missing still.
const ASTRAY: Duration = Duration::from_secs(1);
/// How long to wait before something is moved on that could not be.
const AGAIN: Duration = Duration::from_millis(500);

/// The entry that a copy carries.
fn entry_of(delivery: &Delivery) -> Option<EntryId> {
    delivery.trail.entry_id.as_deref().and_then(|id| EntryId::parse_str(id).ok())
}

impl Reader {
    /// Takes in what was delivered.
    pub(super) fn take(
        self: &Arc<Self>,
        session: &Arc<Session>,
        delivery: lapin::message::Delivery,
        stray: bool,
        early: &mut DelayQueue<Found>,
    ) {
        session.book().opened(delivery.delivery_tag);
        let found = self.with.carver.carve(delivery, session.epoch, stray, self.with.clock.now());
        if let Some(offset) = found.delivery.source.offset.filter(|_| self.with.position.is_some()) {
            session.book().opened_at(found.delivery.tag.number, offset);
        }
        if let Some(entry) = entry_of(&found.delivery) {
            session.book().is_copy_of(found.delivery.tag.number, entry);
        }
        if stray {
            self.mend();
        }
        self.place(session, found, stray, early);
    }

    /// Hands it out, or not yet.
    pub(super) fn place(
        self: &Arc<Self>,
        session: &Arc<Session>,
        found: Found,
        stray: bool,
        early: &mut DelayQueue<Found>,
    ) {
        let now = self.with.clock.now();
        let due = found.delivery.trail.process_after.filter(|due| found.waited && *due > now);
        let Some(due) = due else {
            session.book().is_ready(found.delivery, found.waited);
            return;
        };
        let left = due.since(now);
        if left <= IN_MEMORY || stray {
            early.insert(found, left.min(ASTRAY));
            return;
        }
        session.book().moves(found.delivery.tag.number);
        let (reader, session) = (Arc::clone(self), Arc::clone(session));
        tokio::spawn(async move { reader.move_on(&session, found.delivery, due).await });
    }

    /// Sends a copy that is not due on its way again, and releases it.
    async fn move_on(&self, session: &Session, delivery: Delivery, due: Timestamp) {
        let Reading { copies, outbox, clock, alarms, flow, .. } = &self.with;
        let tag = delivery.tag.number;
        loop {
            if !session.has(delivery.tag) {
                return;
            }
            let trail = Trail::clone(&delivery.trail);
            match copies.waiting(&delivery.message, trail, due, clock.now(), outbox.frame_max()) {
                Ok(copy) => {
                    let written = outbox.write(std::slice::from_ref(&copy.letter)).await.pop();
                    if let Some(Ok(())) = written {
                        fail::point("rabbit.after_move");
                        let _ = session.release(&[tag]).await;
                        break;
                    }
                    tracing::debug!(flow = &*flow.flow, ?written, "a copy could not be moved on");
                }
                Err(refusal) => {
                    let why =
                        format!("a copy that is not due cannot be moved on, and is handed out: {refusal}");
                    alarms.raise("copy_refused", "", why);
                    session.book().comes_back(delivery);
                    self.arrived.notify_one();
                    return;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.after_settling();
    }

    /// A copy found no way: something of the flow's own is missing, and is made again.
    fn mend(self: &Arc<Self>) {
        // One look serves all that have gone astray meanwhile.
        if self.mending.swap(true, Ordering::AcqRel) {
            return;
        }
        let reader = Arc::clone(self);
        tokio::spawn(async move {
            let flow = &reader.with.flow.flow;
            tracing::warn!(flow = &**flow, "a copy found no way through the flow's queues");
            let (alarms, stray) = (&reader.with.alarms, names::stray(&reader.with.flow));
            match reader.with.needs.restore().await {
                Ok(_) => alarms.clear("queue_missing", &stray),
                Err(error) => {
                    let why = format!("copies find no way, and what is missing cannot be made: {error}");
                    alarms.raise("queue_missing", &stray, why);
                }
            }
            tokio::time::sleep(ASTRAY).await;
            reader.mending.store(false, Ordering::Release);
        });
    }
}
