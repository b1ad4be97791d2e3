//! MassTransit: `MT-Reason`, `MT-Fault-…`, `MT-Redelivery-Count`.

use super::chain::Told;
use super::{ForeignFailure, Writer, values};
use crate::Headers;
use crate::headers::MAX_ATTEMPT;

const REASON: &str = "MT-Reason";
const FAULT: &str = "MT-Fault-";

pub(super) fn owns(name: &str) -> bool {
    name == REASON || name.starts_with(FAULT)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let reason = values::id(headers, REASON);
    let mut failure = ForeignFailure::of(Writer::MassTransit);
    failure.origin.name = values::address(headers, "MT-Fault-InputAddress");
    failure.failed_at = values::time(headers, "MT-Fault-Timestamp");
    failure.attempts = attempts(headers);
    failure.component = values::id(headers, "MT-Fault-ConsumerType");
    failure.message_type = values::id(headers, "MT-Fault-MessageType");
    let told = Told {
        kind: values::text(headers, "MT-Fault-ExceptionType"),
        message: values::text(headers, "MT-Fault-Message").or(reason.as_deref()),
        cause: None,
        trace: values::text(headers, "MT-Fault-StackTrace"),
    };
    told.add_to(&mut failure);
    (!told.is_empty()).then_some(failure)
}

/// The first call, the retries of the last delivery, and one call for each earlier delivery: at least so many.
fn attempts(headers: &Headers) -> Option<u32> {
    let retries = values::count(headers, "MT-Fault-RetryCount");
    let redeliveries = values::count(headers, "MT-Fault-RedeliveryCount")
        .or_else(|| values::count(headers, "MT-Redelivery-Count"));
    if retries.is_none() && redeliveries.is_none() {
        return None;
    }
    let sum = 1 + u64::from(retries.unwrap_or(0)) + u64::from(redeliveries.unwrap_or(0));
    Some(sum.min(u64::from(MAX_ATTEMPT)) as u32)
}
