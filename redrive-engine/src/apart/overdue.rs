//! Copies that should have come.
//!
//! What the broker has passed without a word about it has recovered. What lies nowhere and cannot have come unseen is
//! missing: that is no recovery, and a person is told.

use std::collections::HashSet;
use std::time::Duration;

use redrive_core::Timestamp;

use super::Inner;
use crate::port::{EntryId, Overdue, PortError, Subscription, Whereabouts};

/// Copies that are asked for at once, and how often that is done in one go.
const PAGE: usize = 1_000;
const PAGES: usize = 5;

/// How far the look for overdue copies has come. A round goes over all of them, in as many goes as it takes.
#[derive(Debug)]
pub(super) struct Look {
    /// Where it goes on; nothing where a round begins.
    at: Option<(Timestamp, EntryId)>,
    /// Since when the ledger has heard of everything that was settled.
    told_since: Timestamp,
    /// How much it had not heard of then.
    unheard: u64,
    /// What this round has found to be missing.
    found: Vec<Overdue>,
    /// What the last round found: it is not taken for recovered any more.
    missing: HashSet<EntryId>,
}

impl Look {
    /// A look by somebody who begins to read now.
    pub(super) fn begin(now: Timestamp) -> Self {
        Self { at: None, told_since: now, unheard: 0, found: Vec::new(), missing: HashSet::new() }
    }
}

impl Inner {
    /// Looks for copies that should have come. Those that the broker has passed, without a word about them, have recovered.
    pub(super) async fn look_for_overdue(
        &self,
        subscription: &Subscription,
        begun: bool,
        look: &mut Look,
    ) -> Result<(), PortError> {
        let unheard = self.projection.unheard();
        if unheard != look.unheard {
            (look.unheard, look.told_since) = (unheard, self.now());
        }
        let (overdue, pages) =
            if begun { (self.options.overdue, PAGES) } else { (Duration::ZERO, usize::MAX) };
        let overdue = i64::try_from(overdue.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(self.now().as_millis().saturating_sub(overdue));
        let (copies, next) = self.overdue(before, look.at, pages).await?;
        let sight = self.outer.whereabouts(&copies, look.told_since).await?;
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        for (copy, sight) in copies.into_iter().zip(sight) {
            match sight {
                Whereabouts::Passed if !look.missing.contains(&copy.entry) => gone.push(copy),
                Whereabouts::Missing => missing.push(copy),
                Whereabouts::Passed | Whereabouts::Coming => {}
            }
        }
        if !gone.is_empty() {
            // The broker itself may have moved a copy on, and what became of it may not have been told: the ledger learns
            // of all that lies there by now. What is still thought to wait in its old place is nowhere else.
            self.adopt_shelves(subscription, true).await?;
            if !self.all_told().await {
                return Ok(());
            }
            self.ledger.passed(&gone, self.now()).await?;
        }
        if missing.iter().any(|copy| !look.missing.contains(&copy.entry)) {
            // It may have come, and been settled, since the ledger was asked.
            drop(self.moving.write().await);
            self.projection.tell(&*self.ledger, &self.flow).await?;
            if self.projection.unheard() != look.unheard {
                return Ok(());
            }
            let (still, _) = self.overdue(before, look.at, pages).await?;
            let still: HashSet<_> = still.iter().map(Overdue::cursor).collect();
            missing.retain(|copy| still.contains(&copy.cursor()));
        }
        look.found.append(&mut missing);
        look.at = next;
        if look.at.is_none() {
            let found = std::mem::take(&mut look.found);
            look.missing = found.iter().map(|copy| copy.entry).collect();
            self.outer.missing(&found).await;
        }
        Ok(())
    }

    /// Overdue copies from here on, and where the next ones begin.
    async fn overdue(
        &self,
        before: Timestamp,
        mut at: Option<(Timestamp, EntryId)>,
        pages: usize,
    ) -> Result<(Vec<Overdue>, Option<(Timestamp, EntryId)>), PortError> {
        let mut copies = Vec::new();
        for _ in 0..pages {
            let mut page = self.ledger.overdue(&self.flow, before, at, PAGE).await?;
            at = page.last().filter(|_| page.len() == PAGE).map(Overdue::cursor);
            copies.append(&mut page);
            if at.is_none() {
                break;
            }
        }
        Ok((copies, at))
    }

    /// Waits for what is being settled. Whether the ledger has heard of all of it.
    async fn all_told(&self) -> bool {
        drop(self.moving.write().await);
        self.projection.is_empty() && self.projection.missed().is_none()
    }
}
