//! A worker: takes a job, passes the guards, calls the handler, and hands the outcome on.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::classify::Subject;
use redrive_core::guard::Outcome as Shown;
use redrive_core::policy::IN_PLACE_SLOT;
use redrive_core::{
    Action, Class, Decision, Facts, Failure, Policy, Random as _, Reason, SplitMix64, Timestamp, Verdict,
    decide,
};

use super::divert::{self, Diversion};
use super::guards::{Pass, Ticket};
use super::job::{Began, Job, LastFailure};
use super::shared::Shared;
use super::spec::FlowSpec;
use super::{attempt, log};
use crate::handler::{Charge, Context, Marks};
use crate::port::{Outcome, Settlement};

/// A job that is tried again in hand, after a wait; nothing when it left.
type Again = Option<(Job, Duration)>;

pub(crate) async fn work(shared: Arc<Shared>, mut rng: SplitMix64) {
    loop {
        let job = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            job = shared.jobs.recv() => job,
        };
        let Ok(mut job) = job else { return };
        while let Some((waiting, after)) = round(&shared, job, &mut rng).await {
            // A gate that this message closed keeps everyone else waiting anyway, so the slot may be kept.
            if after > IN_PLACE_SLOT && !shared.gate.is_closed_by(waiting.delivery.tag) {
                shared.wait_aside(waiting, after);
                break;
            }
            // A timer of zero would cost a millisecond.
            if !after.is_zero() && shared.sleep(after).await.is_err() {
                shared.put_down(waiting, after);
                return;
            }
            job = waiting;
        }
    }
}

/// One attempt of one job.
async fn round(shared: &Arc<Shared>, mut job: Job, rng: &mut SplitMix64) -> Again {
    // What needs no call waits for no guard and uses up no rate.
    if job.in_hand == 0 && shared.is_double(&job.delivery).await {
        shared.release(job);
        return None;
    }
    let spec = &shared.spec;
    if spec.once_per_message && job.in_hand == 0 && shared.was_processed(&job.delivery.message.id).await {
        finish(shared, job);
        return None;
    }
    let asked = shared.clock.monotonic();
    let Some(ticket) = admission(shared, &job).await else {
        shared.put_down(job, Duration::ZERO);
        return None;
    };
    let started_at = shared.clock.now();
    let started = shared.clock.monotonic();
    job.started(started_at, started.saturating_sub(asked));
    let context = context(shared, &job, started_at);
    shared.metrics.started(started_at, job.first_failure_at());
    let attempted = tokio::select! {
        biased;
        attempted = attempt::attempt(&*spec.handler, &job.delivery.message, &context) => Some(attempted),
        () = shared.abort.cancelled() => None,
    };
    let took = shared.clock.monotonic().saturating_sub(started);
    shared.metrics.ignored(spec.handler.ignored());
    let Some(attempted) = attempted else {
        // The stop's deadline is over: the attempt is given up and not charged.
        shared.metrics.ended("aborted", took);
        shared.put_down(job, Duration::ZERO);
        return None;
    };
    // A verdict beats the status both ways.
    let acked = |failure: &Failure| failure.verdict() == Some(&Verdict::Ack);
    match attempted.result {
        Err(failure) if !acked(&failure) => {
            shared.metrics.ended("failure", took);
            failed(shared, job, failure, attempted.charge, ticket, Began { at: started_at, took }, rng)
        }
        _ => {
            shared.metrics.ended("success", took);
            shared.report(ticket, Shown::Success, took);
            shared.metrics.succeeded(job.attempts().saturating_add(1));
            finish(shared, job);
            None
        }
    }
}

/// Waits for the gate and the guards; nothing when the flow stops meanwhile.
async fn admission(shared: &Shared, job: &Job) -> Option<Ticket> {
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return None,
            () = async {
                shared.trouble.pass().await;
                shared.gate.pass(job.delivery.tag).await;
            } => {}
        }
        if shared.stop.is_cancelled() {
            return None;
        }
        match shared.guards.pass(shared.clock.monotonic()) {
            Pass::Go(ticket) => return Some(ticket),
            Pass::Hold(until) => {
                let now = shared.clock.monotonic();
                let wait = until.map_or(Duration::from_secs(1), |until| until.saturating_sub(now));
                // At least a millisecond, so that rounding cannot make this loop spin.
                shared.sleep(wait.max(Duration::from_millis(1))).await.ok()?;
            }
        }
    }
}

fn context(shared: &Shared, job: &Job, now: Timestamp) -> Context {
    let spec = &shared.spec;
    let trail = &job.delivery.trail;
    let message = &job.delivery.message;
    let attempt = job.attempts().saturating_add(1);
    let policy = policy_of(spec, job);
    let budgets = policy.budgets();
    let key = trail.idempotency_key.as_ref().unwrap_or(&job.delivery.message.id);
    Context {
        flow: Arc::clone(&spec.name),
        attempt,
        will_retry: policy.attempts().is_none_or(|allowed| attempt < allowed),
        calls_left: budgets.calls.map(|allowed| allowed.saturating_sub(job.calls())),
        deadline: now + spec.timeout,
        timeout: spec.timeout,
        idempotency_key: Arc::from(key.as_str()),
        source: Arc::clone(&spec.address),
        message_type: spec
            .facts
            .message_type
            .as_ref()
            .and_then(|source| source.find(&message.headers, message.body.as_deref())),
        first_failure_at: job.first_failure_at(),
        diverted: Arc::clone(&shared.nothing_diverted),
        replay: trail.replay.as_ref().and_then(|replay| replay.id.as_deref().map(Arc::from)),
        marks: Some(Marks { ledger: Arc::clone(&shared.ledger), handler: Arc::clone(&spec.name), now }),
    }
}

/// The policy for the message's type. The type is looked up only where types differ.
fn policy_of<'s>(spec: &'s FlowSpec, job: &Job) -> &'s Policy {
    if spec.policies_by_type.is_empty() {
        return &spec.policy;
    }
    let message = &job.delivery.message;
    let facts = spec.facts.find(&message.headers, message.body.as_deref());
    spec.policy_for(facts.message_type.as_deref())
}

/// The message is done.
fn finish(shared: &Shared, mut job: Job) {
    let record = divert::recovered(&shared.spec, &mut job, shared.clock.now());
    if record.is_some() {
        shared.metrics.recovered();
    }
    shared.gate.open(job.delivery.tag);
    let processed_by = shared.spec.once_per_message.then(|| Arc::clone(&shared.spec.name));
    shared.settle(Settlement {
        delivery: job.delivery,
        outcome: Outcome::Ack,
        trail: None,
        record,
        processed_by,
    });
}

fn failed(
    shared: &Shared,
    mut job: Job,
    failure: Box<Failure>,
    charge: Charge,
    ticket: Ticket,
    began: Began,
    rng: &mut SplitMix64,
) -> Again {
    let spec = &shared.spec;
    let now = shared.clock.now();
    let message = &job.delivery.message;
    let facts = spec.facts.find(&message.headers, message.body.as_deref());
    let policy = spec.policy_for(facts.message_type.as_deref());
    job.failed(charge, now);
    let proven = shared.guards.endpoint_proven(shared.clock.monotonic());
    let decision = decided(policy, &job, &facts, &failure, proven, now, rng);

    let shown = match (decision.class, &decision.action) {
        (_, Action::Return) | (Class::Transient, _) => Shown::Failure,
        _ => Shown::Ignored,
    };
    shared.report(ticket, shown, began.took);
    // What finds out whether the endpoint is back is not charged for finding out that it is not.
    if (ticket.probe && shown == Shown::Failure) || decision.action == Action::Return {
        shared.metrics.retried("return", &decision.reason);
        job.forgiven(charge);
        shared.put_down(job, Duration::ZERO);
        return None;
    }
    let (kind, after) = match &decision.action {
        Action::RetryInPlace { after } => ("in_place", Some(*after)),
        Action::Block { until } if shared.gate.close(job.delivery.tag) => {
            ("blocking", Some(until.since(now)))
        }
        _ => ("", None),
    };
    let attempts_allowed = policy.attempts();
    if let Some(after) = after {
        shared.metrics.retried(kind, &decision.reason);
        job.waits(after);
        let number = job.attempts();
        job.stays(spec, LastFailure { failure, decision, facts, attempts_allowed, began, number });
        return Some((job, after));
    }
    log::diversion(spec, &job, &decision, now);
    shared.metrics.diverted(&decision);
    let diversion = Diversion {
        spec,
        facts: &facts,
        failure: &failure,
        decision: &decision,
        attempts_allowed,
        began,
        now,
        random: [rng.next_u64(), rng.next_u64()],
    };
    shared.gate.open(job.delivery.tag);
    shared.settle(diversion.settle(job));
    None
}

fn decided(
    policy: &Policy,
    job: &Job,
    facts: &Facts,
    failure: &Failure,
    endpoint_proven: bool,
    now: Timestamp,
    rng: &mut SplitMix64,
) -> Decision {
    let subject = Subject {
        message_type: facts.message_type.as_deref(),
        schema: facts.schema.as_deref(),
        producer: facts.producer.as_deref(),
        deadline: facts.deadline,
        headers: Some(&job.delivery.message.headers),
    };
    let history = job.history(endpoint_proven);
    let decision = decide(policy, &subject, &history, failure, now, rng);
    if !matches!(decision.action, Action::Follow { .. }) {
        return decision;
    }
    // Lanes are not part of the engine yet: whoever wants to follow is charged as contention.
    let pending = Failure::from_message("its predecessor has not finished").with_status(423);
    decide(policy, &subject, &history, &pending.with_reason(Reason::PREDECESSOR_PENDING), now, rng)
}
