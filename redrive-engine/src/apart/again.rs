//! What comes again of what waits in the ledger.
//!
//! A wait in the ledger is written down before the broker lets go. A process that dies in between leaves both: the ledger
//! hands the message out when it is due, and the broker once more what it did not learn of. That one is known by its place.

use super::Inner;
use super::in_hand::entry_of;
use crate::port::{Asked, Delivery, LaneName, PortError, ReadAt, Standing};

/// A question names a lane; nobody waits in this one.
const NO_LANE: &str = "";

impl Inner {
    /// Whether the ledger has to be asked for a message before it is handed out, although that is no copy.
    pub(super) fn may_come_again(&self, delivery: &Delivery) -> bool {
        self.options.delay_in_ledger && entry_of(delivery).is_none() && delivery.source.offset.is_some()
    }

    /// Which of these the ledger has already.
    pub(super) async fn known(&self, fresh: &[&Delivery]) -> Result<Vec<bool>, PortError> {
        if fresh.is_empty() {
            return Ok(Vec::new());
        }
        let ask = |delivery: &&Delivery| {
            let read_at = ReadAt { source: delivery.source.clone(), published_at: delivery.ready_at };
            Asked { lane: LaneName::from_stored(NO_LANE), entry: None, read_at: Some(read_at) }
        };
        let asked: Vec<Asked> = fresh.iter().map(ask).collect();
        let standings = self.ledger.standings(&self.flow, &asked).await?;
        Ok(standings.into_iter().map(|standing| standing == Standing::Known).collect())
    }
}
