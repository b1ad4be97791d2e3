//! The controls in force, looked at so often that an order is obeyed within a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::alarms;
use super::desk::Pauses;
use super::job::Job;
use super::log;
use super::shared::Shared;
use super::spec::FlowSpec;
use crate::port::{Control, ControlKind, PortError, Quarantine};
use redrive_core::Message;

/// How often the ledger is asked.
const EVERY: Duration = Duration::from_millis(400);
/// In how many looks the queue's limit is looked at once.
const QUEUE_EVERY: u32 = 5;

/// What is kept back.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    any: AtomicBool,
    quarantines: RwLock<Arc<[Quarantine]>>,
    /// When the last look began, by the monotonic clock. Held during a look, so that none puts older orders in force than
    /// another has found.
    looked_at: tokio::sync::Mutex<Duration>,
}

impl Controls {
    /// The quarantine that kept this message at the last look; usually there is none to look at.
    pub(crate) fn quarantine(&self, spec: &FlowSpec, message: &Message) -> Option<Quarantine> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let quarantines = Arc::clone(&self.quarantines.read().unwrap_or_else(PoisonError::into_inner));
        quarantines.iter().find(|quarantine| fits(quarantine, spec, message)).cloned()
    }

    fn set(&self, quarantines: Vec<Quarantine>) {
        self.any.store(!quarantines.is_empty(), Ordering::Relaxed);
        *self.quarantines.write().unwrap_or_else(PoisonError::into_inner) = quarantines.into();
    }
}

fn fits(quarantine: &Quarantine, spec: &FlowSpec, message: &Message) -> bool {
    match quarantine {
        Quarantine::Key(key) => message.key.as_deref() == Some(key.as_bytes()),
        Quarantine::Tenant(tenant) => {
            let facts = spec.facts.find(&message.headers, message.body.as_deref());
            facts.tenant.as_deref() == Some(tenant)
        }
        Quarantine::Header { name, value } => message
            .headers
            .iter()
            .any(|header| header.name.as_str() == name && header.value.as_deref() == Some(value.as_bytes())),
    }
}

/// The quarantine that keeps this message, by orders that are younger than its arrival, of one that kept it at the last look:
/// what was let go a moment ago is not kept once more, and so keeps its place among those that were let go with it.
pub(crate) async fn confirmed(shared: &Shared, job: &Job, presumed: Quarantine) -> Option<Quarantine> {
    let looked_at = *shared.controls.looked_at.lock().await;
    if looked_at > job.put_at {
        return Some(presumed);
    }
    match look(shared).await {
        Ok(()) => shared.controls.quarantine(&shared.spec, &job.delivery.message),
        Err(error) => {
            log::ledger_away(&shared.spec, &error);
            Some(presumed)
        }
    }
}

/// Puts what the ledger says in force.
pub(crate) async fn look(shared: &Shared) -> Result<(), PortError> {
    let mut looked_at = shared.controls.looked_at.lock().await;
    let begins = shared.clock.monotonic();
    let controls = shared.ledger.controls().await?;
    let of_flow: Vec<&Control> =
        controls.iter().filter(|control| *control.flow == *shared.spec.name).collect();
    let has = |kind| of_flow.iter().any(|control| control.kind == kind);
    let pauses = Pauses { all: has(ControlKind::Pause), retries: has(ControlKind::PauseRetries) };
    if pauses != shared.desk.pauses() {
        log::paused(&shared.spec, pauses);
        shared.desk.pause(pauses, shared.clock.monotonic());
        shared.in_hand.released.notify_one();
    }
    let quarantines = of_flow.iter().filter(|control| control.kind == ControlKind::Quarantine);
    shared.controls.set(quarantines.filter_map(|control| control.target.parse().ok()).collect());
    *looked_at = begins;
    Ok(())
}

/// Looks until the flow stops. A ledger that does not answer leaves in force what was.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let mut looks = 0_u32;
    let mut raised = Vec::new();
    while shared.sleep(EVERY).await.is_ok() {
        look_at_broker(&shared, &mut raised);
        shared.metrics.in_flight(shared.desk.running());
        shared.look_for_quiet();
        let mut seen = look(&shared).await;
        if looks.is_multiple_of(QUEUE_EVERY) && seen.is_ok() {
            seen = look_at_queue(&shared).await;
        }
        looks = looks.wrapping_add(1);
        if let Err(error) = seen {
            log::ledger_away(&shared.spec, &error);
        }
    }
}

/// Raises what the broker says that a person should know, and takes back what it does not say any more.
fn look_at_broker(shared: &Shared, raised: &mut Vec<&'static str>) {
    let alarms = shared.broker.alarms();
    raised.retain(|name| {
        let stays = alarms.iter().any(|alarm| alarm.name == *name);
        if !stays {
            shared.alarms.clear(name);
        }
        stays
    });
    for alarm in alarms {
        if !raised.contains(&alarm.name) {
            raised.push(alarm.name);
            shared.alarms.raise(alarm.name, shared.clock.now(), || alarm.why);
        }
    }
}

/// Raises an alarm when the flow's queue is at its limit: whoever publishes is refused then.
async fn look_at_queue(shared: &Shared) -> Result<(), PortError> {
    let queue = &shared.spec.source;
    match shared.broker.full(queue).await? {
        Some(limit) => shared.alarms.raise(alarms::QUEUE_FULL, shared.clock.now(), || {
            format!("the queue {queue} is at its limit of {limit} messages; publishers are refused")
        }),
        None => shared.alarms.clear(alarms::QUEUE_FULL),
    }
    Ok(())
}
