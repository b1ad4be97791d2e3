//! Bodies that the ledger left to the broker are copied before the broker drops them.

use std::time::Duration;

use tokio::time::Instant;

use super::duties::Duty;
use super::{Inner, log};
use crate::bodies::bring_bodies;
use crate::port::{PortError, SourceRef};

/// How often the broker is asked what it will not keep for much longer. Its margin is a minute at least.
const EVERY: Duration = Duration::from_secs(10);
/// Bodies of one partition that are asked for at once, and bodies that are copied before other duties have their turn.
const PAGE: usize = 200;
const MOST: usize = 1_000;

/// When the broker is asked again.
#[derive(Debug, Default)]
pub(super) struct Watch {
    next: Option<Instant>,
}

impl Inner {
    /// Copies the bodies that are about to go, when it is time to look. What cannot be copied is said, and tried again.
    pub(super) async fn save_bodies(&self, watch: &mut Watch) {
        if watch.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let copied = self.copy_expiring().await;
        if let Err(error) = &copied {
            log::not_copied(&self.flow, error);
        }
        let copied = self.duties.done(&self.flow, Duty::CopyBodies, copied);
        // There is more than one go should take: the rest is for the next one.
        let more = copied.is_some_and(|copied| copied >= MOST);
        watch.next = (!more).then(|| Instant::now() + EVERY);
    }

    async fn copy_expiring(&self) -> Result<usize, PortError> {
        let lowest = self.ledger.lowest_pointers(&self.flow).await?;
        if lowest.is_empty() {
            return Ok(0);
        }
        let limits = self.outer.expiring(&lowest).await?;
        let (mut copied, mut failed) = (0, None);
        for (place, limit) in lowest.into_iter().zip(limits) {
            let Some(limit) = limit.filter(|limit| place.offset < Some(*limit)) else { continue };
            let before = SourceRef { offset: Some(limit), ..place };
            // A partition that cannot be read does not cost the others their bodies.
            if let Err(error) = self.copy_before(&before, &mut copied).await {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(copied), Err)
    }

    async fn copy_before(&self, before: &SourceRef, copied: &mut usize) -> Result<(), PortError> {
        while *copied < MOST {
            let page = self.ledger.pointers_before(&self.flow, before, PAGE).await?;
            bring_bodies(&*self.ledger, &*self.outer, &page).await?;
            *copied += page.len();
            if page.len() < PAGE {
                break;
            }
        }
        Ok(())
    }
}
