//! How many lanes each flow has in the file, so that a message of a flow without any costs no look at it.
//!
//! Quarantines are not counted: nobody asks how a message stands in one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

/// The lanes of each flow that has some.
#[derive(Debug, Default)]
pub(crate) struct LaneCounts(Mutex<HashMap<String, i64>>);

impl LaneCounts {
    pub(crate) fn load(sql: &Connection) -> rusqlite::Result<Self> {
        let mut statement =
            sql.prepare("SELECT flow, count(*) FROM lanes WHERE lane NOT GLOB 'quarantine:*' GROUP BY flow")?;
        let counts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(Mutex::new(counts.collect::<rusqlite::Result<_>>()?)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        // Plain numbers: a panic elsewhere cannot leave them half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a commit.
    pub(crate) fn add(&self, changes: &[(String, i64)]) {
        if changes.is_empty() {
            return;
        }
        let mut counts = self.lock();
        for (flow, by) in changes {
            let count = counts.entry(flow.clone()).or_default();
            *count += by;
            if *count == 0 {
                counts.remove(flow);
            }
        }
    }

    pub(crate) fn of(&self, flow: &str) -> u64 {
        self.lock().get(flow).map_or(0, |count| (*count).max(0).cast_unsigned())
    }
}
