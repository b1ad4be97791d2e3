//! What stands in front of the handler and may hold a message back, uncharged.

use std::time::Duration;

use redrive_core::guard::{
    Admission, Breaker, BreakerState, FairShare, GuardError, Outcome, Permit, RateLimit, RetryBudget, Turn,
};

use super::spec::FlowSpec;

/// The guards of one flow on this instance.
#[derive(Debug)]
pub(crate) struct Guards {
    breaker: Option<Breaker>,
    rate: Option<RateLimit>,
    budget: Option<RetryBudget>,
    fair: FairShare,
}

/// The right to make one call, given back with its result.
#[derive(Debug, Clone, Copy)]
#[must_use = "a permit that is lost keeps a probe's place"]
pub(crate) struct Ticket {
    permit: Option<Permit>,
    /// Whether the call finds out if the endpoint is back; its failure is not charged.
    pub(crate) probe: bool,
}

/// Why no call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When to ask again; nothing when only other news can change it.
    pub(crate) until: Option<Duration>,
    /// Whether this can last: the endpoint is down, not just busy.
    pub(crate) endpoint_down: bool,
}

impl Guards {
    pub(crate) fn new(spec: &FlowSpec) -> Result<Self, GuardError> {
        Ok(Self {
            breaker: spec.breaker.clone().map(Breaker::new).transpose()?,
            rate: spec.rate.map(RateLimit::new),
            budget: spec.retry_budget.clone().map(RetryBudget::new).transpose()?,
            fair: FairShare::default(),
        })
    }

    /// Says whose turn it is among those that wait, and lets one of them begin.
    pub(crate) fn admit(
        &mut self,
        now: Duration,
        fresh: bool,
        retries: bool,
    ) -> Result<(Turn, Ticket), Refused> {
        let busy = |until: Duration| Refused { until: Some(until), endpoint_down: false };
        let wait = self.rate.as_ref().map_or(Duration::ZERO, |rate| rate.wait(now, 1));
        if !wait.is_zero() {
            return Err(busy(now.saturating_add(wait)));
        }
        let ticket = self.ask_breaker(now)?;
        let spendable = self.budget.as_mut().is_none_or(|budget| budget.next_at(now) == Some(now));
        let Some(turn) = self.fair.next(fresh, retries && spendable) else {
            self.withdraw(ticket);
            let until = self.budget.as_mut().and_then(|budget| budget.next_at(now));
            return Err(Refused { until, endpoint_down: false });
        };
        if let Some(budget) = &mut self.budget {
            match turn {
                Turn::Fresh => budget.deposit(now),
                // It had room a moment ago, under the same lock.
                Turn::Retry => _ = budget.try_spend(now),
            }
        }
        if let Some(rate) = &mut self.rate {
            let _ = rate.try_take(now, 1);
        }
        Ok((turn, ticket))
    }

    fn ask_breaker(&mut self, now: Duration) -> Result<Ticket, Refused> {
        match self.breaker.as_mut().map(|breaker| breaker.admit(now)) {
            None => Ok(Ticket { permit: None, probe: false }),
            Some(Admission::Allowed(permit)) => Ok(Ticket { permit: Some(permit), probe: false }),
            Some(Admission::Probe(permit)) => Ok(Ticket { permit: Some(permit), probe: true }),
            Some(Admission::Refused { retry_at }) => Err(Refused { until: retry_at, endpoint_down: true }),
        }
    }

    /// Whether the endpoint may be called at all now, without calling it.
    pub(crate) fn would_admit(&mut self, now: Duration) -> Result<(), Refused> {
        let ticket = self.ask_breaker(now)?;
        self.withdraw(ticket);
        Ok(())
    }

    /// The call was not made.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        if let (Some(breaker), Some(permit)) = (&mut self.breaker, ticket.permit) {
            breaker.withdraw(permit);
        }
    }

    /// Tells how a call went; answers with the breaker's new state when it changed.
    pub(crate) fn report(
        &mut self,
        now: Duration,
        ticket: Ticket,
        outcome: Outcome,
        took: Duration,
    ) -> Option<BreakerState> {
        self.breaker.as_mut()?.record(now, ticket.permit?, outcome, took)
    }

    /// Whether a call has succeeded lately. Without a breaker nobody could hold the flow, so the message is charged.
    pub(crate) fn endpoint_proven(&self, now: Duration) -> bool {
        self.breaker.as_ref().is_none_or(|breaker| breaker.succeeded_in_window(now))
    }

    pub(crate) fn breaker(&self, now: Duration) -> Option<BreakerState> {
        self.breaker.as_ref().map(|breaker| breaker.state(now))
    }
}
