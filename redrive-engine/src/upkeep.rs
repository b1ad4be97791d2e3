//! Retention, applied in small steps.
//!
//! A ledger that removes a month at once stalls the flow beside it. So a little is removed at a time, with a pause
//! after each step, until nothing is left to remove; then nothing happens until the next round.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::port::{Clock, Ledger, Retention};

/// Entries removed in one step.
const STEP: u64 = 200;
/// The pause after a step.
const PAUSE: Duration = Duration::from_millis(20);

/// Keeps a ledger tidy while the process runs.
#[derive(Debug)]
pub struct Upkeep {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Upkeep {
    /// Starts with a round, and makes another one every `every`.
    pub fn start(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        retention: Retention,
        every: Duration,
    ) -> Self {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(async move {
            loop {
                let wait = match ledger.tidy(&retention, STEP, clock.now()).await {
                    Ok(0) => every,
                    Ok(_) => PAUSE,
                    Err(error) => {
                        tracing::warn!(error = %error, "retention waits: the ledger does not answer");
                        every
                    }
                };
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
        Self { task, stop }
    }

    /// Ends after the step that is being made.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
