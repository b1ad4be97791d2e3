//! The settler: ends deliveries in batches, as large as what has arrived meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::shared::{Shared, Weighed};
use super::{instead, log};
use crate::fail;
use crate::port::{PortError, Settlement};

const BATCH: usize = 4_096;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait while some of a batch is settled: others may be too.
const LONGEST_IN_PART: Duration = Duration::from_millis(500);

/// Settles until `last` says that nothing more will come and nothing is left.
pub(crate) async fn settle(
    shared: Arc<Shared>,
    mut arriving: mpsc::UnboundedReceiver<Settlement>,
    last: CancellationToken,
) {
    let mut batch: Vec<Settlement> = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            _ = arriving.recv_many(&mut batch, BATCH) => {}
            () = last.cancelled(), if !arriving.is_closed() => arriving.close(),
        }
        if !batch.is_empty() {
            settle_all(&shared, &mut batch, &mut arriving).await;
        } else if arriving.is_closed() && arriving.is_empty() {
            return;
        }
    }
}

/// Settles a whole batch, however often the broker has to be asked. What arrives while a part of it waits is settled with it,
/// behind it: a broker and a ledger apart are seldom away together.
async fn settle_all(
    shared: &Shared,
    batch: &mut Vec<Settlement>,
    arriving: &mut mpsc::UnboundedReceiver<Settlement>,
) {
    let mut wait = FIRST_WAIT;
    while !batch.is_empty() {
        let started = shared.clock.monotonic();
        fail::point("engine.before_settle");
        let results = shared.broker.settle(batch).await;
        fail::point("engine.after_settle");
        debug_assert_eq!(results.len(), batch.len());
        shared.metrics.settled(shared.clock.monotonic().saturating_sub(started));

        let mut again = Vec::new();
        let mut released = Weighed::default();
        let mut problem = None;
        for (mut settlement, result) in batch.drain(..).zip(results) {
            match result {
                Err(error @ (PortError::Unavailable(_) | PortError::Broken(_))) => {
                    problem = Some(error);
                    again.push(settlement);
                    continue;
                }
                Err(PortError::Refused(refusal)) if instead::park(shared, &mut settlement, &refusal) => {
                    log::parked_instead(&shared.spec, &settlement, &refusal);
                    again.push(settlement);
                    continue;
                }
                // It is not ours any more; whoever has it now decides.
                Err(PortError::Refused(refusal)) => {
                    log::not_settled(&shared.spec, &settlement, &refusal);
                    shared.tell_after(&settlement, Some(&refusal));
                }
                Ok(_) => {
                    shared.tell_after(&settlement, None);
                    shared.has_left(&settlement);
                }
            }
            released.add(&settlement.delivery);
            shared.has_settled(&settlement);
        }
        let in_part = released.messages > 0;
        shared.in_hand.release(released);
        *batch = again;
        let Some(problem) = problem else {
            shared.settles();
            continue;
        };
        log::broker_away(&shared.spec, &problem, batch.len());
        shared.cannot_settle(&problem);
        let patience = if in_part { wait.min(LONGEST_IN_PART) } else { wait };
        tokio::select! {
            () = shared.force.cancelled() => {
                log::given_up(&shared.spec, batch.len());
                batch.clear();
            }
            () = tokio::time::sleep(patience) => wait = (wait * 2).min(LONGEST_WAIT),
        }
        while batch.len() < BATCH
            && let Ok(arrived) = arriving.try_recv()
        {
            batch.push(arrived);
        }
    }
}
