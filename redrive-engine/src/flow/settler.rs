//! The settler: ends deliveries in batches, as large as what has arrived meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::projection::Projection;
use super::shared::{Released, Shared};
use super::{instead, log};
use crate::fail;
use crate::port::{PortError, Settlement};

const BATCH: usize = 1_024;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Settles until `last` says that nothing more will come and nothing is left.
pub(crate) async fn settle(
    shared: Arc<Shared>,
    mut arriving: mpsc::UnboundedReceiver<Settlement>,
    last: CancellationToken,
) {
    let mut batch: Vec<Settlement> = Vec::with_capacity(BATCH);
    let mut projection = Projection::default();
    loop {
        tokio::select! {
            biased;
            _ = arriving.recv_many(&mut batch, BATCH) => {}
            () = last.cancelled(), if !arriving.is_closed() => arriving.close(),
            () = projection.is_due() => {}
        }
        if !batch.is_empty() {
            settle_all(&shared, &mut batch, &mut projection).await;
        } else if arriving.is_closed() && arriving.is_empty() {
            return projection.finish(&shared).await;
        }
        projection.tell(&shared).await;
    }
}

/// Settles a whole batch, however often the broker has to be asked.
async fn settle_all(shared: &Shared, batch: &mut Vec<Settlement>, projection: &mut Projection) {
    let mut wait = FIRST_WAIT;
    while !batch.is_empty() {
        let started = shared.clock.monotonic();
        fail::point("engine.before_settle");
        let results = shared.broker.settle(batch).await;
        fail::point("engine.after_settle");
        debug_assert_eq!(results.len(), batch.len());
        shared.metrics.settled(shared.clock.monotonic().saturating_sub(started));

        let mut again = Vec::new();
        let mut released = Released::default();
        let mut problem = None;
        let apart = !shared.broker.capabilities().records_in_settle;
        for (mut settlement, result) in batch.drain(..).zip(results) {
            match result {
                Err(error @ (PortError::Unavailable(_) | PortError::Broken(_))) => {
                    problem = Some(error);
                    again.push(settlement);
                    continue;
                }
                Err(PortError::Refused(refusal)) if instead::park(&mut settlement, &refusal) => {
                    log::parked_instead(&shared.spec, &settlement, &refusal);
                    again.push(settlement);
                    continue;
                }
                // It is not ours any more; whoever has it now decides.
                Err(PortError::Refused(refusal)) => {
                    log::not_settled(&shared.spec, &settlement, &refusal);
                    shared.tell_after(&settlement, Some(&refusal));
                }
                Ok(()) => {
                    if apart {
                        projection.add(&settlement);
                    }
                    shared.tell_after(&settlement, None);
                }
            }
            released.add(&settlement.delivery);
            shared.has_settled(&settlement);
        }
        // The ledger is told before the room is given back: what comes in next finds its marks.
        projection.tell(shared).await;
        shared.in_hand.release(released);
        *batch = again;
        if let Some(problem) = problem {
            log::broker_away(&shared.spec, &problem, batch.len());
            shared.cannot_settle(&problem);
            tokio::select! {
                () = shared.force.cancelled() => {
                    log::given_up(&shared.spec, batch.len());
                    batch.clear();
                }
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            }
        } else {
            shared.settles();
        }
    }
}
