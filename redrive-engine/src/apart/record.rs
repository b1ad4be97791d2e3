//! What the ledger learns of a message that lies at the broker, by the message itself.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redrive_core::classify::{Classifier, Subject};
use redrive_core::dialect::ForeignFailure;
use redrive_core::fingerprint::Fingerprint;
use redrive_core::headers::Trail;
use redrive_core::{Class, ErrorLink, Reason, Timestamp};
use sha2::{Digest as _, Sha256};

use super::Inner;
use crate::port::{
    AttemptRecord, Delivery, EntryId, EntryState, Keeper, Learned, Outcome, Record, Recorded, Settlement,
    Shelved, SourceRef,
};

/// The rules that hold where the flow's own are not known.
static DEFAULTS: LazyLock<Classifier> = LazyLock::new(|| Classifier::new(Vec::new(), Vec::new()));
/// The last link of a chain whose writer kept one.
const STACK_TRACE: &str = "stack trace";

/// The entry of a message: the one that it carries, else one that its place and its time alone decide, so that it is the
/// same at every look, and another one where a topic was made anew.
pub(super) fn entry_of(delivery: &Delivery) -> EntryId {
    let carried = delivery.trail.entry_id.as_deref().and_then(|id| EntryId::parse_str(id).ok());
    carried.unwrap_or_else(|| of_place(&delivery.source, delivery.ready_at))
}

fn of_place(place: &SourceRef, at: Timestamp) -> EntryId {
    let mut hash = Sha256::new();
    for part in [&place.kind, &place.name] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(place.partition.unwrap_or(-1).to_le_bytes());
    hash.update(place.offset.unwrap_or(-1).to_le_bytes());
    hash.update(at.as_millis().to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The record of a message that was found at the broker. One that a person put aside is parked, wherever it lies, and what
/// waits of it is not to run.
pub(super) fn found(inner: &Inner, shelved: Shelved, put_aside: bool) -> Recorded {
    let Shelved { mut delivery, state: lies, foreign, bodiless, carries_body } = shelved;
    let state = if put_aside { EntryState::Parked } else { lies };
    let keeper = if put_aside && lies == EntryState::Waiting { Keeper::Ledger } else { Keeper::Broker };
    let copy = Some(delivery.source.clone());
    let entry = entry_of(&delivery);
    let mut trail = Trail::clone(&delivery.trail);
    trail.entry_id = Some(entry.to_string().into());
    let failure = if foreign { ForeignFailure::read(&delivery.message.headers) } else { None };
    let mut message_type = None;
    let attempt = match failure {
        Some(failure) => {
            message_type = failure.message_type.as_ref().map(ToString::to_string);
            let attempt = elsewhere(inner, &failure, &mut trail, &delivery);
            came_from(&failure, &mut trail, &mut delivery);
            attempt
        }
        None => attempt(&trail, &delivery, foreign),
    };
    let at = trail.last_failure_at.or(trail.first_failure_at).unwrap_or(delivery.ready_at);
    let outcome = match state {
        EntryState::Waiting => Outcome::Delay { until: trail.process_after.unwrap_or(delivery.ready_at) },
        EntryState::Dead => Outcome::DeadLetter,
        _ => Outcome::Park,
    };
    let due_at = if let Outcome::Delay { until } = outcome { Some(until) } else { None };
    let text = |text: &Option<redrive_core::Text>| text.as_ref().map(|text| text.as_str().to_owned());
    let record = Record {
        entry,
        flow: Arc::clone(&inner.flow),
        state: if due_at.is_none() && state != EntryState::Dead { EntryState::Parked } else { state },
        at,
        due_at,
        attempt: Some(attempt),
        succeeded: None,
        earlier: Vec::new(),
        attempts: trail.attempt,
        message_type,
        entity: None,
        tenant: None,
        correlation_id: text(&trail.correlation_id),
        causation_id: text(&trail.causation_id),
        owner: None,
        held: None,
        replay: None,
    };
    let settlement = Settlement {
        trail: Some(Box::new(trail)),
        record: Some(Box::new(record)),
        ..Settlement::plain(delivery, outcome)
    };
    let by_pointer = inner.options.by_pointer && carries_body && !bodiless;
    Recorded { settlement, copy, keeper, learned: Learned::Found { bodiless }, by_pointer }
}

/// The last attempt, as far as the message tells of it.
fn attempt(trail: &Trail, delivery: &Delivery, foreign: bool) -> AttemptRecord {
    let class = trail.class.unwrap_or(Class::Unknown);
    let unknown = if foreign { Reason::FOREIGN_FAILURE } else { Reason::UNKNOWN_FAILURE };
    let reason = trail.reason.clone().unwrap_or(unknown);
    let kind = trail.error_type.as_deref();
    let message = trail.error_message.as_deref().unwrap_or_default();
    AttemptRecord {
        number: trail.attempt,
        started_at: trail.last_failure_at.unwrap_or(delivery.ready_at),
        took: Duration::ZERO,
        calls: 1,
        class,
        group: Fingerprint::of(class, &reason, None, kind, message),
        reason,
        chain: vec![ErrorLink { kind: kind.unwrap_or_default().to_owned(), message: message.to_owned() }],
        status: trail.status,
        response: trail.response.as_ref().map(ToString::to_string),
        decision: "adopt",
        because: if foreign {
            "another system put it there".to_owned()
        } else {
            "it was found at the broker".to_owned()
        },
        handler_version: trail.handler_version.as_ref().map(|version| Arc::from(version.as_str())),
    }
}

/// The last attempt of another system, by the flow's own rules; the trail tells of it in Redrive's words.
fn elsewhere(
    inner: &Inner,
    failure: &ForeignFailure,
    trail: &mut Trail,
    delivery: &Delivery,
) -> AttemptRecord {
    let kind = failure.message_type.as_ref().map(redrive_core::Text::as_str);
    let subject =
        Subject { message_type: kind, headers: Some(&delivery.message.headers), ..Subject::default() };
    let finding = match inner.policy.get() {
        Some(policy) => failure.finding(policy.classifier(), &subject, delivery.ready_at),
        None => failure.finding(&DEFAULTS, &subject, delivery.ready_at),
    };
    let (class, reason) = (finding.classification.class, finding.classification.reason);
    let (kind, message) = (finding.failure.error_type(), finding.failure.message());
    trail.attempt = finding.attempts;
    trail.first_failure_at = Some(finding.first_failed_at);
    trail.last_failure_at = Some(finding.last_failed_at);
    trail.class = Some(class);
    trail.reason = Some(reason.clone());
    trail.error_type = kind.map(Into::into);
    trail.error_message = Some(message.into());
    let mut chain = finding.failure.chain().to_vec();
    if let Some(trace) = &failure.stack_trace {
        chain.push(ErrorLink { kind: STACK_TRACE.to_owned(), message: trace.to_string() });
    }
    let of = failure.component.as_ref().map(|component| format!(", {component}")).unwrap_or_default();
    AttemptRecord {
        number: finding.attempts,
        started_at: finding.last_failed_at,
        took: Duration::ZERO,
        calls: 1,
        class,
        group: Fingerprint::of(class, &reason, failure.message_type.as_deref(), kind, message),
        reason,
        chain,
        status: None,
        response: None,
        decision: "adopt",
        because: format!("another system gave it up: {}{of}", failure.writer),
        handler_version: None,
    }
}

/// Another system's dead letter shows where it was read before it failed.
fn came_from(failure: &ForeignFailure, trail: &mut Trail, delivery: &mut Delivery) {
    if let Some(name) = &failure.origin.name {
        trail.origin = failure.origin.to_origin();
        delivery.source = SourceRef {
            kind: Arc::clone(&delivery.source.kind),
            name: name.as_str().into(),
            partition: failure.origin.partition,
            offset: failure.origin.offset,
        };
    }
    // Nobody can be asked for that place: it is hearsay.
    delivery.trail = trail.clone().into();
}
