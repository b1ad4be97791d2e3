//! What every adapter to a broker apart has in common: its alarms, the rules of its headers, the envelope of a dead letter.

mod alarms;
mod envelope;
mod rules;

pub use alarms::Alarms;
pub use envelope::{envelope_of, unwrap_envelope};
pub use rules::Rules;
