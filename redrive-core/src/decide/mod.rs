//! The one place where it is decided what happens to a failed message.
//!
//! A decision is a value. Somebody else carries it out, so that it can be printed, tested, replayed and explained:
//! the same arguments always give the same decision.

mod because;
mod explain;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use because::{Because, End, StepTaken, WaitBy};
pub use explain::{Ending, Explained, Row, explain};

use crate::classify::{By, Classification, Fault, Seen, Subject};
use crate::guard::Outcome;
use crate::policy::{IN_PLACE_SLOT, Policy};
use crate::{Advice, Class, Exit, Failure, Handling, History, Random, Reason, Schedule, Timestamp, Verdict};

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// The message is done.
    Ack,
    /// Call the handler again in the same delivery.
    RetryInPlace {
        /// The wait before it.
        #[serde(rename = "after_ms", serialize_with = "as_millis")]
        after: Duration,
    },
    /// Hold the lane, the partition or the flow, then try again.
    Block {
        /// When to try again.
        until: Timestamp,
    },
    /// Put it aside and try again later; others go on.
    Delay {
        /// When it is due.
        until: Timestamp,
    },
    /// Give up.
    DeadLetter,
    /// Put it aside for a person.
    Park,
    /// Drop it on purpose, with an audit record.
    Discard,
    /// Acknowledge it and publish a rejection event.
    Reject,
    /// Wait for another message.
    Follow {
        /// The id of the message to wait for.
        id: Arc<str>,
    },
    /// Give it back uncharged: the endpoint is at fault, and the breaker has to see it.
    Return,
}

impl Action {
    /// The action's name, as in logs and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::RetryInPlace { .. } => "retry_in_place",
            Self::Block { .. } => "block",
            Self::Delay { .. } => "delay",
            Self::DeadLetter => "dead_letter",
            Self::Park => "park",
            Self::Discard => "discard",
            Self::Reject => "reject",
            Self::Follow { .. } => "follow",
            Self::Return => "return",
        }
    }

    /// Whether the handler will be called again without a person's doing.
    pub const fn is_retry(&self) -> bool {
        matches!(
            self,
            Self::RetryInPlace { .. }
                | Self::Block { .. }
                | Self::Delay { .. }
                | Self::Follow { .. }
                | Self::Return
        )
    }
}

impl From<Exit> for Action {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::DeadLetter => Self::DeadLetter,
            Exit::Park => Self::Park,
            Exit::Discard => Self::Discard,
            Exit::Reject => Self::Reject,
        }
    }
}

fn as_millis<S: serde::Serializer>(wait: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// What happens next to a message, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What to do.
    #[serde(flatten)]
    pub action: Action,
    /// The failure's class.
    pub class: Class,
    /// The failure's reason.
    pub reason: Reason,
    /// The rule, the budget or the verdict behind it.
    pub because: Because,
    /// What the failure says about the endpoint, whatever becomes of the message: its breaker is told so. Nothing when it
    /// was not asked.
    #[serde(skip)]
    pub shown: Option<Outcome>,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} {}): {}", self.action.name(), self.class, self.reason, self.because)
    }
}

/// Decides what happens to a message whose attempt has failed.
///
/// In this order: the handler's verdict, the classifier, the budgets, the next delay, the exit. The retry path does
/// not allocate.
///
/// ```
/// use redrive_core::classify::Subject;
/// use redrive_core::{Action, Failure, History, Policy, SplitMix64, Timestamp, decide};
///
/// let policy = Policy::default();
/// let failure = Failure::from_message("busy").with_status(503);
/// let mut rng = SplitMix64::new(1);
/// let now = Timestamp::from_millis(1_782_896_400_000);
///
/// let first = decide(&policy, &Subject::default(), &History::first(), &failure, now, &mut rng);
/// assert!(matches!(first.action, Action::RetryInPlace { .. }));
/// assert_eq!(first.because.to_string(), "rule `http-unavailable`; retry in place 1 of 1");
///
/// let tired = History { attempts: 6, delayed: 4, ..History::first() };
/// let last = decide(&policy, &Subject::default(), &tired, &failure, now, &mut rng);
/// assert_eq!(last.action, Action::DeadLetter);
/// assert_eq!(last.because.to_string(), "rule `http-unavailable`; attempts spent: 6 of 6");
/// ```
pub fn decide<R: Random + ?Sized>(
    policy: &Policy,
    subject: &Subject<'_>,
    history: &History,
    failure: &Failure,
    now: Timestamp,
    rng: &mut R,
) -> Decision {
    let found = match failure.verdict() {
        Some(verdict) => from_verdict(verdict, failure),
        None => policy.classifier().classify(&Seen { subject, history, failure }),
    };
    match failure.verdict() {
        Some(Verdict::Ack) => return conclude(Action::Ack, found, None),
        Some(Verdict::Follow(id)) => {
            let end = spent(policy, &found, history)
                .or_else(|| out_of_time(policy, subject, history, Duration::ZERO, now));
            return match end {
                Some(end) => leave(policy, found, end),
                None => conclude(Action::Follow { id: Arc::clone(id) }, found, None),
            };
        }
        Some(Verdict::Dead | Verdict::Park | Verdict::Discard | Verdict::Reject) => {
            return leave(policy, found, End::Verdict);
        }
        _ => {}
    }
    if matches!(found.fault, Some(Fault::Endpoint | Fault::Unproven)) && !history.endpoint_proven {
        return conclude(Action::Return, found, Some(End::EndpointUnproven));
    }
    if found.handling == Some(Handling::Never) || !policy.retries(&found) {
        return leave(policy, found, End::NotRetried);
    }
    if let Some(end) = spent(policy, &found, history) {
        return leave(policy, found, end);
    }
    let advice = match failure.verdict() {
        Some(Verdict::RetryAfter(wait)) => Some(*wait),
        _ => failure.retry_after(),
    };
    let advice = advice.map(|asked| {
        let (least, longest) = policy.retry_after();
        Advice::new(asked, least, longest)
    });
    let Some(step) = next_step(policy, &found, history, advice) else {
        return leave(policy, found, End::Schedule);
    };
    let (wait, wait_by) = next_wait(policy, &step, history, advice, now, rng);
    if let Some(end) = out_of_time(policy, subject, history, wait, now) {
        return leave(policy, found, end);
    }
    let action = match step.layer {
        Handling::Never | Handling::InPlace => Action::RetryInPlace { after: wait },
        Handling::Blocking => Action::Block { until: now + wait },
        Handling::Delayed => Action::Delay { until: now + wait },
    };
    let taken = StepTaken { layer: step.layer, number: step.index.saturating_add(1), of: step.of };
    let shown = shown(&action, &found);
    let because = Because {
        by: found.by,
        step: Some(taken),
        wait_by: Some(wait_by),
        end: None,
        no_reject_target: false,
    };
    Decision { action, class: found.class, reason: found.reason, because, shown }
}

/// A failure that comes and goes is the endpoint's, and so is one that its rule says is. With any other it has answered.
fn shown(action: &Action, found: &Classification) -> Option<Outcome> {
    match found.fault {
        Some(Fault::NotAsked) => None,
        Some(Fault::Endpoint) => Some(Outcome::Failure),
        _ if *action == Action::Return || found.class == Class::Transient => Some(Outcome::Failure),
        _ => Some(Outcome::Ignored),
    }
}

fn from_verdict(verdict: &Verdict, failure: &Failure) -> Classification {
    let (class, exit) = match verdict {
        Verdict::Ack => (Class::Unknown, None),
        Verdict::Retry | Verdict::RetryAfter(_) => (Class::Transient, None),
        Verdict::Follow(_) => (Class::Contention, None),
        Verdict::Dead => (Class::PermanentTechnical, Some(Exit::DeadLetter)),
        Verdict::Park => (Class::PermanentTechnical, Some(Exit::Park)),
        Verdict::Discard => (Class::PermanentBusiness, Some(Exit::Discard)),
        Verdict::Reject => (Class::PermanentBusiness, Some(Exit::Reject)),
    };
    let reason = match failure.reason() {
        Some(reason) => reason.clone(),
        None if matches!(verdict, Verdict::Follow(_)) => Reason::PREDECESSOR_PENDING,
        None => Reason::HANDLER_VERDICT,
    };
    Classification { exit, by: By::Verdict(verdict.name()), ..Classification::new(class, reason) }
}

fn conclude(action: Action, found: Classification, end: Option<End>) -> Decision {
    let shown = shown(&action, &found);
    let because = Because { by: found.by, step: None, wait_by: None, end, no_reject_target: false };
    Decision { action, class: found.class, reason: found.reason, because, shown }
}

/// Nothing is left to try: the exit of the rule, of the reason, of the class, or the default.
fn leave(policy: &Policy, mut found: Classification, end: End) -> Decision {
    if matches!(end, End::Deadline { .. }) && found.exit.is_none() {
        found.reason = Reason::DEADLINE_PASSED;
    }
    let (action, no_reject_target) = exit_of(policy, &found);
    let mut decision = conclude(action, found, Some(end));
    decision.because.no_reject_target = no_reject_target;
    decision
}

/// Where a failure leaves to, and whether it is parked only because rejections have nowhere to go.
fn exit_of(policy: &Policy, found: &Classification) -> (Action, bool) {
    match found.exit.unwrap_or_else(|| policy.exit(found.class, &found.reason)) {
        Exit::Reject if !policy.rejects => (Action::Park, true),
        exit => (exit.into(), false),
    }
}

/// The budgets that do not depend on the next wait.
fn spent(policy: &Policy, found: &Classification, history: &History) -> Option<End> {
    let budgets = policy.budgets();
    // A handling of its own has its own schedule, which the steps of the other layers do not bound.
    let attempts = if found.handling.is_some() { budgets.attempts } else { policy.attempts() };
    let over = |used: u32, allowed: Option<u32>| allowed.filter(|allowed| used >= *allowed);
    if let Some(allowed) = over(history.attempts, attempts) {
        return Some(End::Attempts { made: history.attempts, allowed });
    }
    if let Some(allowed) = over(history.calls, budgets.calls) {
        return Some(End::Calls { made: history.calls, allowed });
    }
    let cost = budgets.cost.as_ref().map(|cost| cost.calls);
    over(history.cost, cost).map(|allowed| End::Cost { used: history.cost, allowed })
}

/// The budgets of time, with the wait that would come.
fn out_of_time(
    policy: &Policy,
    subject: &Subject<'_>,
    history: &History,
    wait: Duration,
    now: Timestamp,
) -> Option<End> {
    let budgets = policy.budgets();
    let waited = history.waited.saturating_add(wait);
    if let Some(allowed) = budgets.delay.filter(|allowed| waited > *allowed) {
        return Some(End::Delay { would_be: waited, allowed });
    }
    let age = history.age(now).saturating_add(wait);
    if let Some(allowed) = budgets.age.filter(|allowed| age > *allowed) {
        return Some(End::Age { would_be: age, allowed });
    }
    subject.deadline.filter(|deadline| now + wait > *deadline).map(|deadline| End::Deadline { deadline })
}

/// The step that comes next: which layer, and which of its steps.
struct Step<'p> {
    layer: Handling,
    schedule: &'p Schedule,
    index: u32,
    of: Option<u32>,
}

impl Policy {
    /// Whether anything at all would retry this.
    fn retries(&self, found: &Classification) -> bool {
        let layers = [Handling::InPlace, Handling::Blocking, Handling::Delayed];
        found.handling.is_some()
            || layers.into_iter().any(|layer| self.schedule(layer, found.class).is_some())
    }
}

/// Finds the next step. Layers come one after the other, once per message: the calls that were not delayed steps
/// were first the local ones, then the blocking ones.
fn next_step<'p>(
    policy: &'p Policy,
    found: &Classification,
    history: &History,
    advice: Option<Advice>,
) -> Option<Step<'p>> {
    let in_hand = history.attempts.saturating_sub(1).saturating_sub(history.delayed);
    let forced = |layer| {
        let general = match layer {
            Handling::Never | Handling::InPlace => &policy.forced.local,
            Handling::Blocking => &policy.forced.blocking,
            Handling::Delayed => &policy.forced.delayed,
        };
        policy.schedule(layer, found.class).or(general.as_ref())
    };
    let budgets = policy.budgets();
    let step = |layer, schedule: &'p Schedule, index: u32| {
        let limit = match layer {
            Handling::InPlace => budgets.local_attempts.map(|calls| calls.saturating_sub(1)),
            Handling::Delayed => budgets.broker_attempts,
            Handling::Never | Handling::Blocking => None,
        };
        let of = match (schedule.len(), limit) {
            (Some(len), Some(limit)) => Some(len.min(limit)),
            (len, limit) => len.or(limit),
        };
        of.is_none_or(|of| index < of).then_some(Step { layer, schedule, index, of })
    };
    if let Some(layer) = found.handling {
        let index = if layer == Handling::Delayed { history.delayed } else { in_hand };
        return step(layer, forced(layer)?, index);
    }
    let of_class = |layer| policy.schedule(layer, found.class);
    let blocking = |index| step(Handling::Blocking, of_class(Handling::Blocking)?, index);
    let delayed = || step(Handling::Delayed, of_class(Handling::Delayed)?, history.delayed);

    let mut index = in_hand;
    if let Some(schedule) = of_class(Handling::InPlace) {
        if let Some(local) = step(Handling::InPlace, schedule, index) {
            // A handler that says when to come back is not kept in hand for so long while there is another way.
            let elsewhere = advice
                .filter(|advice| advice.clamped > IN_PLACE_SLOT)
                .and_then(|_| blocking(0).or_else(delayed));
            return elsewhere.or(Some(local));
        }
        let used = schedule.len().unwrap_or(u32::MAX);
        let allowed = budgets.local_attempts.map_or(used, |calls| used.min(calls.saturating_sub(1)));
        index = index.saturating_sub(allowed);
    }
    blocking(index).or_else(delayed)
}

/// The wait before the next attempt: what the handler asked for, within the clamp, else the schedule's.
fn next_wait<R: Random + ?Sized>(
    policy: &Policy,
    step: &Step<'_>,
    history: &History,
    advice: Option<Advice>,
    now: Timestamp,
    rng: &mut R,
) -> (Duration, WaitBy) {
    // To come back at once is no advice that a policy follows: its own schedule and floor hold then.
    let advised =
        advice.and_then(|advice| advice.wait(step.schedule.jitter(), rng).map(|wait| (wait, advice)));
    if let Some((wait, Advice { asked, clamped, .. })) = advised {
        return (wait, WaitBy::RetryAfter { asked, clamped });
    }
    // The wait before a layer's first step belongs to another layer and says nothing about this one.
    let previous = history.last_wait.filter(|_| step.index > 0);
    let wait = step.schedule.sample(step.index, policy.limits(), previous, now, rng);
    (wait.unwrap_or_default(), WaitBy::Schedule)
}
