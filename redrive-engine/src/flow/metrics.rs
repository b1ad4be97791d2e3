//! The figures of a flow. Handles are registered once, so that counting costs an addition.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use redrive_core::guard::BreakerState;
use redrive_core::{Action, Decision, Reason, Timestamp};

use crate::port::Delivery;

/// How many distinct reasons are told apart; the rest count as `OTHER`.
const MOST_REASONS: usize = 100;

pub(crate) struct FlowMetrics {
    flow: String,
    success: Counter,
    failure: Counter,
    aborted: Counter,
    duration: Histogram,
    attempts_to_success: Histogram,
    lateness: Histogram,
    retry_age: Histogram,
    settle: Histogram,
    recovered: Counter,
    in_flight: Gauge,
    ignored: Counter,
    clamped: Counter,
    doubted: Counter,
    /// What the handler had ignored when it was last asked.
    ignored_before: AtomicU64,
    breaker: Gauge,
    by_reason: Mutex<HashMap<(&'static str, &'static str, Reason), Counter>>,
}

impl std::fmt::Debug for FlowMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowMetrics").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl FlowMetrics {
    pub(crate) fn new(flow: &str) -> Self {
        let flow = flow.to_owned();
        let attempts = |result: &'static str| counter!("redrive_attempts_total", "flow" => flow.clone(), "result" => result);
        Self {
            success: attempts("success"),
            failure: attempts("failure"),
            aborted: attempts("aborted"),
            duration: histogram!("redrive_attempt_duration_seconds", "flow" => flow.clone()),
            attempts_to_success: histogram!("redrive_attempts_to_success", "flow" => flow.clone()),
            lateness: histogram!("redrive_delay_lateness_seconds", "flow" => flow.clone()),
            retry_age: histogram!("redrive_retry_age_seconds", "flow" => flow.clone()),
            settle: histogram!("redrive_settle_seconds", "flow" => flow.clone()),
            recovered: counter!("redrive_recovered_total", "flow" => flow.clone()),
            in_flight: gauge!("redrive_in_flight", "flow" => flow.clone()),
            ignored: counter!("redrive_answers_ignored_total", "flow" => flow.clone()),
            ignored_before: AtomicU64::new(0),
            clamped: counter!("redrive_headers_clamped_total", "flow" => flow.clone()),
            doubted: counter!("redrive_signature_failures_total", "flow" => flow.clone()),
            breaker: gauge!("redrive_breaker_state", "flow" => flow.clone()),
            by_reason: Mutex::default(),
            flow,
        }
    }

    pub(crate) fn received(&self, delivery: &Delivery, now: Timestamp) {
        if delivery.trail.process_after.is_some() {
            self.lateness.record(now.since(delivery.ready_at).as_secs_f64());
        }
    }

    /// A message came with headers out of their bounds.
    pub(crate) fn clamped(&self, headers: usize) {
        self.clamped.increment(headers as u64);
    }

    /// A message came whose headers were not signed by a key of the flow.
    pub(crate) fn doubted(&self) {
        self.doubted.increment(1);
    }

    /// So many calls run.
    pub(crate) fn in_flight(&self, calls: usize) {
        self.in_flight.set(calls as f64);
    }

    /// A call begins; of a message that has failed before it is told when that was.
    pub(crate) fn started(&self, now: Timestamp, first_failure: Option<Timestamp>) {
        if let Some(first) = first_failure {
            self.retry_age.record(now.since(first).as_secs_f64());
        }
    }

    pub(crate) fn ended(&self, result: &str, took: Duration) {
        self.duration.record(took.as_secs_f64());
        match result {
            "success" => self.success.increment(1),
            "failure" => self.failure.increment(1),
            _ => self.aborted.increment(1),
        }
    }

    /// How much of the handler's answers was passed over since it began.
    pub(crate) fn ignored(&self, so_far: u64) {
        if so_far > 0 && self.ignored_before.fetch_max(so_far, Ordering::Relaxed) < so_far {
            self.ignored.absolute(so_far);
        }
    }

    pub(crate) fn succeeded(&self, attempts: u32) {
        self.attempts_to_success.record(f64::from(attempts));
    }

    /// A message was sent on without a call.
    pub(crate) fn forwarded(&self) {
        self.success.increment(1);
    }

    pub(crate) fn recovered(&self) {
        self.recovered.increment(1);
    }

    pub(crate) fn settled(&self, took: Duration) {
        self.settle.record(took.as_secs_f64());
    }

    pub(crate) fn breaker(&self, state: BreakerState) {
        self.breaker.set(match state {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 1.0,
            BreakerState::Open => 2.0,
        });
    }

    pub(crate) fn retried(&self, kind: &'static str, reason: &Reason) {
        self.count("redrive_retries_total", kind, reason);
    }

    pub(crate) fn diverted(&self, decision: &Decision) {
        match decision.action {
            Action::Delay { .. } | Action::Block { .. } => self.retried("delayed", &decision.reason),
            Action::DeadLetter => self.count("redrive_dead_lettered_total", "", &decision.reason),
            Action::Park => self.count("redrive_parked_total", "", &decision.reason),
            Action::Discard => self.count("redrive_discarded_total", "", &decision.reason),
            _ => {}
        }
    }

    fn count(&self, name: &'static str, kind: &'static str, reason: &Reason) {
        let mut counters = self.by_reason.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let full = counters.len() >= MOST_REASONS && !counters.contains_key(&(name, kind, reason.clone()));
        let reason = if full { Reason::from_static("OTHER") } else { reason.clone() };
        let counter = counters.entry((name, kind, reason.clone())).or_insert_with(|| {
            let flow = self.flow.clone();
            let reason = reason.as_str().to_owned();
            if kind.is_empty() {
                counter!(name, "flow" => flow, "reason" => reason)
            } else {
                counter!(name, "flow" => flow, "reason" => reason, "kind" => kind)
            }
        });
        counter.increment(1);
    }
}
