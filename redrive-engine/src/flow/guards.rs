//! What stands in front of the handler and may hold a message back, uncharged.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::guard::{Admission, Breaker, BreakerState, GuardError, Outcome, Permit, RateLimit};

use super::spec::FlowSpec;

/// The breaker and the rate limit of one flow on this instance.
#[derive(Debug)]
pub(crate) struct Guards {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    breaker: Option<Breaker>,
    rate: Option<RateLimit>,
}

/// Whether a call may begin now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    /// It may.
    Go(Ticket),
    /// Not before this moment; nothing when only a person can end it.
    Hold(Option<Duration>),
}

/// The right to make one call, given back with its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    permit: Option<Permit>,
    /// Whether the call finds out if the endpoint is back; its failure is not charged.
    pub(crate) probe: bool,
}

impl Guards {
    pub(crate) fn new(spec: &FlowSpec) -> Result<Self, GuardError> {
        let breaker = spec.breaker.clone().map(Breaker::new).transpose()?;
        Ok(Self { state: Mutex::new(State { breaker, rate: spec.rate.map(RateLimit::new) }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is plain numbers: a panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass(&self, now: Duration) -> Pass {
        let mut state = self.state();
        let State { breaker, rate } = &mut *state;
        let ticket = match breaker.as_mut().map(|breaker| breaker.admit(now)) {
            None => Ticket { permit: None, probe: false },
            Some(Admission::Allowed(permit)) => Ticket { permit: Some(permit), probe: false },
            Some(Admission::Probe(permit)) => Ticket { permit: Some(permit), probe: true },
            Some(Admission::Refused { retry_at }) => return Pass::Hold(retry_at),
        };
        match rate.as_mut().map(|rate| rate.try_take(now, 1)) {
            Some(Err(wait)) => {
                if let (Some(breaker), Some(permit)) = (breaker, ticket.permit) {
                    breaker.withdraw(permit);
                }
                Pass::Hold(Some(now.saturating_add(wait)))
            }
            _ => Pass::Go(ticket),
        }
    }

    /// Tells how a call went; answers with the breaker's new state when it changed.
    pub(crate) fn report(
        &self,
        now: Duration,
        ticket: Ticket,
        outcome: Outcome,
        took: Duration,
    ) -> Option<BreakerState> {
        self.state().breaker.as_mut()?.record(now, ticket.permit?, outcome, took)
    }

    /// Whether a call has succeeded lately. Without a breaker nobody could hold the flow, so the message is charged.
    pub(crate) fn endpoint_proven(&self, now: Duration) -> bool {
        self.state().breaker.as_ref().is_none_or(|breaker| breaker.succeeded_in_window(now))
    }

    pub(crate) fn breaker(&self, now: Duration) -> Option<BreakerState> {
        self.state().breaker.as_ref().map(|breaker| breaker.state(now))
    }
}
