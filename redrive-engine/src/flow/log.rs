//! The log lines of a flow: one per diversion, none per success. `docs/logs.md` has the fields of each; a test holds
//! it against this file and against what a running flow writes.

use redrive_core::guard::BreakerState;
use redrive_core::{Action, Decision, Message, Timestamp};

use super::desk::Pauses;
use super::job::Job;
use super::spec::FlowSpec;
use crate::port::{Doubt, EntryState, PortError, Refusal, Settlement};

pub(crate) fn diversion(spec: &FlowSpec, job: &Job, decision: &Decision, now: Timestamp) {
    let due = match &decision.action {
        Action::Delay { until } | Action::Block { until } => Some(*until),
        _ => None,
    };
    let message = &job.delivery.message;
    tracing::info!(
        flow = &*spec.name,
        message_id = message.id.as_str(),
        attempt = job.attempts(),
        class = decision.class.as_str(),
        reason = decision.reason.as_str(),
        decision = decision.action.name(),
        because = %decision.because,
        next_delay_ms = due.map(|due| due.since(now).as_millis() as u64),
        due = due.map(tracing::field::display),
        trace = trace_id(message),
        "diverted"
    );
}

/// The trace id of a `traceparent` header: the second of its four parts.
fn trace_id(message: &Message) -> Option<String> {
    let text = message.headers.get_text("traceparent", 64)?;
    let id = text.as_str().split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

pub(crate) fn doubted(spec: &FlowSpec, message: &Message, doubt: Doubt) {
    tracing::warn!(
        flow = &*spec.name,
        message_id = message.id.as_str(),
        found = ?doubt.found,
        again = doubt.again,
        "headers are not signed by a key of the flow"
    );
}

pub(crate) fn breaker(spec: &FlowSpec, state: BreakerState) {
    tracing::warn!(flow = &*spec.name, state = ?state, "breaker");
}

pub(crate) fn paused(spec: &FlowSpec, pauses: Pauses) {
    tracing::info!(flow = &*spec.name, all = pauses.all, retries = pauses.retries, "pause");
}

pub(crate) fn gives_back(spec: &FlowSpec, messages: usize) {
    tracing::info!(flow = &*spec.name, messages, "holds for long; what was taken in goes back");
}

pub(crate) fn source_away(spec: &FlowSpec, error: &PortError, times: usize) {
    tracing::warn!(flow = &*spec.name, error = %error, times = times + 1, "source does not answer");
}

pub(crate) fn broker_away(spec: &FlowSpec, error: &PortError, waiting: usize) {
    tracing::warn!(flow = &*spec.name, error = %error, waiting, "broker does not settle; no call begins until it does");
}

pub(crate) fn source_back(spec: &FlowSpec) {
    tracing::info!(flow = &*spec.name, "source answers again");
}

pub(crate) fn broker_back(spec: &FlowSpec) {
    tracing::info!(flow = &*spec.name, "broker settles again");
}

pub(crate) fn given_up(spec: &FlowSpec, left: usize) {
    tracing::error!(flow = &*spec.name, left, "stopped without settling; these will be delivered again");
}

pub(crate) fn ledger_away(spec: &FlowSpec, error: &PortError) {
    tracing::warn!(flow = &*spec.name, error = %error, "ledger does not answer");
}

pub(crate) fn double(spec: &FlowSpec, message: &Message, state: EntryState) {
    tracing::info!(
        flow = &*spec.name,
        message_id = message.id.as_str(),
        state = state.as_str(),
        "dropped a second copy of a replay"
    );
}

pub(crate) fn parked_instead(spec: &FlowSpec, settlement: &Settlement, refusal: &Refusal) {
    tracing::warn!(
        flow = &*spec.name,
        message_id = settlement.delivery.message.id.as_str(),
        error = %refusal,
        "parked: where it was to go does not take it"
    );
}

pub(crate) fn not_settled(spec: &FlowSpec, settlement: &Settlement, refusal: &Refusal) {
    tracing::warn!(
        flow = &*spec.name,
        message_id = settlement.delivery.message.id.as_str(),
        error = %refusal,
        "not settled: it is no longer in this hand"
    );
}
