//! A flow as the engine runs it: a source, a handler, a policy, and the limits around them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::guard::{BreakerConfig, Rate, RetryBudgetConfig};
use redrive_core::{FactSources, OrderBy, Policy, Redaction};

use crate::handler::Handler;
use crate::hook::Hooks;
use crate::journal::Journal;
use crate::port::HeaderRules;

/// Everything a flow needs to run, complete and checked.
#[derive(Debug, Clone)]
pub struct FlowSpec {
    /// Its name.
    pub name: Arc<str>,
    /// The queue or topic it reads.
    pub source: Arc<str>,
    /// The source's address without credentials, for the handler and the ledger.
    pub address: Arc<str>,
    /// What is done with a message.
    pub handler: Arc<dyn Handler>,
    /// The policy.
    pub policy: Arc<Policy>,
    /// Policies of single message types.
    pub policies_by_type: HashMap<String, Arc<Policy>>,
    /// Where facts are found in a message.
    pub facts: FactSources,
    /// What is masked in what is written down.
    pub redaction: Redaction,
    /// How headers are spelled, and which keys sign them.
    pub headers: HeaderRules,
    /// What keeps messages in order.
    pub order_by: OrderBy,
    /// How many handler calls run at once.
    pub concurrency: usize,
    /// How long one call may take.
    pub timeout: Duration,
    /// At most so many calls a second.
    pub rate: Option<Rate>,
    /// When the flow holds because the endpoint fails; nothing turns it off.
    pub breaker: Option<BreakerConfig>,
    /// How many retries there may be beside first attempts; nothing turns it off.
    pub retry_budget: Option<RetryBudgetConfig>,
    /// How long the flow may hold before what was taken in goes back to the source.
    pub long_hold: Duration,
    /// The most messages in hand, running or not.
    pub prefetch: usize,
    /// The most bytes in hand.
    pub prefetch_bytes: usize,
    /// How long calls may go on after a stop.
    pub shutdown: Duration,
    /// Whether a message that this handler has processed before is acknowledged without a call.
    pub once_per_message: bool,
    /// Where rejection events go.
    pub rejected: Option<Arc<str>>,
    /// Who owns the flow.
    pub owner: Option<Arc<str>>,
    /// Who is told before and after a message is diverted.
    pub hooks: Hooks,
    /// Where running calls are named, so that a message that kills the process is known by the next one; without
    /// it crashes are not counted.
    pub journal: Option<Arc<Journal>>,
    /// A message is parked when the process has died so often while it ran.
    pub crash_limit: u32,
}

impl FlowSpec {
    /// A flow with defaults: the ladder, 64 calls at once, 30 s a call, 25 s for a stop,
    /// two crashes.
    pub fn new(name: &str, source: &str, handler: Arc<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            address: format!("queue:{source}").into(),
            handler,
            policy: Arc::new(Policy::default()),
            policies_by_type: HashMap::new(),
            facts: FactSources::default(),
            redaction: Redaction::default(),
            headers: HeaderRules::default(),
            order_by: OrderBy::None,
            concurrency: 64,
            timeout: Duration::from_secs(30),
            rate: None,
            breaker: Some(BreakerConfig::default()),
            retry_budget: Some(RetryBudgetConfig::default()),
            long_hold: Duration::from_secs(30),
            // Four times what is settled at once: some is read and some is tried while some is settled.
            prefetch: 4_096,
            prefetch_bytes: 64 * 1024 * 1024,
            shutdown: Duration::from_secs(25),
            once_per_message: false,
            rejected: None,
            owner: None,
            hooks: Hooks::default(),
            journal: None,
            crash_limit: 2,
        }
    }

    /// The policy for a message type.
    pub(crate) fn policy_for(&self, message_type: Option<&str>) -> &Arc<Policy> {
        message_type.and_then(|kind| self.policies_by_type.get(kind)).unwrap_or(&self.policy)
    }
}
