//! What a flow does with a message that is sent on instead of being handled.

use redrive_core::headers::{self, Trail};
use redrive_core::{Reason, Text};

use super::divert::{self, entry_of, replay_of};
use super::job::Job;
use super::shared::Shared;
use super::spec::FlowSpec;
use crate::handler::Instead;
use crate::mint::mint;
use crate::port::{Delivery, EntryId, EntryState, HeldRecord, Outcome, Record, Settlement};

/// The reason of a message that waits for the time it asked for.
const SCHEDULED: Reason = Reason::from_static("SCHEDULED");

/// Lets a message wait until it is due, or sends it to where it asked to go.
pub(crate) fn go_on(shared: &Shared, mut job: Box<Job>, instead: Instead) {
    let spec = &shared.spec;
    let now = shared.clock.now();
    match instead {
        Instead::Later { until, because } => {
            let random = shared.random();
            let entry = entry_of(&job.delivery.trail).unwrap_or_else(|| mint(now, random));
            let held = HeldRecord { behind: None, reason: SCHEDULED, because };
            let record = Record {
                due_at: Some(until),
                earlier: job.earlier(spec),
                ..untried(spec, &job.delivery, entry, EntryState::Waiting, held, now)
            };
            let mut trail = known_as(&job.delivery, entry);
            trail.process_after = Some(until);
            trail.wait_id = Some(Text::from(mint(now, [random[1], random[0]]).to_string()));
            shared.settle(Settlement {
                trail: Some(Box::new(trail)),
                record: Some(Box::new(record)),
                ..job.settled(Outcome::Delay { until })
            });
        }
        Instead::SendOn { target } => {
            let record = divert::recovered(spec, &mut job, None, now);
            shared.metrics.forwarded();
            let record = record.map(|record| Box::new(Record { attempts: job.attempts(), ..*record }));
            shared.settle(Settlement { record, ..job.settled(Outcome::Reroute { target }) });
        }
        // The worker takes it for a failure.
        Instead::Refuse(_) => shared.settle(job.settled(Outcome::Return)),
    }
}

/// What is written down of a message that is not sent on because its target does not take it.
pub(super) fn refused(shared: &Shared, settlement: &mut Settlement, because: String) {
    let now = shared.clock.now();
    let delivery = &settlement.delivery;
    let entry = entry_of(&delivery.trail).unwrap_or_else(|| mint(now, shared.random()));
    let held = HeldRecord { behind: None, reason: Reason::FORWARD_REFUSED, because };
    let record = untried(&shared.spec, delivery, entry, EntryState::Parked, held, now);
    settlement.trail = Some(Box::new(known_as(delivery, entry)));
    settlement.record = Some(Box::new(record));
}

/// What the copy carries: what it came with, and its entry.
fn known_as(delivery: &Delivery, entry: EntryId) -> Trail {
    let mut trail = Trail::clone(&delivery.trail);
    if trail.origin.topic.is_none() {
        trail.origin = headers::Origin {
            topic: Some(Text::from(&*delivery.source.name)),
            partition: delivery.source.partition,
            offset: delivery.source.offset,
            timestamp: Some(delivery.ready_at),
        };
    }
    trail.entry_id = Some(Text::from(entry.to_string()));
    trail.idempotency_key.get_or_insert_with(|| delivery.message.id.clone());
    trail.bounded()
}

fn untried(
    spec: &FlowSpec,
    delivery: &Delivery,
    entry: EntryId,
    state: EntryState,
    held: HeldRecord,
    now: redrive_core::Timestamp,
) -> Record {
    let message = &delivery.message;
    let facts = spec.facts.find(&message.headers, message.body.as_deref());
    let text = |fact: &Option<Text>| fact.as_ref().map(|text| text.as_str().to_owned());
    Record {
        entry,
        flow: spec.name.clone(),
        state,
        at: now,
        due_at: None,
        attempt: None,
        succeeded: None,
        earlier: Vec::new(),
        attempts: delivery.trail.attempt,
        message_type: text(&facts.message_type),
        entity: text(&facts.entity),
        tenant: text(&facts.tenant),
        correlation_id: text(&facts.correlation),
        causation_id: text(&facts.causation),
        owner: spec.owner.clone(),
        held: Some(Box::new(held)),
        replay: replay_of(&delivery.trail),
    }
}
