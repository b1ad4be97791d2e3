//! What a person should know about a running flow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::gauge;
use redrive_core::Timestamp;

use crate::Alarm;

/// The endpoint fails, and nothing is called.
pub(crate) const BREAKER_OPEN: &str = "breaker_open";
/// The flow stands still for one message.
pub(crate) const BLOCKED: &str = "blocked";
/// The endpoint refuses everything, whatever the message: a wrong address, wrong credentials.
pub(crate) const ENDPOINT_FAULT: &str = "endpoint_fault";
/// The process died while messages were being handled.
pub(crate) const SUSPECTS: &str = "suspects";
/// The broker does not settle.
pub(crate) const BROKER_AWAY: &str = "broker_away";
/// The flow's queue takes no more messages.
pub(crate) const QUEUE_FULL: &str = "queue_full";
/// Messages come whose headers no key of the flow has signed.
pub(crate) const SIGNATURE_INVALID: &str = "signature_invalid";

type Raised = BTreeMap<Cow<'static, str>, Alarm>;

/// The alarms of a flow.
#[derive(Debug)]
pub(crate) struct Alarms {
    flow: String,
    any: AtomicBool,
    raised: Mutex<Raised>,
}

impl Alarms {
    pub(crate) fn new(flow: &str) -> Self {
        Self { flow: flow.to_owned(), any: AtomicBool::new(false), raised: Mutex::default() }
    }

    fn raised(&self) -> MutexGuard<'_, Raised> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises an alarm, unless it is raised already.
    pub(crate) fn raise(&self, name: &'static str, now: Timestamp, text: impl FnOnce() -> String) {
        let mut raised = self.raised();
        if !raised.contains_key(name) {
            self.add(&mut raised, Alarm::new(name, now, text()));
        }
    }

    /// Raises an alarm whose text changes while it lasts, or takes it back: `text` looks, and nobody else meanwhile.
    pub(crate) fn look(&self, name: &'static str, now: Timestamp, text: impl FnOnce() -> Option<String>) {
        let mut raised = self.raised();
        match (text(), raised.get_mut(name)) {
            (Some(text), Some(alarm)) => alarm.text = text,
            (Some(text), None) => self.add(&mut raised, Alarm::new(name, now, text)),
            (None, _) => self.remove(&mut raised, name),
        }
    }

    /// Takes an alarm back; usually there is none.
    pub(crate) fn clear(&self, name: &'static str) {
        if self.any.load(Ordering::Relaxed) {
            self.remove(&mut self.raised(), name);
        }
    }

    fn add(&self, raised: &mut Raised, alarm: Alarm) {
        let Alarm { name, text, .. } = &alarm;
        tracing::warn!(flow = self.flow, alarm = &**name, text, "alarm");
        gauge!("redrive_alarm", "flow" => self.flow.clone(), "name" => name.clone()).set(1.0);
        raised.insert(name.clone(), alarm);
        self.any.store(true, Ordering::Relaxed);
    }

    fn remove(&self, raised: &mut Raised, name: &'static str) {
        if raised.remove(name).is_some() {
            tracing::info!(flow = self.flow, alarm = name, "alarm is over");
            gauge!("redrive_alarm", "flow" => self.flow.clone(), "name" => name).set(0.0);
        }
        self.any.store(!raised.is_empty(), Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<Alarm> {
        self.raised().values().cloned().collect()
    }
}
