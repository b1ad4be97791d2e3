//! Copies that were handed out and of whose end the ledger does not know.
//!
//! A person may send a message another way at the very moment at which its copy is being handled. The ledger cannot know of
//! that, but here it is known: what the ledger's own queue hands out of the same entry waits until the copy has come to an
//! end. When the copy succeeded it ends the same way; else it goes back, since there is something left to do.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::port::{Delivery, EntryId, Outcome, Settlement};

#[derive(Debug, Default)]
pub(super) struct InHand {
    entries: Mutex<HashMap<EntryId, Copies>>,
    ended: Notify,
}

/// The copies of an entry.
#[derive(Debug, Default)]
struct Copies {
    in_hand: u32,
    /// How many wait for their end.
    awaited: u32,
    /// How one of them ended, when it succeeded.
    succeeded: Option<Box<Settlement>>,
}

impl InHand {
    fn entries(&self) -> MutexGuard<'_, HashMap<EntryId, Copies>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, entry: EntryId) {
        self.entries().entry(entry).or_default().in_hand += 1;
    }

    /// A copy has come to an end; usually the message is not one.
    pub(super) fn end(&self, delivery: &Delivery) {
        self.end_as(delivery, None);
    }

    /// The ledger was told of the end of a copy.
    pub(super) fn told(&self, settlement: &Settlement) {
        let succeeded = settlement.outcome == Outcome::Ack && settlement.record.is_some();
        self.end_as(&settlement.delivery, succeeded.then_some(settlement));
    }

    fn end_as(&self, delivery: &Delivery, succeeded: Option<&Settlement>) {
        let Some(entry) = entry_of(delivery) else { return };
        let mut entries = self.entries();
        let Some(copies) = entries.get_mut(&entry).filter(|copies| copies.in_hand > 0) else { return };
        copies.in_hand -= 1;
        if copies.awaited > 0 {
            copies.succeeded = succeeded.cloned().map(Box::new).or(copies.succeeded.take());
        }
        if copies.in_hand == 0 {
            if copies.awaited == 0 {
                entries.remove(&entry);
            }
            drop(entries);
            self.ended.notify_waiters();
        }
    }

    /// A new reader: what an earlier one had is handed out again.
    pub(super) fn clear(&self) {
        self.entries().clear();
        self.ended.notify_waiters();
    }

    /// Whether a copy of the same entry is in hand. Whoever asks then awaits its end.
    pub(super) fn await_end(&self, delivery: &Delivery) -> bool {
        let Some(entry) = entry_of(delivery) else { return false };
        match self.entries().get_mut(&entry).filter(|copies| copies.in_hand > 0) {
            Some(copies) => {
                copies.awaited += 1;
                true
            }
            None => false,
        }
    }

    /// Waits until no copy of the same entry is in hand. The answer is how one of them ended, when it succeeded.
    pub(super) async fn gone(&self, delivery: &Delivery) -> Option<Box<Settlement>> {
        let entry = entry_of(delivery)?;
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            {
                let mut entries = self.entries();
                let copies = entries.get_mut(&entry)?;
                if copies.in_hand == 0 {
                    copies.awaited = copies.awaited.saturating_sub(1);
                    let succeeded = copies.succeeded.clone();
                    if copies.awaited == 0 {
                        entries.remove(&entry);
                    }
                    return succeeded;
                }
            }
            ended.await;
        }
    }
}

/// The entry that a message carries.
pub(super) fn entry_of(delivery: &Delivery) -> Option<EntryId> {
    delivery.trail.entry_id.as_deref().and_then(|id| EntryId::parse_str(id).ok())
}

#[cfg(test)]
mod tests {
    use redrive_core::headers::Trail;
    use redrive_core::{Message, Timestamp};

    use super::*;
    use crate::port::{Carried, SourceRef, Tag};

    fn copy_of(entry: EntryId) -> Delivery {
        let trail = Trail { entry_id: Some(entry.to_string().into()), ..Trail::default() };
        Delivery {
            tag: Tag::APART,
            message: Message::default(),
            trail: Carried::from(trail),
            source: SourceRef { kind: "test".into(), name: "a".into(), partition: None, offset: None },
            ready_at: Timestamp::from_millis(0),
            redelivered: false,
        }
    }

    #[tokio::test]
    async fn whoever_waits_learns_how_the_copy_ended() {
        let (in_hand, entry) = (InHand::default(), EntryId::from_u128(7));
        let copy = copy_of(entry);
        assert!(!in_hand.await_end(&copy), "nothing is in hand");
        in_hand.take(entry);
        assert!(in_hand.await_end(&copy));
        in_hand.end(&copy);
        assert!(in_hand.gone(&copy).await.is_none(), "it did not succeed");
        assert!(in_hand.entries().is_empty());
    }
}
