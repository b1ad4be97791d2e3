//! What the parts of a running flow share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redrive_core::guard::{BreakerState, Outcome as Shown};
use redrive_core::headers::Trail;
use redrive_core::{Action, Random as _, SplitMix64};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::alarms::{self, Alarms};
use super::aside::Aside;
use super::controls::Controls;
use super::desk::{Desk, Pick};
use super::divert::Diversion;
use super::doubt::Doubts;
use super::guards::Ticket;
use super::heads::Heads;
use super::job::Job;
use super::lanes::Lanes;
use super::log;
use super::metrics::FlowMetrics;
use super::revoking::Lost;
use super::spec::FlowSpec;
use super::times::Times;
use super::trouble::Trouble;
use crate::handler::Marks;
use crate::hook::Diverted;
use crate::journal::{Journal, Name};
use crate::port::{Broker, Clock, Delivery, EntryState, Ledger, Outcome, PortError, Room, Settlement, Tag};

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
    pub(crate) desk: Desk,
    /// Nothing in a flow that keeps no order.
    pub(crate) lanes: Option<Lanes>,
    pub(crate) controls: Controls,
    pub(crate) doubts: Doubts,
    pub(crate) trouble: Trouble,
    /// Streams that were lost.
    pub(crate) revoked: Lost,
    /// Messages that others wait for.
    pub(crate) heads: Arc<Heads>,
    pub(crate) metrics: FlowMetrics,
    pub(crate) alarms: Alarms,
    /// Jobs that wait in hand for longer than a slot should be kept.
    pub(crate) aside: mpsc::UnboundedSender<Aside>,
    pub(crate) settlements: mpsc::UnboundedSender<Settlement>,
    /// What the hook after a diversion is told; nothing when there is none.
    pub(crate) after: Option<mpsc::Sender<Diverted>>,
    /// Nothing is settled any more.
    pub(crate) settled_all: CancellationToken,
    pub(crate) in_hand: InHand,
    /// No new attempts.
    pub(crate) stop: CancellationToken,
    /// No running attempts either.
    pub(crate) abort: CancellationToken,
    /// No patience with a broker that is away.
    pub(crate) force: CancellationToken,
    /// Whether it stops: asked for every message, so it costs no lock.
    pub(crate) stopping: AtomicBool,
    /// Where handlers keep the marks of `once`.
    pub(crate) marks: Arc<Marks>,
    pub(crate) seed: AtomicU64,
}

/// How much is in hand, and who waits for it to become less.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Of the messages, those that failed before.
    retries: AtomicUsize,
    /// There may be more room than there was.
    pub(crate) released: Notify,
}

/// What comes into the hand, or left it.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Weighed {
    pub(crate) messages: usize,
    bytes: usize,
    retries: usize,
}

impl Weighed {
    pub(crate) fn add(&mut self, delivery: &Delivery) {
        self.messages += 1;
        self.bytes += Job::weight(delivery);
        self.retries += usize::from(delivery.trail.attempt > 0);
    }
}

impl InHand {
    pub(crate) fn take(&self, deliveries: &[Delivery]) {
        let mut taken = Weighed::default();
        for delivery in deliveries {
            taken.add(delivery);
        }
        self.messages.fetch_add(taken.messages, Ordering::Relaxed);
        self.bytes.fetch_add(taken.bytes, Ordering::Relaxed);
        self.retries.fetch_add(taken.retries, Ordering::Relaxed);
    }

    /// One that was taken in as a fresh message turns out to have failed before: it leaves as a retry.
    pub(crate) fn is_a_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, released: Weighed) {
        self.messages.fetch_sub(released.messages, Ordering::Relaxed);
        self.bytes.fetch_sub(released.bytes, Ordering::Relaxed);
        self.retries.fetch_sub(released.retries, Ordering::Relaxed);
        self.released.notify_one();
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    /// The room there is. Retries get at most half of it, so that a backlog of them, which the retry budget lets through
    /// slowly, leaves room for fresh messages.
    fn room(&self, spec: &FlowSpec) -> Room {
        let messages = spec.prefetch.saturating_sub(self.messages.load(Ordering::Relaxed));
        let bytes = spec.prefetch_bytes.saturating_sub(self.bytes.load(Ordering::Relaxed));
        let most = spec.prefetch.div_ceil(2);
        let retries = most.saturating_sub(self.retries.load(Ordering::Relaxed));
        Room { messages, bytes, retries }
    }
}

impl Shared {
    /// The room for more. Nothing while the flow holds, and few while it finds out whether it still has to.
    pub(crate) fn room(&self) -> Option<Room> {
        let appetite = self.desk.appetite();
        let mut room = self.in_hand.room(&self.spec);
        room.messages = room.messages.min(appetite.messages.saturating_sub(self.in_hand.messages()));
        if !appetite.retries {
            room.retries = 0;
        }
        (room.messages > 0 && room.bytes > 0).then_some(room)
    }

    /// No new attempts begin.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stop.cancel();
    }

    /// The next message to handle; nothing when the flow stops.
    pub(crate) async fn next_job(&self, times: &mut Times) -> Option<(Box<Job>, Ticket)> {
        loop {
            if self.stopping.load(Ordering::Acquire) {
                return None;
            }
            // As long as there is something to do, nothing is set up to wait for it.
            let pick = match self.desk.pick(times.now) {
                Pick::Nothing | Pick::Until(_) => {
                    let pick = tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return None,
                        pick = self.desk.next(|| self.clock.monotonic()) => pick,
                    };
                    times.look(&*self.clock);
                    pick
                }
                pick => pick,
            };
            match pick {
                // It may have come back to the desk after its stream was lost.
                Pick::Go(job, ticket) if self.revoked.had(job.delivery.tag) => {
                    self.ended(ticket, None, times.now);
                    self.put_down(job, Duration::ZERO);
                }
                Pick::Go(job, ticket) => return Some((job, ticket)),
                Pick::GiveBack(jobs) => {
                    log::gives_back(&self.spec, jobs.len());
                    for job in jobs {
                        self.put_down(job, Duration::ZERO);
                    }
                }
                Pick::TakeIn => self.in_hand.released.notify_one(),
                Pick::Nothing | Pick::Until(_) => {}
            }
        }
    }

    /// A message was put on the desk. When its stream was lost meanwhile, nobody comes for it there: a pause, or a gate that
    /// has closed since, could keep it for long.
    pub(crate) fn sweep_lost(&self, tag: Tag) {
        if self.revoked.had(tag) {
            for job in self.desk.take_back(tag) {
                self.put_down(job, Duration::ZERO);
            }
        }
    }

    /// Sleeps on a message in hand, unless the flow stops first, or the message is lost.
    pub(crate) async fn sleep_with(&self, tag: Tag, wait: Duration) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.revoked.lost(tag) => Err(Stopped),
            slept = self.sleep(wait) => slept,
        }
    }

    /// Sleeps unless the flow stops first.
    pub(crate) async fn sleep(&self, wait: Duration) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stopped),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// A call has ended by now, with what it showed of the endpoint; nothing when it was not made or given up.
    pub(crate) fn ended(&self, ticket: Ticket, shown: Option<(Shown, Duration)>, now: Duration) {
        if let Some(state) = self.desk.finish(now, ticket, shown) {
            log::breaker(&self.spec, state);
            self.metrics.breaker(state);
            self.tell_breaker(state);
        }
    }

    fn tell_breaker(&self, state: BreakerState) {
        match state {
            BreakerState::Open => self.alarms.raise(alarms::BREAKER_OPEN, self.clock.now(), || {
                "the handler fails; messages are held, and none is charged".to_owned()
            }),
            BreakerState::Closed => self.alarms.clear(alarms::BREAKER_OPEN),
            BreakerState::HalfOpen => {}
        }
    }

    /// The broker did not settle; no call begins until it does.
    pub(crate) fn cannot_settle(&self, error: &PortError) {
        self.trouble.cannot_settle(error);
        self.desk.halt(true);
        self.raise_broker_away(error);
    }

    /// The broker settles.
    pub(crate) fn settles(&self) {
        if self.trouble.settles() {
            log::broker_back(&self.spec);
            self.desk.halt(false);
            self.tell_broker();
        }
    }

    /// The source did not answer.
    pub(crate) fn cannot_read(&self, error: &PortError) {
        self.trouble.cannot_read(error);
        self.raise_broker_away(error);
    }

    /// The source answers.
    pub(crate) fn reads(&self) {
        if self.trouble.reads() {
            log::source_back(&self.spec);
            self.tell_broker();
        }
    }

    fn raise_broker_away(&self, error: &PortError) {
        self.alarms.raise(alarms::BROKER_AWAY, self.clock.now(), || {
            format!("the broker does not do its part, messages are held: {error}")
        });
    }

    /// The alarm is over when nothing is the matter any more.
    fn tell_broker(&self) {
        if self.trouble.why().is_none() {
            self.alarms.clear(alarms::BROKER_AWAY);
        }
    }

    /// Hands a settlement to the settler.
    pub(crate) fn send(&self, settlement: Settlement) {
        // The settler outlives every worker, so there is always someone to take it.
        let _ = self.settlements.send(settlement);
    }

    /// Random bits for an id.
    pub(crate) fn random(&self) -> [u64; 2] {
        let mut rng = SplitMix64::new(self.seed.fetch_add(1, Ordering::Relaxed));
        [rng.next_u64(), rng.next_u64()]
    }

    /// What a message is called in the journal. An id that was given to it in this process says nothing to the next one.
    pub(crate) fn name_in(&self, journal: &Journal, delivery: &Delivery) -> Name {
        match delivery.likeness() {
            Some(likeness) => journal.name_by_likeness(&self.spec.name, &likeness),
            None => journal.name(&self.spec.name, &delivery.message.id),
        }
    }

    /// How often the process died while this message was being handled.
    pub(crate) fn crashes_of(&self, delivery: &Delivery) -> u32 {
        let Some(journal) = self.spec.journal.as_ref().filter(|journal| journal.suspects() > 0) else {
            return 0;
        };
        let crashes = journal.crashes(self.name_in(journal, delivery));
        if crashes > 0 {
            self.alarms.raise(alarms::SUSPECTS, self.clock.now(), || {
                "the process died while messages were being handled; those run one at a time now".to_owned()
            });
        }
        crashes
    }

    /// A call for a suspect has ended without killing anybody, or it is not called any more.
    pub(crate) fn cleared(&self, delivery: &Delivery) {
        let Some(journal) = &self.spec.journal else { return };
        journal.cleared(self.name_in(journal, delivery));
        if journal.suspects() == 0 {
            self.alarms.clear(alarms::SUSPECTS);
        }
    }

    pub(crate) fn wait_aside(&self, job: Box<Job>, after: Duration) {
        if let Err(mpsc::error::SendError(Aside::Wait(job, after))) = self.aside.send(Aside::Wait(job, after))
        {
            self.put_down(job, after);
        }
    }

    /// Puts a job down that will not be worked on any further now. Attempts that were made in hand are written down,
    /// and the message is due after the wait that was decided; one that was not tried goes back as it was. So does one
    /// that others wait for, when the ledger knows of its attempts: it keeps its place. And so does one that has come again
    /// since its stream was lost.
    pub(crate) fn put_down(&self, mut job: Box<Job>, after: Duration) {
        let is_written = job.kept || self.revoked.came_again(job.delivery.tag);
        let last = job.last.take().filter(|_| job.in_hand > 0 && !is_written);
        let Some(last) = last else {
            return self.settle(job.settled(Outcome::Return));
        };
        let now = self.clock.now();
        let mut decision = last.decision;
        decision.action = Action::RetryInPlace { after };
        let diversion = Diversion {
            spec: &self.spec,
            facts: &last.facts,
            failure: &last.failure,
            decision: &decision,
            attempts_allowed: last.attempts_allowed,
            began: last.began,
            now,
            random: self.random(),
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
    pub(crate) fn release(&self, job: Box<Job>) {
        self.settle(job.settled(Outcome::Ack));
    }

    /// Whether this is a second copy of what a replay has sent: the message's entry has come to an end since.
    ///
    /// Only what the ledger has finished, or keeps itself, is taken for a double, so that dropping it loses nothing.
    pub(crate) async fn is_double(&self, delivery: &Delivery) -> bool {
        let Trail { attempt: 0, replay: Some(_), entry_id: Some(id), .. } = &*delivery.trail else {
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
