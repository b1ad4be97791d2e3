//! Where copies are that should have come.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use redrive_core::Timestamp;
use redrive_engine::port::{EntryId, Overdue, PortError, Whereabouts};
use tokio::time::Instant;

use super::RabbitBroker;
use crate::reader::Sight;
use crate::watch::{Seen, Watch};
use crate::{QueueKind, names};

impl RabbitBroker {
    pub(super) fn watch(&self) -> MutexGuard<'_, Option<Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether all that came is in this reader's hands. Answers with the entries whose copies are.
    async fn keep_watch(&self) -> Result<HashSet<EntryId>, PortError> {
        let Some(reader) = self.reader() else {
            return Err(PortError::Unavailable("nobody reads the queue".to_owned()));
        };
        let (at, instant) = (self.clock.now(), Instant::now());
        let stray = self.look.count(&names::stray(&self.flow)).await?.unwrap_or_default();
        let Sight { ready, others, epoch, in_hand } = reader.sight().await?;
        let seen = Seen { at, instant, epoch, others, empty: ready == 0 && stray.ready == 0 };
        match &mut *self.watch() {
            Some(watch) => watch.look(seen),
            none => *none = Some(Watch::begin(seen)),
        }
        Ok(in_hand)
    }

    /// A copy has no number in its queue: all have passed when nothing lies anywhere that one could be, and nobody else
    /// could have it.
    pub(super) async fn has_passed_all(&self) -> Result<bool, PortError> {
        let stream = self.flow.kind == QueueKind::Stream;
        if stream || self.others().await? > 0 || self.ready_in_source().await? > 0 {
            return Ok(false);
        }
        let mut places = self.copies.delays().queues();
        places.push(names::stray(&self.flow));
        for queue in places {
            if self.look.count(&queue).await?.is_some_and(|counted| counted.ready > 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where these are. What this reader alone can have had, and has not, is missing once its way is over; any other has
    /// passed when there is nothing left that could be it.
    pub(super) async fn where_are(
        &self,
        copies: &[Overdue],
        told_since: Timestamp,
    ) -> Result<Vec<Whereabouts>, PortError> {
        if !self.flow.waits() {
            return Ok(vec![Whereabouts::Coming; copies.len()]);
        }
        let in_hand = match self.keep_watch().await {
            Ok(in_hand) => in_hand,
            Err(error) => {
                // Who reads while nobody looks is not known.
                *self.watch() = None;
                return Err(error);
            }
        };
        let mut found: Vec<Whereabouts> = self.sort_out(copies, &in_hand, told_since);
        if found.contains(&Whereabouts::Passed) && !self.has_passed_all().await? {
            let passed = found.iter_mut().filter(|one| **one == Whereabouts::Passed);
            passed.for_each(|one| *one = Whereabouts::Coming);
        }
        Ok(found)
    }

    /// Those of which only the queues can tell stand as passed.
    fn sort_out(
        &self,
        copies: &[Overdue],
        in_hand: &HashSet<EntryId>,
        told_since: Timestamp,
    ) -> Vec<Whereabouts> {
        let latest = self.copies.delays().latest();
        let watch = self.watch();
        let of = |copy: &Overdue| match &*watch {
            _ if in_hand.contains(&copy.entry) => Whereabouts::Coming,
            Some(watch) if copy.due_at >= told_since && watch.saw(copy.due_at) => {
                if watch.misses(copy.due_at, latest) { Whereabouts::Missing } else { Whereabouts::Coming }
            }
            _ => Whereabouts::Passed,
        };
        copies.iter().map(of).collect()
    }
}
