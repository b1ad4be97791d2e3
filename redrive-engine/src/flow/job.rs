//! A delivery on its way through a flow, with what happened to it while it was in hand.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::headers::Trail;
use redrive_core::{Decision, Facts, Failure, History, Text, Timestamp};

use super::divert;
use super::earlier::Earlier;
use super::heads::{Head, Past};
use super::spec::FlowSpec;
use crate::handler::Charge;
use crate::port::{AttemptRecord, Delivery, Entry, EntryId, LaneName, Outcome, Settlement};

/// A delivery and the attempts made since it was handed out.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) delivery: Delivery,
    /// The lane that it keeps its place in.
    pub(crate) lane: Option<LaneName>,
    /// The ids of predecessors that were diverted and that nobody waits for any more.
    pub(crate) diverted: Option<Arc<[String]>>,
    /// How often its process died while it was being handled.
    pub(crate) crashes: u32,
    /// When it was last put on the desk, by the monotonic clock.
    pub(crate) put_at: Duration,
    /// Attempts made in hand, not yet written down anywhere.
    pub(crate) in_hand: u32,
    calls: u32,
    cost: u32,
    waited: Duration,
    held: Duration,
    first_attempt_at: Option<Timestamp>,
    first_failure_at: Option<Timestamp>,
    last_wait: Option<Duration>,
    /// The failure behind a wait in hand, so that it can be written down when the flow stops meanwhile.
    pub(crate) last: Option<Box<LastFailure>>,
    /// Whether the ledger knows of all attempts in hand, and when the next one is due.
    pub(crate) kept: bool,
    /// When the next attempt is due, of one that others waited for before this process had it.
    pub(crate) due_at: Option<Timestamp>,
    /// What is known of attempts that others made.
    pub(crate) past: Past,
    /// When it was published or came due.
    ready_at: Timestamp,
    earlier: Earlier,
}

/// A failure that has not left the hand yet.
#[derive(Debug)]
pub(crate) struct LastFailure {
    pub(crate) failure: Box<Failure>,
    pub(crate) decision: Decision,
    pub(crate) facts: Facts,
    pub(crate) attempts_allowed: Option<u32>,
    pub(crate) began: Began,
    /// The attempt's number.
    pub(crate) number: u32,
}

/// When an attempt began, how long it took, and the downstream calls it made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    pub(crate) at: Timestamp,
    pub(crate) took: Duration,
    pub(crate) calls: u32,
}

impl Job {
    pub(crate) fn new(delivery: Delivery) -> Self {
        let trail = &delivery.trail;
        let last_wait = match (trail.process_after, trail.last_failure_at) {
            (Some(due), Some(failed)) => Some(due.since(failed)),
            _ => None,
        };
        Self {
            in_hand: 0,
            calls: trail.calls_used,
            cost: 0,
            waited: trail.delay_total,
            held: trail.held,
            first_attempt_at: trail.first_attempt_at,
            first_failure_at: trail.first_failure_at,
            last_wait,
            last: None,
            kept: false,
            due_at: None,
            past: Past::None,
            ready_at: delivery.ready_at,
            lane: None,
            diverted: None,
            crashes: 0,
            put_at: Duration::ZERO,
            earlier: Earlier::default(),
            delivery,
        }
    }

    /// The entry that the message has by now.
    pub(crate) fn entry(&self) -> Option<EntryId> {
        divert::entry_of(&self.delivery.trail)
    }

    /// Goes on under an entry that was written down for it before: the attempts that it tells of were made.
    pub(crate) fn takes_over(&mut self, entry: &Entry) {
        let mut trail = Trail::clone(&self.delivery.trail);
        trail.entry_id = Some(Text::from(entry.id.to_string()));
        if entry.attempts > trail.attempt {
            trail.attempt = entry.attempts;
            trail.first_failure_at = Some(entry.first_failed_at);
            trail.last_failure_at = Some(entry.last_failed_at);
            self.calls = self.calls.max(entry.attempts);
            self.first_failure_at = Some(entry.first_failed_at);
        }
        self.delivery.trail.replace(trail);
    }

    /// Goes on where another process stood that others waited for this message in.
    pub(crate) fn goes_on(&mut self, head: &Head) {
        let mut trail = Trail::clone(&self.delivery.trail);
        self.past = Past::Attempts(head.attempts);
        trail.attempt = head.attempts;
        trail.first_failure_at = head.first_failure_at();
        trail.calls_used = head.calls();
        self.delivery.trail.replace(trail);
        self.calls = head.calls();
        self.waited = head.waited();
        self.held = head.held();
        self.first_attempt_at = head.first_attempt_at();
        self.first_failure_at = head.first_failure_at();
        self.ready_at = head.due_at();
        self.due_at = Some(head.due_at());
    }

    /// What an entry says of attempts that others made, where that matters: the message made others wait.
    pub(crate) fn told(&self) -> Option<String> {
        match self.past {
            Past::Attempts(count) => Some(format!(
                "it went on from attempt {count}, where its partition stood before it was read anew"
            )),
            Past::Unknown => Some(
                "counted from 1: it was there when its partition began to be read here, and of attempts before that nothing is known"
                    .to_owned(),
            ),
            Past::None => None,
        }
    }

    /// Ends the delivery without a word about it.
    pub(crate) fn settled(self, outcome: Outcome) -> Settlement {
        Settlement { lane: self.lane, ..Settlement::plain(self.delivery, outcome) }
    }

    /// What the message weighs, for the limit on bytes in hand.
    pub(crate) fn weight(delivery: &Delivery) -> usize {
        let body = delivery.message.body.as_ref().map_or(0, bytes::Bytes::len);
        let headers: usize = delivery
            .message
            .headers
            .iter()
            .map(|header| header.name.as_str().len() + header.value.as_ref().map_or(0, bytes::Bytes::len))
            .sum();
        body + headers + 512
    }

    /// Attempts made in all.
    pub(crate) fn attempts(&self) -> u32 {
        self.delivery.trail.attempt.saturating_add(self.in_hand)
    }

    /// An attempt begins, after the guards kept it waiting for so long.
    ///
    /// What has failed before is not older for having been held back. A message that has just come in is late since it
    /// was due: that covers an open breaker and a stop too, during which nobody had it in hand.
    pub(crate) fn started(&mut self, now: Timestamp, kept_waiting: Duration) {
        self.first_attempt_at.get_or_insert(now);
        if self.first_failure_at.is_some() {
            let late = if self.in_hand == 0 { now.since(self.ready_at) } else { kept_waiting };
            self.held = self.held.saturating_add(late);
        }
    }

    pub(crate) fn failed(&mut self, charge: Charge, now: Timestamp) {
        self.in_hand = self.in_hand.saturating_add(1);
        self.calls = self.calls.saturating_add(charge.calls.max(1));
        self.cost = self.cost.saturating_add(charge.cost);
        self.first_failure_at.get_or_insert(now);
    }

    /// The message is diverted untried, so that it has failed without an attempt.
    pub(crate) fn refused(&mut self, now: Timestamp) {
        self.first_failure_at.get_or_insert(now);
    }

    /// The attempt does not count after all.
    pub(crate) fn forgiven(&mut self, charge: Charge) {
        self.in_hand = self.in_hand.saturating_sub(1);
        self.calls = self.calls.saturating_sub(charge.calls.max(1));
        self.cost = self.cost.saturating_sub(charge.cost);
    }

    /// It stays in hand as it is, and a guard holds it from now on.
    pub(crate) fn is_held(&mut self, now: Timestamp) {
        self.ready_at = now;
    }

    /// A wait in hand has been decided.
    pub(crate) fn waits(&mut self, wait: Duration) {
        self.waited = self.waited.saturating_add(wait);
        self.last_wait = Some(wait);
    }

    /// A failure that stays in hand; the one before it is only remembered.
    pub(crate) fn stays(&mut self, spec: &FlowSpec, last: LastFailure) {
        if let Some(before) = self.last.replace(Box::new(last)) {
            self.earlier.add(spec, &before);
        }
    }

    /// The failed attempts in hand before the one that is written down now.
    pub(crate) fn earlier(&mut self, spec: &FlowSpec) -> Vec<AttemptRecord> {
        if let Some(before) = self.last.take() {
            self.earlier.add(spec, &before);
        }
        self.earlier.take()
    }

    pub(crate) fn history(&self, endpoint_proven: bool) -> History {
        History {
            attempts: self.attempts(),
            delayed: self.delivery.trail.delay_counter,
            first_failure: self.first_failure_at,
            waited: self.waited,
            held: self.held,
            calls: self.calls,
            cost: self.cost,
            last_wait: self.last_wait,
            crashes: self.crashes,
            endpoint_proven,
        }
    }

    pub(crate) fn first_attempt_at(&self) -> Option<Timestamp> {
        self.first_attempt_at
    }

    pub(crate) fn first_failure_at(&self) -> Option<Timestamp> {
        self.first_failure_at
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    pub(crate) fn held(&self) -> Duration {
        self.held
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }
}
