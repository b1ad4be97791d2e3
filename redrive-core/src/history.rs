//! What happened to a message before, as far as a decision needs it.

use std::time::Duration;

use crate::Timestamp;

/// The past of one message, up to and including the attempt that has just failed.
///
/// What Redrive itself refused (an open breaker, a pause, a shutdown) is not an attempt, and the time it took
/// stands in [`held`](Self::held), so that it does not count as age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Attempts made, this one included: 1 after the first call failed.
    pub attempts: u32,
    /// Delayed steps taken.
    pub delayed: u32,
    /// When it failed first; nothing when this is the first failure.
    pub first_failure: Option<Timestamp>,
    /// All waits so far, added up.
    pub waited: Duration,
    /// Time in which Redrive held it back, since the first failure.
    pub held: Duration,
    /// Calls to downstream systems so far, of every layer.
    pub calls: u32,
    /// What its business entity has cost within the window of the policy.
    pub cost: u32,
    /// The wait before the attempt that has just failed.
    pub last_wait: Option<Duration>,
    /// How often its process died while it was in flight.
    pub crashes: u32,
    /// Whether any call to the endpoint has succeeded lately.
    pub endpoint_proven: bool,
}

impl History {
    /// The history of a message whose first attempt has just failed, at an endpoint that works.
    pub const fn first() -> Self {
        Self {
            attempts: 1,
            delayed: 0,
            first_failure: None,
            waited: Duration::ZERO,
            held: Duration::ZERO,
            calls: 1,
            cost: 0,
            last_wait: None,
            crashes: 0,
            endpoint_proven: true,
        }
    }

    /// The time since the first failure in which Redrive did not hold the message back.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.first_failure.map_or(Duration::ZERO, |first| now.since(first)).saturating_sub(self.held)
    }
}
