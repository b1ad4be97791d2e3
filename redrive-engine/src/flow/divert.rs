//! From a decision to a settlement: what the copy carries, and what the ledger learns.

use std::time::Duration;

use redrive_core::headers::{self, Trail};
use redrive_core::{Action, Decision, Envelope, Facts, Failure, RejectionEvent, Text, Timestamp};

use super::earlier::attempt_record;
use super::job::{Began, Job};
use super::spec::FlowSpec;
use crate::mint::mint;
use crate::port::{AttemptRecord, EntryId, EntryState, Outcome, Record, Settlement, SucceededRecord};

/// A failed attempt and what was decided about it.
pub(crate) struct Diversion<'a> {
    pub(crate) spec: &'a FlowSpec,
    pub(crate) facts: &'a Facts,
    pub(crate) failure: &'a Failure,
    pub(crate) decision: &'a Decision,
    pub(crate) attempts_allowed: Option<u32>,
    pub(crate) began: Began,
    pub(crate) now: Timestamp,
    /// Random bits for the ids that are minted here.
    pub(crate) random: [u64; 2],
}

impl Diversion<'_> {
    /// Ends the delivery as decided. The action is one that leaves the hand.
    pub(crate) fn settle(&self, mut job: Box<Job>) -> Settlement {
        let entry = entry_of(&job.delivery.trail).unwrap_or_else(|| mint(self.now, self.random));
        let due_at = match &self.decision.action {
            Action::Delay { until } | Action::Block { until } => Some(*until),
            Action::RetryInPlace { after } => Some(self.now + *after),
            _ => None,
        };
        let trail = self.trail(&job, entry, due_at);
        // The record says what the outcome does, so the state follows from it and from nothing else.
        let (outcome, state) = match (&self.decision.action, &self.spec.rejected, due_at) {
            (_, _, Some(until)) => (Outcome::Delay { until }, EntryState::Waiting),
            (Action::DeadLetter, ..) => (Outcome::DeadLetter, EntryState::Dead),
            (Action::Discard, ..) => (Outcome::Discard, EntryState::Discarded),
            (Action::Reject, Some(target), _) => match self.rejection(&job, &trail, target) {
                Some(rejection) => (rejection, EntryState::Rejected),
                // An event that cannot be written must not take the message with it.
                None => (Outcome::Park, EntryState::Parked),
            },
            _ => (Outcome::Park, EntryState::Parked),
        };
        let record = self.record(&mut job, entry, state, due_at);
        Settlement {
            delivery: job.delivery,
            outcome,
            lane: job.lane,
            trail: Some(Box::new(trail)),
            record: Some(Box::new(record)),
            processed_by: None,
        }
    }

    fn trail(&self, job: &Job, entry: EntryId, due_at: Option<Timestamp>) -> Trail {
        let before: &Trail = &job.delivery.trail;
        // A wait in hand was counted when it was decided.
        let wait = match self.decision.action {
            Action::RetryInPlace { .. } => Duration::ZERO,
            _ => due_at.map_or(Duration::ZERO, |due| due.since(self.now)),
        };
        let delayed = matches!(self.decision.action, Action::Delay { .. });
        let mut trail = before.clone();
        trail.attempt = job.attempts();
        trail.max = self.attempts_allowed;
        trail.process_after = due_at;
        if trail.origin.topic.is_none() {
            trail.origin = headers::Origin {
                topic: Some(Text::from(&*job.delivery.source.name)),
                partition: job.delivery.source.partition,
                offset: job.delivery.source.offset,
                timestamp: Some(job.delivery.ready_at),
            };
        }
        trail.first_attempt_at = job.first_attempt_at();
        trail.first_failure_at = job.first_failure_at();
        trail.last_failure_at = Some(self.now);
        trail.error_type = self.failure.error_type().map(Text::from);
        trail.error_message = Some(Text::from(self.failure.message()));
        trail.class = Some(self.decision.class);
        trail.reason = Some(self.decision.reason.clone());
        trail.status = self.failure.status();
        trail.response = self.excerpt().map(Text::from);
        trail.delay_counter = before.delay_counter.saturating_add(u32::from(delayed));
        trail.delay_total = job.waited().saturating_add(wait);
        trail.held = job.held();
        trail.wait_id =
            due_at.map(|_| Text::from(mint(self.now, [self.random[1], self.random[0]]).to_string()));
        trail.entry_id = Some(Text::from(entry.to_string()));
        trail.idempotency_key.get_or_insert_with(|| job.delivery.message.id.clone());
        trail.calls_used = job.calls();
        trail.handler_version = self.spec.handler.version().map(|version| Text::from(&*version));
        trail.correlation_id.clone_from(&self.facts.correlation);
        trail.causation_id.clone_from(&self.facts.causation);
        trail.bounded()
    }

    fn record(&self, job: &mut Job, entry: EntryId, state: EntryState, due_at: Option<Timestamp>) -> Record {
        let text = |fact: &Option<Text>| fact.as_ref().map(|text| text.as_str().to_owned());
        let (spec, number) = (self.spec, job.attempts());
        let mut attempt = attempt_record(spec, self.facts, self.failure, self.decision, self.began, number);
        if let Some(told) = job.told() {
            attempt.because = format!("{}; {told}", attempt.because);
        }
        Record {
            entry,
            flow: self.spec.name.clone(),
            state,
            at: self.now,
            due_at,
            attempt: Some(AttemptRecord { response: self.excerpt(), ..attempt }),
            succeeded: None,
            earlier: job.earlier(spec),
            attempts: number,
            message_type: text(&self.facts.message_type),
            entity: text(&self.facts.entity),
            tenant: text(&self.facts.tenant),
            correlation_id: text(&self.facts.correlation),
            causation_id: text(&self.facts.causation),
            owner: self.spec.owner.clone(),
            held: None,
            replay: replay_of(&job.delivery.trail),
        }
    }

    /// What is kept of the answer, masked first and cut after.
    fn excerpt(&self) -> Option<String> {
        let body = self.failure.body()?;
        let masked = self.spec.redaction.redact_json(body.as_bytes());
        Some(String::from_utf8_lossy(&masked).into_owned())
    }

    fn rejection(&self, job: &Job, trail: &Trail, target: &str) -> Option<Outcome> {
        let id = &job.delivery.message.id;
        let envelope = Envelope::new(id.clone(), &*self.spec.name, self.facts, trail);
        let event = RejectionEvent::new(id.clone(), Text::from(&*self.spec.address), self.now, envelope);
        let event = serde_json::to_vec(&event).ok()?;
        Some(Outcome::Reject { event: event.into(), target: target.to_owned() })
    }
}

/// What the ledger learns when a message that failed before has succeeded, by this attempt when the handler was called.
pub(crate) fn recovered(
    spec: &FlowSpec,
    job: &mut Job,
    by: Option<Began>,
    now: Timestamp,
) -> Option<Box<Record>> {
    let entry = entry_of(&job.delivery.trail)?;
    let number = job.attempts().saturating_add(1);
    let succeeded = by.map(|began| {
        let handler_version = spec.handler.version();
        Box::new(SucceededRecord { number, took: began.took, calls: began.calls, handler_version })
    });
    Some(Box::new(Record {
        entry,
        flow: spec.name.clone(),
        state: EntryState::Recovered,
        at: now,
        due_at: None,
        attempt: None,
        succeeded,
        earlier: job.earlier(spec),
        attempts: number,
        message_type: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        owner: spec.owner.clone(),
        held: None,
        replay: replay_of(&job.delivery.trail),
    }))
}

pub(crate) fn entry_of(trail: &Trail) -> Option<EntryId> {
    trail.entry_id.as_deref().and_then(|id| EntryId::parse_str(id).ok())
}

pub(crate) fn replay_of(trail: &Trail) -> Option<EntryId> {
    trail.replay.as_ref()?.id.as_deref().and_then(|id| EntryId::parse_str(id).ok())
}
