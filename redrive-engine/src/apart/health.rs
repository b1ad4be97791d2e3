//! Whether the ledger answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::log;
use crate::port::{BrokerAlarm, PortError};

/// How long a ledger may be away before a person is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Since when the ledger is away, and what it said.
#[derive(Debug, Default)]
pub(super) struct Health {
    away: Mutex<Option<(Instant, String)>>,
}

impl Health {
    fn away(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger did not answer. It is logged when it begins, not at every try.
    pub(super) fn is_away(&self, flow: &str, error: &PortError) {
        let mut away = self.away();
        match &mut *away {
            Some((_, said)) => *said = error.to_string(),
            None => {
                log::away(flow, error);
                *away = Some((Instant::now(), error.to_string()));
            }
        }
    }

    /// The ledger answers.
    pub(super) fn answers(&self, flow: &str) {
        if self.away().take().is_some() {
            log::back(flow);
        }
    }

    pub(super) fn alarms(&self) -> Option<BrokerAlarm> {
        let away = self.away();
        let (_, said) = away.as_ref().filter(|(since, _)| since.elapsed() >= PATIENCE)?;
        Some(BrokerAlarm {
            name: "ledger_away",
            why: format!("the ledger does not answer; retries, lanes and what people do wait for it: {said}"),
        })
    }
}
