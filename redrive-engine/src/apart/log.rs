//! The log lines of a broker and a ledger apart. `docs/logs.md` has them.

use crate::port::{Delivery, PortError, Refusal};

pub(super) fn away(flow: &str, error: &PortError) {
    tracing::warn!(flow, error = %error, "ledger does not answer");
}

pub(super) fn back(flow: &str) {
    tracing::info!(flow, "ledger answers again");
}

pub(super) fn behind(flow: &str) {
    tracing::error!(flow, "ledger stays away; what it misses is read off the broker when it is back");
}

pub(super) fn not_told(flow: &str, records: usize) {
    tracing::error!(flow, records, "ledger stays away; it will not learn of these");
}

pub(super) fn refused(flow: &str, delivery: &Delivery, refusal: &Refusal) {
    let message_id = delivery.message.id.as_str();
    tracing::error!(flow, message_id, error = %refusal, "ledger refuses a record");
}

pub(super) fn no_copy(flow: &str, delivery: &Delivery, refusal: &Refusal) {
    let message_id = delivery.message.id.as_str();
    tracing::warn!(flow, message_id, error = %refusal, "broker does not take a copy; the ledger has the message");
}

pub(super) fn not_taken(flow: &str, delivery: &Delivery, refusal: &Refusal) {
    let message_id = delivery.message.id.as_str();
    tracing::warn!(flow, message_id, error = %refusal, "parked: where it was to go does not take it");
}

pub(super) fn not_adopted(flow: &str, delivery: &Delivery, refusal: &Refusal) {
    let message_id = delivery.message.id.as_str();
    tracing::error!(flow, message_id, error = %refusal, "ledger refuses what was found at the broker");
}

pub(super) fn not_copied(flow: &str, error: &PortError) {
    tracing::warn!(flow, error = %error, "bodies that the broker will not keep cannot be copied; trying again");
}

pub(super) fn duty_waits(flow: &str, duty: &str, error: &PortError) {
    tracing::warn!(flow, duty, error = %error, "a duty beside the messages cannot be done; trying again");
}

pub(super) fn duty_goes_on(flow: &str, duty: &str) {
    tracing::info!(flow, duty, "a duty is done again");
}
