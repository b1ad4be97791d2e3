//! Which of the small duties cannot be done, since when, and what stands in the way.
//!
//! Each is tried again by itself, and none waits for another: one topic that is gone costs its own duty and no more. Since
//! messages go on meanwhile, nobody would notice, so a person is told.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::log;
use crate::port::{BrokerAlarm, PortError};

/// How long a duty may wait before a person is told.
const PATIENCE: Duration = Duration::from_secs(10);

/// A small duty between the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Duty {
    ReadResolved,
    TakeOver,
    FindOverdue,
    KeepResolved,
    CopyBodies,
}

impl Duty {
    const fn name(self) -> &'static str {
        match self {
            Self::ReadResolved => "reading what people resolved",
            Self::TakeOver => "taking over what lies at the broker",
            Self::FindOverdue => "looking for copies that are overdue",
            Self::KeepResolved => "keeping what people resolved at the broker",
            Self::CopyBodies => "copying bodies that the broker drops soon",
        }
    }
}

/// The duties that wait.
#[derive(Debug, Default)]
pub(super) struct Duties {
    waiting: Mutex<BTreeMap<Duty, (Instant, String)>>,
}

impl Duties {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Duty, (Instant, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How one was done. An error is logged when it is a new one, not at every try, and once for all that it stops.
    pub(super) fn done<T>(&self, flow: &str, duty: Duty, result: Result<T, PortError>) -> Option<T> {
        let mut waiting = self.waiting();
        match result {
            Ok(done) => {
                if waiting.remove(&duty).is_some() {
                    log::duty_goes_on(flow, duty.name());
                }
                Some(done)
            }
            Err(error) => {
                let text = error.to_string();
                if waiting.values().all(|(_, known)| *known != text) {
                    log::duty_waits(flow, duty.name(), &error);
                }
                let since = waiting.get(&duty).map_or_else(Instant::now, |(since, _)| *since);
                waiting.insert(duty, (since, text));
                None
            }
        }
    }

    /// Nobody tries any more.
    pub(super) fn end(&self) {
        self.waiting().clear();
    }

    pub(super) fn alarm(&self) -> Option<BrokerAlarm> {
        let waiting = self.waiting();
        let late = waiting.iter().filter(|(_, (since, _))| since.elapsed() >= PATIENCE);
        let late: Vec<String> = late.map(|(duty, (_, error))| format!("{}: {error}", duty.name())).collect();
        (!late.is_empty()).then(|| BrokerAlarm {
            name: "errands_wait",
            why: format!(
                "duties beside the messages cannot be done, and are tried again: {}",
                late.join("; ")
            ),
        })
    }
}
