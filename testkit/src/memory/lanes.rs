//! STAND-IN, to be replaced at the merge by the lanes of the store: here nothing is ever kept in a lane.

use redrive_core::Timestamp;
use redrive_engine::port::LaneName;

use super::state::State;

impl State {
    /// Lets everything go that a quarantine keeps; answers with how many that were.
    #[expect(clippy::unused_self, reason = "a stand-in")]
    pub(super) fn release_quarantine(&mut self, _flow: &str, _lane: &LaneName, _now: Timestamp) -> u64 {
        0
    }

    /// How many messages a lane keeps.
    #[expect(clippy::unused_self, reason = "a stand-in")]
    pub(super) fn kept_in(&self, _flow: &str, _lane: &LaneName) -> u64 {
        0
    }
}
