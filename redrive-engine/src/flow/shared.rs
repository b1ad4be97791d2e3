//! What the parts of a running flow share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redrive_core::guard::Outcome as Shown;
use redrive_core::headers::Trail;
use redrive_core::{Action, Random as _, SplitMix64};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::divert::Diversion;
use super::gate::Gate;
use super::guards::{Guards, Ticket};
use super::job::Job;
use super::log;
use super::metrics::FlowMetrics;
use super::spec::FlowSpec;
use super::trouble::Trouble;
use crate::port::{Broker, Clock, Delivery, EntryState, Ledger, Outcome, Room, Settlement};

/// How long a handler may take to end, however much of a stop's time is left.
const HANDLER_ENDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// The flow stops.
#[derive(Debug)]
pub(crate) struct Stopped;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) spec: FlowSpec,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guards: Guards,
    pub(crate) gate: Gate,
    pub(crate) trouble: Trouble,
    pub(crate) metrics: FlowMetrics,
    /// Jobs that can be worked on. Bounded by the room in hand.
    pub(crate) jobs: async_channel::Receiver<Job>,
    pub(crate) to_jobs: async_channel::Sender<Job>,
    /// Jobs that wait in hand for longer than a slot should be kept.
    pub(crate) aside: mpsc::UnboundedSender<(Job, Duration)>,
    pub(crate) settlements: mpsc::UnboundedSender<Settlement>,
    pub(crate) in_hand: InHand,
    /// No new attempts.
    pub(crate) stop: CancellationToken,
    /// No running attempts either.
    pub(crate) abort: CancellationToken,
    /// No patience with a broker that is away.
    pub(crate) force: CancellationToken,
    pub(crate) nothing_diverted: Arc<[String]>,
    pub(crate) seed: AtomicU64,
}

/// How much is in hand, and who waits for it to become less.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    released: Notify,
}

impl InHand {
    pub(crate) fn take(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, messages: usize, bytes: usize) {
        self.messages.fetch_sub(messages, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.released.notify_one();
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    /// Waits until there is room for at least one more message.
    pub(crate) async fn room(&self, spec: &FlowSpec) -> Room {
        loop {
            let released = self.released.notified();
            let messages = spec.prefetch.saturating_sub(self.messages.load(Ordering::Relaxed));
            let bytes = spec.prefetch_bytes.saturating_sub(self.bytes.load(Ordering::Relaxed));
            if messages > 0 && bytes > 0 {
                return Room { messages, bytes };
            }
            released.await;
        }
    }
}

impl Shared {
    /// Sleeps unless the flow stops first.
    pub(crate) async fn sleep(&self, wait: Duration) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopped),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    pub(crate) fn report(&self, ticket: Ticket, shown: Shown, took: Duration) {
        let now = self.clock.monotonic();
        if let Some(state) = self.guards.report(now, ticket, shown, took) {
            log::breaker(&self.spec, state);
            self.metrics.breaker(state);
        }
    }

    pub(crate) fn settle(&self, settlement: Settlement) {
        // The settler outlives every worker, so there is always someone to take it.
        let _ = self.settlements.send(settlement);
    }

    pub(crate) fn wait_aside(&self, job: Job, after: Duration) {
        if let Err(mpsc::error::SendError((job, after))) = self.aside.send((job, after)) {
            self.put_down(job, after);
        }
    }

    /// Puts a job down that will not be worked on any further now. Attempts that were made in hand are written down,
    /// and the message is due after the wait that was decided; one that was not tried goes back as it was.
    pub(crate) fn put_down(&self, mut job: Job, after: Duration) {
        self.gate.open(job.delivery.tag);
        let last = job.last.take().filter(|_| job.in_hand > 0);
        let Some(last) = last else {
            let delivery = job.delivery;
            let outcome = Outcome::Return;
            return self.settle(Settlement {
                delivery,
                outcome,
                trail: None,
                record: None,
                processed_by: None,
            });
        };
        let now = self.clock.now();
        let mut decision = last.decision;
        decision.action = Action::RetryInPlace { after };
        let mut rng = SplitMix64::new(self.seed.fetch_add(1, Ordering::Relaxed));
        let diversion = Diversion {
            spec: &self.spec,
            facts: &last.facts,
            failure: &last.failure,
            decision: &decision,
            attempts_allowed: last.attempts_allowed,
            began: last.began,
            now,
            random: [rng.next_u64(), rng.next_u64()],
        };
        self.settle(diversion.settle(job));
    }

    /// Ends what the handler keeps running, within what is left of a stop's time; at once when that is hurried.
    pub(crate) async fn end_handler(&self, until: tokio::time::Instant) {
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        let (least, most) = HANDLER_ENDS;
        let hurried = self.force.is_cancelled();
        self.spec.handler.shutdown(if hurried { Duration::ZERO } else { left.clamp(least, most) }).await;
    }

    /// Releases a delivery without a word about it.
    pub(crate) fn release(&self, job: Job) {
        self.gate.open(job.delivery.tag);
        let (delivery, outcome) = (job.delivery, Outcome::Ack);
        self.settle(Settlement { delivery, outcome, trail: None, record: None, processed_by: None });
    }

    /// Whether this is a second copy of what a replay has sent: the message's entry has come to an end since.
    ///
    /// Only what the ledger has finished, or keeps itself, is taken for a double, so that dropping it loses nothing.
    pub(crate) async fn is_double(&self, delivery: &Delivery) -> bool {
        let Trail { attempt: 0, replay: Some(_), entry_id: Some(id), .. } = &delivery.trail else {
            return false;
        };
        let entry = match self.ledger.entry(id).await {
            Ok(Some(entry)) if delivery.message.id == *entry.message.id => entry,
            Ok(_) => return false,
            Err(error) => {
                log::ledger_away(&self.spec, &error);
                return false;
            }
        };
        let open = matches!(entry.state, EntryState::Replaying | EntryState::Waiting | EntryState::Held);
        if !open {
            log::double(&self.spec, &delivery.message, entry.state);
        }
        !open
    }

    pub(crate) async fn was_processed(&self, id: &str) -> bool {
        match self.ledger.processed(&self.spec.name, &[id]).await {
            Ok(marks) => marks.first() == Some(&true),
            // Not knowing means calling: at least once is the promise.
            Err(error) => {
                log::ledger_away(&self.spec, &error);
                false
            }
        }
    }
}
