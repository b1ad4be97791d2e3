//! How many messages replays have sent and what became of them, as a figure.
//!
//! The ledger keeps each replay's own figures, whoever changed them; here only what was added since the last look is
//! counted. What is there at the start was counted by an earlier process.

use std::collections::HashMap;

use metrics::{Counter, counter};

use crate::port::{EntryId, Replay};

/// The outcomes that are told apart, and where a replay has them.
type Outcome = (&'static str, fn(&Replay) -> u64);

const OUTCOMES: [Outcome; 4] = [
    ("sent", |replay| replay.sent),
    ("recovered", |replay| replay.recovered),
    ("failed", |replay| replay.failed),
    ("skipped", |replay| replay.skipped),
];

/// Counts what is added to the figures of replays.
pub(crate) struct ReplayFigures {
    counters: [Counter; 4],
    /// The figures at the last look; nothing before the first.
    seen: Option<HashMap<EntryId, [u64; 4]>>,
}

impl std::fmt::Debug for ReplayFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayFigures").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Default for ReplayFigures {
    fn default() -> Self {
        let counters =
            OUTCOMES.map(|(outcome, _)| counter!("redrive_replay_messages_total", "outcome" => outcome));
        Self { counters, seen: None }
    }
}

impl ReplayFigures {
    /// Looks at all replays that are known.
    pub(crate) fn look(&mut self, replays: &[Replay]) {
        let now: HashMap<EntryId, [u64; 4]> =
            replays.iter().map(|replay| (replay.id, OUTCOMES.map(|(_, of)| of(replay)))).collect();
        if let Some(before) = &self.seen {
            for (id, figures) in &now {
                let earlier = before.get(id).copied().unwrap_or_default();
                for ((counter, figure), earlier) in self.counters.iter().zip(figures).zip(earlier) {
                    let added = figure.saturating_sub(earlier);
                    if added > 0 {
                        counter.increment(added);
                    }
                }
            }
        }
        self.seen = Some(now);
    }
}
