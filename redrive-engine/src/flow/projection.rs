//! What a ledger that is apart from the broker still has to learn.
//!
//! The broker is the truth, so nothing waits for the ledger. But what it was not told while it was away would be
//! missing for good, and so it is told again, in order, until it listens.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::Text;
use tokio::time::Instant;

use super::log;
use super::shared::Shared;
use crate::port::{PortError, Record, Settlement};

/// Records that are kept for a ledger that is away. Beyond it the oldest are given up, which is logged.
const MOST: usize = 100_000;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What was settled and not told yet.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    records: Vec<Record>,
    /// Messages that a handler has processed.
    marks: Vec<(Arc<str>, Text)>,
    /// When to try again, and how long to wait after that; nothing while the ledger listens.
    again: Option<(Instant, Duration)>,
}

impl Projection {
    /// Adds what a settlement has to say.
    pub(crate) fn add(&mut self, settlement: &Settlement) {
        self.records.extend(settlement.record.as_deref().cloned());
        if let Some(handler) = &settlement.processed_by {
            self.marks.push((Arc::clone(handler), settlement.delivery.message.id.clone()));
        }
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.marks.is_empty()
    }

    /// Waits until it makes sense to try again; for ever while nothing is left to tell.
    pub(crate) async fn is_due(&self) {
        match self.again {
            Some((at, _)) if !self.is_empty() => tokio::time::sleep_until(at).await,
            _ => std::future::pending().await,
        }
    }

    /// Tells the ledger all there is, unless it was away a moment ago.
    pub(crate) async fn tell(&mut self, shared: &Shared) {
        if self.is_empty() || self.again.is_some_and(|(at, _)| Instant::now() < at) {
            return;
        }
        if let Err(error) = self.try_to_tell(shared).await {
            log::ledger_away(&shared.spec, &error);
            let wait = self.again.map_or(FIRST_WAIT, |(_, wait)| (wait * 2).min(LONGEST_WAIT));
            self.again = Some((Instant::now() + wait, wait));
            self.forget_the_oldest(shared);
        } else {
            self.again = None;
        }
    }

    async fn try_to_tell(&mut self, shared: &Shared) -> Result<(), PortError> {
        if !self.records.is_empty() {
            shared.ledger.record(&self.records).await?;
            self.records.clear();
        }
        while let Some((handler, _)) = self.marks.last() {
            let handler = Arc::clone(handler);
            let of_handler = |mark: &&(Arc<str>, Text)| mark.0 == handler;
            let ids: Vec<&str> = self.marks.iter().filter(of_handler).map(|(_, id)| id.as_str()).collect();
            shared.ledger.mark_processed(&handler, &ids, shared.clock.now()).await?;
            self.marks.retain(|mark| mark.0 != handler);
        }
        Ok(())
    }

    fn forget_the_oldest(&mut self, shared: &Shared) {
        let over = self.records.len().saturating_sub(MOST);
        if over > 0 {
            self.records.drain(..over);
            log::not_told(&shared.spec, over);
        }
        let over = self.marks.len().saturating_sub(MOST);
        self.marks.drain(..over);
    }

    /// The flow ends: tries on for as long as a stop may take, unless it is hurried.
    pub(crate) async fn finish(mut self, shared: &Shared) {
        let until = tokio::time::sleep(shared.spec.shutdown);
        tokio::pin!(until);
        loop {
            self.tell(shared).await;
            if self.is_empty() {
                return;
            }
            tokio::select! {
                () = shared.force.cancelled() => break,
                () = &mut until => break,
                () = self.is_due() => {}
            }
        }
        log::not_told(&shared.spec, self.records.len());
    }
}
