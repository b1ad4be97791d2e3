//! Sends replays back, at their rate.
//!
//! What is to be sent, and what has been, stands in the ledger. The driver only decides when the next step is made, so
//! that it can die at any moment and go on anywhere: a step that was made is not made again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::guard::RateLimit;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::port::{Clock, EntryId, Ledger, PortError, Replay, ReplayState};
use crate::replay_figures::ReplayFigures;

/// Entries sent in one step, so that a replay without a rate does not keep the flow's own work waiting.
const STEP: u64 = 100;
/// The longest wait for a ledger that does not answer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Replays looked at. Those that run are among the newest: an older one has ended long since.
const LOOKED_AT: usize = 1_000;

/// Drives every replay of a ledger that runs. One for each ledger is enough; a second does no harm beyond doubling the
/// rate.
#[derive(Debug)]
pub struct ReplayDriver {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl ReplayDriver {
    /// Starts. Replays that were begun, resumed or cancelled meanwhile are noticed every `look`.
    pub fn start(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, look: Duration) -> Self {
        let stop = CancellationToken::new();
        let driving = Driving { ledger, clock, rates: HashMap::new(), figures: ReplayFigures::default() };
        Self { task: tokio::spawn(drive(driving, look, stop.clone())), stop }
    }

    /// Ends after the step that is being made. Replays stay as they are and go on with the next driver.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for ReplayDriver {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn drive(mut driving: Driving, look: Duration, stop: CancellationToken) {
    let mut patience = look;
    loop {
        let wait = match driving.round().await {
            Ok(wait) => {
                patience = look;
                wait.unwrap_or(look).min(look)
            }
            Err(error) => {
                tracing::warn!(error = %error, "replays do not go on; trying again");
                patience = (patience * 2).min(LONGEST_WAIT.max(look));
                patience
            }
        };
        // Never without a pause, so that a stop and the rest of the process get their turn.
        let wait = wait.max(Duration::from_millis(1));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

struct Driving {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    /// What each rate still allows. After a restart it begins anew, with at most one second's worth at once.
    rates: HashMap<EntryId, RateLimit>,
    figures: ReplayFigures,
}

impl Driving {
    /// One step of every replay that runs; answers how soon the next round makes sense, if sooner than usual.
    async fn round(&mut self) -> Result<Option<Duration>, PortError> {
        let replays = self.ledger.replays(LOOKED_AT).await?;
        self.figures.look(&replays);
        let running: Vec<Replay> =
            replays.into_iter().filter(|replay| replay.state == ReplayState::Running).collect();
        self.rates.retain(|id, _| running.iter().any(|replay| replay.id == *id));
        let mut next: Option<Duration> = None;
        let mut failed = None;
        for replay in running {
            match self.step(&replay).await {
                Ok(Some(wait)) => next = Some(next.map_or(wait, |next| next.min(wait))),
                Ok(None) => {}
                // One whose bodies cannot be fetched does not keep the others waiting.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(next), Err)
    }

    /// One step of one replay; nothing when all is sent and only outcomes are open.
    async fn step(&mut self, replay: &Replay) -> Result<Option<Duration>, PortError> {
        let now = self.clock.monotonic();
        let left = replay.total.saturating_sub(replay.sent).saturating_sub(replay.skipped);
        let (limit, wait) = match replay.rate {
            None => (STEP, Duration::ZERO),
            Some(rate) => {
                let bucket = self.rates.entry(replay.id).or_insert_with(|| RateLimit::new(rate));
                let mut allowed = 0;
                while allowed < STEP.min(left.max(1)) && bucket.try_take(now, 1).is_ok() {
                    allowed += 1;
                }
                (allowed, bucket.wait(now, 1))
            }
        };
        if left > 0 && limit == 0 {
            return Ok(Some(wait));
        }
        // With nothing left to send, a step finds out whether the replay has ended.
        let step = self.ledger.step_replay(replay.id, limit, self.clock.now()).await?;
        let more = step.state == ReplayState::Running && left > step.sent;
        Ok(more.then_some(wait))
    }
}
