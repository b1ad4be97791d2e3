//! Telling the hooks of a flow what is diverted.
//!
//! The hook before a diversion is waited for; the one after it is told by a task of its own, so that a slow one holds up
//! neither the handler nor the settling.

use std::borrow::Cow;
use std::sync::Arc;

use redrive_core::{Class, Reason, Timestamp};
use tokio::sync::mpsc;

use super::shared::Shared;
use super::spec::FlowSpec;
use crate::hook::{Diverted, When, shown};
use crate::port::{EntryState, Outcome, Settlement};

/// What may wait to be told. Beyond it a hook is not told, which is logged and counted.
pub(crate) const WAITING: usize = 1_024;

/// What a settlement is for a hook; nothing when the message is not diverted.
fn diverted(
    spec: &FlowSpec,
    settlement: &Settlement,
    when: When,
    problem: Option<String>,
    at: Timestamp,
) -> Option<Diverted> {
    let record = settlement.record.as_deref().filter(|record| record.state != EntryState::Recovered)?;
    let attempt = record.attempt.as_ref();
    let held = record.held.as_deref();
    let target = match &settlement.outcome {
        Outcome::Reject { target, .. } | Outcome::Reroute { target } => Some(target.clone()),
        _ => None,
    };
    Some(Diverted {
        when,
        at,
        flow: Arc::clone(&record.flow),
        entry_id: record.entry,
        message: shown(&settlement.delivery.message, record.message_type.as_deref(), &spec.redaction),
        attempt: record.attempts,
        class: attempt.map_or(Class::Unknown, |attempt| attempt.class),
        reason: attempt
            .map(|attempt| attempt.reason.clone())
            .or_else(|| held.map(|held| held.reason.clone()))
            .unwrap_or(Reason::UNKNOWN_FAILURE),
        decision: Cow::Borrowed(attempt.map_or("hold", |attempt| attempt.decision)),
        because: attempt
            .map(|attempt| attempt.because.clone())
            .or_else(|| held.map(|held| held.because.clone()))
            .unwrap_or_default(),
        state: record.state,
        target,
        due_at: record.due_at,
        error: attempt
            .and_then(|attempt| attempt.chain.first())
            .map(|link| link.message.clone())
            .unwrap_or_default(),
        http_status: attempt.and_then(|attempt| attempt.status),
        problem,
    })
}

impl Shared {
    /// Tells the hook before a diversion, when there is one, and waits for it.
    pub(crate) async fn tell_before(&self, settlement: &Settlement) {
        let hooks = &self.spec.hooks;
        if hooks.before.is_some()
            && let Some(diverted) = diverted(&self.spec, settlement, When::Before, None, self.clock.now())
        {
            // What goes wrong is logged and counted there, and changes nothing here.
            let _ = hooks.tell(&diverted).await;
        }
    }

    /// Has the hook after a diversion told, when there is one.
    pub(crate) fn tell_after(&self, settlement: &Settlement, problem: Option<&dyn std::fmt::Display>) {
        let Some(after) = &self.after else { return };
        let problem = problem.map(ToString::to_string);
        let Some(diverted) = diverted(&self.spec, settlement, When::After, problem, self.clock.now()) else {
            return;
        };
        if after.try_send(diverted).is_err() {
            let flow = self.spec.name.to_string();
            metrics::counter!("redrive_hook_failures_total", "flow" => flow, "hook" => "after").increment(1);
            tracing::warn!(
                flow = &*self.spec.name,
                message_id = settlement.delivery.message.id.as_str(),
                "hook is too slow; it is not told of this message"
            );
        }
    }
}

/// Tells the hook after each diversion, until nobody has anything to tell.
pub(crate) async fn tell_all(shared: Arc<Shared>, mut arriving: mpsc::Receiver<Diverted>) {
    let ended = || async {
        shared.settled_all.cancelled().await;
        tokio::time::sleep(shared.spec.shutdown).await;
    };
    let give_up = ended();
    tokio::pin!(give_up);
    loop {
        let diverted = tokio::select! {
            biased;
            () = shared.force.cancelled() => return,
            () = &mut give_up => return,
            diverted = arriving.recv() => diverted,
            // Nothing more will come.
            () = shared.settled_all.cancelled(), if arriving.is_empty() => return,
        };
        let Some(diverted) = diverted else { return };
        let _ = shared.spec.hooks.tell(&diverted).await;
    }
}
