//! Copies that were handed out and of whose end the ledger does not know.
//!
//! A person may send a message another way at the very moment at which its copy is being handled. The ledger cannot know of
//! that, but here it is known: what the ledger's own queue hands out of the same entry waits until the copy has come to an
//! end. When the copy succeeded it ends the same way; else it goes back, since there is something left to do.
//!
//! What that queue hands out may also have been read from it before the ledger heard that the copy had succeeded. So those
//! that have are known for a while longer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long it is known which copies have succeeded: longer than reading takes.
const KNOWN: Duration = Duration::from_secs(30);
/// How many of them are known at most.
const MOST_KNOWN: usize = 10_000;

use crate::port::{Delivery, EntryId, Outcome, Settlement};

#[derive(Debug, Default)]
pub(super) struct InHand {
    entries: Mutex<HashMap<EntryId, Copies>>,
    ended: Notify,
    succeeded: Mutex<Succeeded>,
}

/// Attempts that have succeeded lately.
#[derive(Debug, Default)]
struct Succeeded {
    known: HashSet<Attempt>,
    order: VecDeque<(Instant, Attempt)>,
}

impl Succeeded {
    fn add(&mut self, attempt: Attempt, now: Instant) {
        while self.order.len() >= MOST_KNOWN || self.order.front().is_some_and(|(at, _)| *at + KNOWN < now) {
            let Some((_, old)) = self.order.pop_front() else { break };
            self.known.remove(&old);
        }
        if self.known.insert(attempt) {
            self.order.push_back((now, attempt));
        }
    }
}

/// An attempt of an entry: one that is sent again by a person begins anew, and is another.
type Attempt = (EntryId, u32);

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
        if let (true, Some(attempt)) = (succeeded, attempt_of(&settlement.delivery)) {
            self.succeeded().add(attempt, Instant::now());
        }
        self.end_as(&settlement.delivery, succeeded.then_some(settlement));
    }

    fn succeeded(&self) -> MutexGuard<'_, Succeeded> {
        self.succeeded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy of the same attempt has succeeded lately: what was read before the ledger heard of that is over.
    pub(super) fn has_succeeded(&self, delivery: &Delivery) -> bool {
        attempt_of(delivery).is_some_and(|attempt| self.succeeded().known.contains(&attempt))
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

/// The attempt that a message waits for; nothing for one that a replay sends, which is to be handled again.
fn attempt_of(delivery: &Delivery) -> Option<Attempt> {
    let attempt = delivery.trail.attempt;
    entry_of(delivery)
        .filter(|_| attempt > 0 && delivery.trail.replay.is_none())
        .map(|entry| (entry, attempt))
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
    use crate::port::{Carried, DeliveryParts, SourceRef, Tag};

    fn copy_of(entry: EntryId) -> Delivery {
        let trail = Trail { entry_id: Some(entry.to_string().into()), ..Trail::default() };
        Delivery::from(DeliveryParts {
            tag: Tag::APART,
            message: Message::default(),
            trail: Carried::from(trail),
            source: SourceRef { kind: "test".into(), name: "a".into(), partition: None, offset: None },
            ready_at: Timestamp::from_millis(0),
            redelivered: false,
        })
    }

    fn tried(entry: EntryId, attempt: u32, replay: bool) -> Delivery {
        let replay = replay.then(redrive_core::headers::Replay::default);
        let trail = Trail { entry_id: Some(entry.to_string().into()), attempt, replay, ..Trail::default() };
        let mut delivery = copy_of(entry);
        delivery.trail = Carried::from(trail);
        delivery
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_succeeded_is_known_for_a_while() {
        let (in_hand, entry) = (InHand::default(), EntryId::from_u128(7));
        let copy = tried(entry, 1, false);
        assert!(!in_hand.has_succeeded(&copy));
        in_hand.succeeded().add((entry, 1), Instant::now());
        assert!(in_hand.has_succeeded(&copy), "it was read from the ledger's queue before that");
        assert!(!in_hand.has_succeeded(&tried(entry, 2, false)), "it has failed since");
        assert!(!in_hand.has_succeeded(&tried(entry, 1, true)), "somebody wants it again");
        assert!(!in_hand.has_succeeded(&tried(EntryId::from_u128(8), 1, false)));
        tokio::time::advance(KNOWN + Duration::from_millis(1)).await;
        in_hand.succeeded().add((EntryId::from_u128(9), 1), Instant::now());
        assert!(!in_hand.has_succeeded(&copy));
        for number in 0..20_000 {
            in_hand.succeeded().add((EntryId::from_u128(number), 1), Instant::now());
        }
        let succeeded = in_hand.succeeded();
        assert_eq!((succeeded.known.len(), succeeded.order.len()), (MOST_KNOWN, MOST_KNOWN));
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
