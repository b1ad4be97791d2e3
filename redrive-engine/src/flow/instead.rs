//! What becomes of a delivery whose outcome the broker refuses.
//!
//! A refusal will not change by trying again, and a delivery that nobody settles lies in hand until the next start. So
//! what was to go somewhere that does not take it waits for a person instead.

use crate::port::{EntryState, Outcome, Refusal, Settlement};

/// Parks a message that was to be sent to a target which refuses it; no when it is the delivery that is refused.
pub(crate) fn park(settlement: &mut Settlement, refusal: &Refusal) -> bool {
    let to_elsewhere = matches!(settlement.outcome, Outcome::Reject { .. } | Outcome::Reroute { .. });
    let gone = matches!(refusal, Refusal::NotFound { what: "delivery", .. });
    let Some(record) = settlement.record.as_mut().filter(|_| to_elsewhere && !gone) else {
        return false;
    };
    record.state = EntryState::Parked;
    record.due_at = None;
    if let Some(attempt) = &mut record.attempt {
        attempt.decision = "park";
        attempt.because = format!("{}; where it was to go does not take it: {refusal}", attempt.because);
    }
    settlement.outcome = Outcome::Park;
    true
}
