//! Writing the headers of a message that goes on.

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};

use super::spelling::Form;
use super::{Field, Spelling, Trail};
use crate::message::HeaderName;
use crate::{Headers, Timestamp};

/// Writes the trail in place of what Redrive, and the spelling's writer, had written before.
///
/// A value that the trail no longer has leaves no header, and so does the old signature. Correlation and
/// causation are written only when the message has none. Headers of others stay as they are.
pub fn encode(trail: &Trail, headers: &mut Headers, spelling: Spelling) {
    let trail = &trail.clone().bounded();
    let keeps = |field| matches!(field, Field::CorrelationId | Field::CausationId);
    let mut kept = [false; 2];
    headers.retain(|header| {
        let name = header.name.as_str();
        match Field::of(name) {
            Some(field) if keeps(field) => {
                kept[usize::from(field == Field::CausationId)] = true;
                true
            }
            Some(_) => false,
            None => !spelling.aliases().iter().any(|alias| alias.name == name),
        }
    });
    let mut digits = BytesMut::with_capacity(256);
    for &field in Field::ALL {
        let skip = match field {
            Field::CorrelationId => kept[0],
            Field::CausationId => kept[1],
            _ => false,
        };
        if !skip && let Some(value) = value_of(trail, field, &mut digits) {
            headers.push_header(field.header_name(), Some(value));
        }
    }
    // Only a copy that waits for nothing more has an end to tell of.
    let ended = trail.process_after.is_none() && trail.replay.is_none() && trail.attempt > 0;
    for alias in spelling.aliases() {
        let value = match alias.form {
            Form::Same => value_of(trail, alias.field, &mut digits),
            Form::Ended if ended => value_of(trail, alias.field, &mut digits),
            Form::Ended => None,
            Form::Rfc3339 => trail.first_failure_at.map(|at| Bytes::from(at.to_string())),
            Form::DelayMillis => delay_millis(trail).map(|millis| number(millis, &mut digits)),
        };
        if let Some(value) = value {
            headers.push_header(HeaderName::from_static(alias.name), Some(value));
        }
    }
}

/// The delay that was decided at the last failure.
fn delay_millis(trail: &Trail) -> Option<u64> {
    Some(trail.process_after?.since(trail.last_failure_at?).as_millis() as u64)
}

/// Digits in a buffer that all numbers of one message share.
fn number(value: u64, digits: &mut BytesMut) -> Bytes {
    // Writing to a buffer that grows cannot fail.
    let _ = write!(digits, "{value}");
    digits.split().freeze()
}

fn value_of(trail: &Trail, field: Field, digits: &mut BytesMut) -> Option<Bytes> {
    let text = |text: &Option<crate::Text>| text.as_ref().map(|text| text.as_bytes().clone());
    let counted = |value: u32| (value > 0).then_some(u64::from(value));
    let span = |value: std::time::Duration| Some(value.as_millis() as u64).filter(|millis| *millis > 0);
    let at = |value: Option<Timestamp>| value.and_then(|at| u64::try_from(at.as_millis()).ok());
    let replay = trail.replay.as_ref();
    let value = match field {
        Field::RetryAttempt => counted(trail.attempt),
        Field::RetryMax => trail.max.map(u64::from),
        Field::ProcessAfter => at(trail.process_after),
        Field::OriginalTopic => return text(&trail.origin.topic),
        Field::OriginalPartition => trail.origin.partition.and_then(|value| u64::try_from(value).ok()),
        Field::OriginalOffset => trail.origin.offset.and_then(|value| u64::try_from(value).ok()),
        Field::OriginalTimestamp => at(trail.origin.timestamp),
        Field::FirstAttemptTimestamp => at(trail.first_attempt_at),
        Field::FirstFailureTimestamp => at(trail.first_failure_at),
        Field::LastFailureTimestamp => at(trail.last_failure_at),
        Field::LastErrorType => return text(&trail.error_type),
        Field::LastErrorMessage => return text(&trail.error_message),
        Field::FailureClass => return trail.class.map(|class| Bytes::from_static(class.as_str().as_bytes())),
        Field::FailureReason => {
            return trail.reason.as_ref().map(|reason| Bytes::copy_from_slice(reason.as_str().as_bytes()));
        }
        Field::ApiStatusCode => trail.status.map(u64::from),
        Field::ApiResponse => return text(&trail.response),
        Field::DelayRoute => return text(&trail.delay_route),
        Field::DelayCounter => counted(trail.delay_counter),
        Field::DelayReason => return text(&trail.delay_reason),
        Field::WaitId => return text(&trail.wait_id),
        Field::EntryId => return text(&trail.entry_id),
        Field::IdempotencyKey => return text(&trail.idempotency_key),
        Field::CallsUsed => counted(trail.calls_used),
        Field::DelayTotal => span(trail.delay_total),
        Field::Held => span(trail.held),
        Field::HandlerVersion => return text(&trail.handler_version),
        Field::CorrelationId => return text(&trail.correlation_id),
        Field::CausationId => return text(&trail.causation_id),
        Field::Replayed => return replay.map(|_| Bytes::from_static(b"true")),
        Field::ReplayId => return replay.and_then(|replay| text(&replay.id)),
        Field::ReplayedBy => return replay.and_then(|replay| text(&replay.by)),
        Field::ReplayReason => return replay.and_then(|replay| text(&replay.reason)),
        Field::OriginalDeathCount => replay.and_then(|replay| counted(replay.death_count)),
        Field::ForwardTo => return text(&trail.forward_to),
        Field::MacFailures => counted(trail.mac_failures),
        Field::Mac => None,
    };
    value.map(|value| number(value, digits))
}
