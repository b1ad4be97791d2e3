//! A worker: takes a job, passes the guards, calls the handler, and hands the outcome on.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::classify::Subject;
use redrive_core::guard::Outcome as Shown;
use redrive_core::policy::IN_PLACE_SLOT;
use redrive_core::{
    Action, Decision, Facts, Failure, Policy, Random as _, Reason, SplitMix64, Timestamp, Verdict, decide,
};
use redrive_retry::CallBudget;

use super::divert::{self, Diversion};
use super::forwarding;
use super::guards::Ticket;
use super::held::{self, Why};
use super::job::{Began, Job, LastFailure};
use super::shared::Shared;
use super::spec::FlowSpec;
use super::times::Times;
use super::{alarms, attempt, controls, log};
use crate::handler::{Charge, Context, Instead};
use crate::port::{LaneName, Outcome, Quarantine, Settlement};

/// A job that is tried again in hand, after a wait; nothing when it left.
type Again = Option<(Box<Job>, Duration)>;

/// What a worker keeps from one message to the next.
struct Worker {
    rng: SplitMix64,
    times: Times,
    budget: CallBudget,
}

pub(crate) async fn work(shared: Arc<Shared>, rng: SplitMix64) {
    let mut worker = Worker { rng, times: Times::new(&*shared.clock), budget: CallBudget::new(None, None) };
    while let Some((job, ticket)) = shared.next_job(&mut worker.times).await {
        let again = round(&shared, job, ticket, &mut worker).await;
        let Some((waiting, after)) = again else { continue };
        // When everyone waits for this message anyway, the slot may be kept.
        if after > IN_PLACE_SLOT && !shared.desk.all_wait_for(waiting.delivery.tag) {
            shared.wait_aside(waiting, after);
            worker.times.look(&*shared.clock);
            continue;
        }
        let tag = waiting.delivery.tag;
        let slept = tokio::time::Instant::now();
        // A timer of zero would cost a millisecond.
        if !after.is_zero() && shared.sleep_with(tag, after).await.is_err() {
            shared.put_down(waiting, after.saturating_sub(slept.elapsed()));
            worker.times.look(&*shared.clock);
            continue;
        }
        let mut waiting = waiting;
        worker.times.look(&*shared.clock);
        waiting.put_at = worker.times.now;
        shared.desk.put_back(waiting);
        shared.sweep_lost(tag);
    }
}

/// One attempt of one job.
async fn round(shared: &Arc<Shared>, mut job: Box<Job>, ticket: Ticket, worker: &mut Worker) -> Again {
    let spec = &shared.spec;
    let Worker { rng, times, budget } = worker;
    if let Some(doubt) = job.delivery.trail.doubt().filter(|doubt| doubt.again) {
        shared.ended(ticket, None, times.now);
        shared.park_doubted(job, doubt).await;
        times.look(&*shared.clock);
        return None;
    }
    if job.delivery.trail.body_is_gone() {
        shared.ended(ticket, None, times.now);
        shared.park_bodiless(job).await;
        times.look(&*shared.clock);
        return None;
    }
    let (started_at, _) = times.others(&*shared.clock);
    if job.in_hand == 0
        && let Some(settlement) = without_a_call(shared, &job, started_at, times).await
    {
        if let Without::Instead(Instead::Refuse(failure)) = settlement {
            return not_called(shared, job, failure, ticket, started_at, worker).await;
        }
        shared.ended(ticket, None, times.now);
        match settlement {
            Without::Instead(instead) => forwarding::go_on(shared, job, instead),
            Without::Release => shared.release(job),
            Without::Finish => finish(shared, job, None, shared.clock.now()),
            Without::Quarantine(quarantine) => {
                let (lane, why) = (quarantine.lane(), Why::Quarantine(quarantine.to_string()));
                let random = shared.random();
                shared.settle(held::keep(spec, job, lane, why, shared.clock.now(), random));
            }
        }
        return None;
    }
    // Others waited for it in another process, and it was not due yet when that ended.
    if let Some(wait) = job.due_at.take().map(|due| due.since(started_at)).filter(|wait| !wait.is_zero()) {
        shared.ended(ticket, None, times.now);
        return Some((job, wait));
    }
    if job.crashes >= spec.crash_limit.max(1) {
        let failure = Box::new(crashed(job.crashes));
        // The rule for it asks for two.
        job.crashes = job.crashes.max(2);
        shared.cleared(&job.delivery);
        return not_called(shared, job, failure, ticket, started_at, worker).await;
    }
    let (started, (started_at, began)) = (times.now, times.others(&*shared.clock));
    job.started(started_at, started.saturating_sub(job.put_at));
    let context = context(shared, &job, started_at);
    let deadline = ends_in(spec, &job, started_at);
    shared.metrics.started(started_at, job.first_failure_at());
    let journal = spec.journal.as_deref();
    let named = journal.map(|journal| journal.begin(shared.name_in(journal, &job.delivery)));
    let (handler, message, ends) = (&*spec.handler, &job.delivery.message, (began, deadline));
    let attempted = attempt::attempt(handler, message, context, ends, budget, &shared.abort).await;
    drop(named);
    times.look(&*shared.clock);
    let took = times.now.saturating_sub(started);
    shared.metrics.ignored(spec.handler.ignored());
    if job.crashes > 0 {
        shared.cleared(&job.delivery);
        job.crashes = 0;
    }
    let Some(attempted) = attempted else {
        // The stop's deadline is over: the attempt is given up and not charged.
        shared.metrics.ended("aborted", took);
        shared.ended(ticket, None, times.now);
        shared.put_down(job, Duration::ZERO);
        return None;
    };
    // A verdict beats the status both ways.
    let acked = |failure: &Failure| failure.verdict() == Some(&Verdict::Ack);
    match attempted.result {
        Err(failure) if !acked(&failure) => {
            shared.metrics.ended("failure", took);
            let began = Began { at: started_at, took, calls: attempted.charge.calls.max(1) };
            let again = failed(shared, job, failure, attempted.charge, ticket, began, rng).await;
            times.look(&*shared.clock);
            again
        }
        _ => {
            shared.metrics.ended("success", took);
            shared.ended(ticket, Some((Shown::Success, took)), times.now);
            shared.alarms.clear(alarms::ENDPOINT_FAULT);
            shared.metrics.succeeded(job.attempts().saturating_add(1));
            let began = Began { at: started_at, took, calls: attempted.charge.calls.max(1) };
            finish(shared, job, Some(began), started_at + took);
            None
        }
    }
}

/// What becomes of a message that the handler is not called for.
enum Without {
    /// A second copy.
    Release,
    /// Handled before.
    Finish,
    /// Kept back by a person.
    Quarantine(Quarantine),
    /// What the handler wants in place of a call.
    Instead(Instead),
}

async fn without_a_call(
    shared: &Shared,
    job: &Job,
    started_at: Timestamp,
    times: &mut Times,
) -> Option<Without> {
    let spec = &shared.spec;
    let message = &job.delivery.message;
    // The ledger takes its time, which is not the call's.
    if job.delivery.trail.replay.is_some() {
        let double = shared.is_double(&job.delivery).await;
        times.look(&*shared.clock);
        if double {
            return Some(Without::Release);
        }
    }
    if spec.once_per_message {
        let processed = shared.was_processed(&message.id).await;
        times.look(&*shared.clock);
        if processed {
            return Some(Without::Finish);
        }
    }
    if let Some(presumed) = shared.controls.quarantine(spec, message) {
        let quarantine = controls::confirmed(shared, job, presumed).await;
        times.look(&*shared.clock);
        if let Some(quarantine) = quarantine {
            return Some(Without::Quarantine(quarantine));
        }
    }
    spec.handler.instead(message, &job.delivery.trail, started_at).map(Without::Instead)
}

fn context(shared: &Shared, job: &Job, now: Timestamp) -> Context {
    let spec = &shared.spec;
    let trail = &job.delivery.trail;
    let message = &job.delivery.message;
    let attempt = job.attempts().saturating_add(1);
    let policy = policy_of(spec, job);
    let budgets = policy.budgets();
    let key = trail.idempotency_key.as_ref().unwrap_or(&message.id);
    Context {
        flow: Arc::clone(&spec.name),
        attempt,
        will_retry: policy.attempts().is_none_or(|allowed| attempt < allowed),
        calls_left: budgets.calls.map(|allowed| allowed.saturating_sub(job.calls())),
        deadline: now + spec.timeout,
        timeout: spec.timeout,
        idempotency_key: key.clone(),
        source: Arc::clone(&spec.address),
        message_type: spec
            .facts
            .message_type
            .as_ref()
            .and_then(|source| source.find(&message.headers, message.body.as_deref())),
        first_failure_at: job.first_failure_at(),
        diverted: job.diverted.as_deref().map(<[String]>::to_vec).unwrap_or_default(),
        replay: trail.replay.as_ref().and_then(|replay| replay.id.as_deref().map(Arc::from)),
        marks: Some(Arc::clone(&shared.marks)),
    }
}

/// The time until the message's own deadline, while that lies ahead. One that has passed is for the rules to judge.
fn ends_in(spec: &FlowSpec, job: &Job, now: Timestamp) -> Option<Duration> {
    let message = &job.delivery.message;
    let deadline = spec.facts.find_deadline(&message.headers, message.body.as_deref())?;
    Some(deadline.since(now)).filter(|left| !left.is_zero())
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

/// It failed without a call of the handler.
async fn not_called(
    shared: &Arc<Shared>,
    job: Box<Job>,
    failure: Box<Failure>,
    ticket: Ticket,
    at: Timestamp,
    worker: &mut Worker,
) -> Again {
    let began = Began { at, took: Duration::ZERO, calls: Charge::default().calls };
    let again = failed(shared, job, failure, Charge::default(), ticket, began, &mut worker.rng).await;
    worker.times.look(&*shared.clock);
    again
}

/// The message is done by now, by this attempt when the handler was called.
fn finish(shared: &Shared, mut job: Box<Job>, by: Option<Began>, now: Timestamp) {
    let record = divert::recovered(&shared.spec, &mut job, by, now);
    if record.is_some() {
        shared.metrics.recovered();
    }
    let processed_by = shared.spec.once_per_message.then(|| Arc::clone(&shared.spec.name));
    shared.settle(Settlement { record, processed_by, ..job.settled(Outcome::Ack) });
}

async fn failed(
    shared: &Shared,
    mut job: Box<Job>,
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
    let proven = shared.desk.endpoint_proven(shared.clock.monotonic());
    let mut decision = decided(policy, &job, &facts, &failure, proven, now, rng);
    if let Action::Follow { id } = &decision.action {
        match followed(shared, &job, id).await {
            Some((lane, id)) => {
                shared.ended(ticket, Some((Shown::Ignored, began.took)), shared.clock.monotonic());
                job.forgiven(charge);
                let random = shared.random();
                shared.settle(held::keep(spec, job, lane, Why::Follows(id), now, random));
                return None;
            }
            None => decision = pending(policy, &job, &facts, proven, now, rng),
        }
    }

    shared.ended(ticket, decision.shown.map(|shown| (shown, began.took)), shared.clock.monotonic());
    // What finds out whether the endpoint is back is not charged for finding out that it is not.
    if decision.action == Action::Return {
        shared.alarms.raise(alarms::ENDPOINT_FAULT, now, || {
            format!("the endpoint refuses every call, whatever the message: {}", failure.message())
        });
    }
    if (ticket.probe && decision.shown == Some(Shown::Failure)) || decision.action == Action::Return {
        shared.metrics.retried("return", &decision.reason);
        job.forgiven(charge);
        // One that others wait for keeps its place: what holds it now is a guard, as it holds them.
        if shared.desk.waits_for(job.delivery.tag) {
            job.is_held(now);
            return Some((job, Duration::ZERO));
        }
        shared.put_down(job, Duration::ZERO);
        return None;
    }
    // What runs may finish when its stream is lost, and no more: nobody waits for it here any longer.
    let tag = job.delivery.tag;
    let is_lost = || shared.revoked.had(tag);
    let (kind, after) = match &decision.action {
        Action::RetryInPlace { after } => ("in_place", Some(*after)),
        Action::Block { until } => ("blocking", Some(until.since(now))),
        _ => ("", None),
    };
    // The lane stands still while its head is in hand; without one the partition does, or the whole flow.
    if kind == "blocking" && job.lane.is_none() && !is_lost() {
        shared.close_gate(&job);
    }
    let attempts_allowed = policy.attempts();
    if let Some(after) = after {
        shared.metrics.retried(kind, &decision.reason);
        job.waits(after);
        let number = job.attempts();
        let due = if let Action::Block { until } = decision.action { Some(until) } else { None };
        job.stays(spec, LastFailure { failure, decision, facts, attempts_allowed, began, number });
        job.kept = match due {
            Some(due) => shared.keep_head(&mut job, due).await,
            None => false,
        };
        if is_lost() {
            shared.put_down(job, after);
            return None;
        }
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
    let settlement = diversion.settle(job);
    shared.tell_before(&settlement).await;
    shared.settle(settlement);
    None
}

/// What is left of an attempt that took its process with it.
fn crashed(times: u32) -> Failure {
    Failure::from_message(format!("the process died {times} times while this message was being handled"))
        .with_reason(Reason::HANDLER_CRASHED)
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
    decide(policy, &subject, &job.history(endpoint_proven), failure, now, rng)
}

/// The lane behind a message that another wants to follow, and that message's id; nothing when it has come to an end, or
/// nobody knows it.
async fn followed(shared: &Shared, job: &Job, id: &str) -> Option<(LaneName, String)> {
    if !shared.broker.capabilities().lanes {
        return None;
    }
    let entry = match shared.ledger.entry(id).await {
        Ok(found) => found?,
        Err(error) => {
            log::ledger_away(&shared.spec, &error);
            return None;
        }
    };
    let ended = !entry.state.is_unresolved() || Some(entry.id) == job.entry();
    (!ended && *entry.flow == *shared.spec.name).then(|| (LaneName::after(entry.id), entry.message.id))
}

/// Whoever wants to follow what is not there is charged as contention.
fn pending(
    policy: &Policy,
    job: &Job,
    facts: &Facts,
    endpoint_proven: bool,
    now: Timestamp,
    rng: &mut SplitMix64,
) -> Decision {
    let failure = Failure::from_message("what it wants to follow is unknown, or has come to an end")
        .with_status(423)
        .with_reason(Reason::PREDECESSOR_PENDING);
    decided(policy, job, facts, &failure, endpoint_proven, now, rng)
}
