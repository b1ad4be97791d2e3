//! What a client shows of its calls: counters, a histogram of waits, and a span for each attempt.
//!
//! Off unless a client asks for it. The metrics go to whatever recorder the program has installed for the crate
//! `metrics`, the spans to the subscriber of `tracing`.
//!
//! | metric | meaning |
//! |---|---|
//! | `redrive_client_calls_total{client,result}` | calls: `success`, `failure`, `gave_up`, `refused` (nothing was attempted) |
//! | `redrive_client_attempts_total{client,result}` | attempts: `success`, `failure`, `timeout` |
//! | `redrive_client_retries_total{client}` | attempts after the first that began |
//! | `redrive_client_stops_total{client,by}` | why calls were given up: `attempts`, `deadline`, `budget`, `call_budget`, `breaker`, `bulkhead`, `rate`, `not_repeatable`, `final` |
//! | `redrive_client_backoff_seconds{client}` | the waits before those |
//!
//! The span of an attempt is named `attempt` and has the fields `client`, `retry.attempt` (its number) and
//! `retry.last` (whether none followed). It ends when that is known: with the call, or when the next attempt begins, so
//! that the wait between the two is in it.
//!
//! A call that succeeds allocates nothing with it either, apart from what a subscriber makes of the span.
//!
//! ```
//! use redrive_retry::Retryer;
//! use redrive_retry::telemetry::Telemetry;
//!
//! let retryer = Retryer::builder().telemetry(Telemetry::new("warehouse")).build()?;
//! assert!(retryer.call_blocking(|_| Ok::<_, std::io::Error>(())).is_ok());
//! # Ok::<(), redrive_retry::BuildError>(())
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::Stop;

/// Asks for telemetry under a client's name. Clones count together.
///
/// Make it after the recorder of the metrics was installed: what is counted before goes nowhere.
#[derive(Clone)]
pub struct Telemetry {
    meters: Arc<Meters>,
}

struct Meters {
    client: Arc<str>,
    calls: [Counter; 4],
    attempts: [Counter; 3],
    retries: Counter,
    stops: [Counter; STOPS.len()],
    backoff: Histogram,
}

const CALLS: [&str; 4] = ["success", "failure", "gave_up", "refused"];
const ATTEMPTS: [&str; 3] = ["success", "failure", "timeout"];
const STOPS: [&str; 9] = [
    "final",
    "attempts",
    "deadline",
    "budget",
    "call_budget",
    "not_repeatable",
    "breaker",
    "bulkhead",
    "rate",
];

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    Success,
    Failure,
    Timeout,
}

impl Telemetry {
    /// Telemetry of the client with this name, such as the system that it calls.
    pub fn new(client: impl Into<Arc<str>>) -> Self {
        let client: Arc<str> = client.into();
        let label = || Arc::clone(&client);
        let calls = CALLS.map(
            |result| metrics::counter!("redrive_client_calls_total", "client" => label(), "result" => result),
        );
        let attempts = ATTEMPTS.map(|result| {
            metrics::counter!("redrive_client_attempts_total", "client" => label(), "result" => result)
        });
        let retries = metrics::counter!("redrive_client_retries_total", "client" => label());
        let stops =
            STOPS.map(|by| metrics::counter!("redrive_client_stops_total", "client" => label(), "by" => by));
        let backoff = metrics::histogram!("redrive_client_backoff_seconds", "client" => label());
        Self { meters: Arc::new(Meters { client, calls, attempts, retries, stops, backoff }) }
    }

    pub(crate) fn span(&self, number: u32) -> tracing::Span {
        tracing::info_span!(
            "attempt",
            client = &*self.meters.client,
            retry.attempt = number,
            retry.last = tracing::field::Empty
        )
    }

    pub(crate) fn attempted(&self, ended: Ended) {
        self.meters.attempts[ended as usize].increment(1);
    }

    pub(crate) fn retried(&self, wait: Duration) {
        self.meters.retries.increment(1);
        self.meters.backoff.record(wait.as_secs_f64());
    }

    pub(crate) fn succeeded(&self) {
        self.meters.calls[0].increment(1);
    }

    pub(crate) fn gave_up(&self, stop: Stop, attempted: bool) {
        let (place, result) = match stop {
            Stop::Final => (0, 1),
            Stop::Attempts => (1, 2),
            Stop::Deadline | Stop::NoTimeToWait { .. } => (2, 2),
            Stop::Budget => (3, 2),
            Stop::CallBudget => (4, 2),
            Stop::NotRepeatable => (5, 2),
            Stop::Breaker(_) => (6, 2),
            Stop::Bulkhead(_) => (7, 2),
            Stop::Rate(_) => (8, 2),
        };
        self.meters.stops[place].increment(1);
        self.meters.calls[if attempted { result } else { 3 }].increment(1);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Telemetry").field(&self.meters.client).finish()
    }
}
