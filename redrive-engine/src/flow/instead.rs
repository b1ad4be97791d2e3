//! What becomes of a delivery whose outcome the broker refuses.
//!
//! A refusal will not change by trying again, and a delivery that nobody settles lies in hand until the next start. So
//! what was to go somewhere that does not take it waits for a person instead.

use super::forwarding;
use super::shared::Shared;
use crate::port::{EntryState, Outcome, Refusal, Settlement};

/// Parks a message that was to be sent to a target which refuses it; no when it is the delivery that is refused.
pub(crate) fn park(shared: &Shared, settlement: &mut Settlement, refusal: &Refusal) -> bool {
    if matches!(refusal, Refusal::NotFound { what: "delivery", .. }) {
        return false;
    }
    match (&settlement.outcome, settlement.record.as_mut()) {
        (Outcome::Reroute { target }, _) => {
            let because = format!("where it was to go, {target}, does not take it: {refusal}");
            forwarding::refused(shared, settlement, because);
        }
        (Outcome::Reject { .. }, Some(record)) => {
            record.state = EntryState::Parked;
            record.due_at = None;
            if let Some(attempt) = &mut record.attempt {
                attempt.decision = "park";
                attempt.because =
                    format!("{}; where it was to go does not take it: {refusal}", attempt.because);
            }
        }
        _ => return false,
    }
    settlement.outcome = Outcome::Park;
    true
}
