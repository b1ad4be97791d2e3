//! From what the broker delivers to what the flow gets.

use std::sync::Arc;

use redrive_core::Timestamp;
use redrive_core::dialect::Death;
use redrive_core::headers::Trail;
use redrive_engine::adapter::Rules;
use redrive_engine::port::{Carried, Delivery, DeliveryParts, SourceRef, Tag};
use sha2::{Digest as _, Sha256};

use crate::copy::KIND;
use crate::wire::{self, Read, Route};
use crate::{QueueKind, RabbitFlow, likeness, names};

/// The bits of a place's number: as many as every reader of JSON keeps.
const PLACE_BITS: u64 = (1 << 53) - 1;

/// Makes deliveries of the flow's messages.
#[derive(Debug)]
pub(crate) struct Carver {
    flow: Arc<RabbitFlow>,
    rules: Arc<Rules>,
    kind: Arc<str>,
    source: Arc<str>,
    retry: String,
    delayed: String,
    /// The queues in which the flow's own messages wait.
    own: Vec<String>,
}

/// A delivery, and whether it has waited for its time as a copy of this flow.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) delivery: Delivery,
    pub(crate) waited: bool,
}

impl Carver {
    /// Makes deliveries for a flow whose messages wait in these queues.
    pub(crate) fn new(flow: Arc<RabbitFlow>, rules: Arc<Rules>, mut own: Vec<String>) -> Self {
        own.push(names::stray(&flow));
        Self {
            kind: KIND.into(),
            source: flow.queue.as_str().into(),
            retry: names::retry(&flow),
            delayed: names::delayed(&flow),
            rules,
            flow,
            own,
        }
    }

    /// What was delivered from the source, or from where copies went that found no way.
    pub(crate) fn carve(
        &self,
        mut from: lapin::message::Delivery,
        epoch: u32,
        stray: bool,
        now: Timestamp,
    ) -> Found {
        let exchange = from.exchange.as_str();
        // Only what passed the flow's own exchanges is a copy: whoever sends a dead letter in again sends a new message. A
        // level's exchange has its queue's name, and what has no level left goes through to the source from there.
        let waited = stray || exchange == self.retry || exchange == self.delayed || self.waits_in(exchange);
        let route = (!waited).then_some(Route { exchange, key: from.routing_key.as_str() });
        let is_own = |queue: &str| self.own.iter().any(|own| own == queue);
        let mut offset = None;
        if self.flow.kind == QueueKind::Stream {
            offset = wire::offset_of(&from.properties);
            from.properties = wire::without_offset(from.properties);
        }
        let Read { mut message, published, deaths, fresh } =
            wire::read(&from.properties, from.data, route, &is_own);
        if let Some(offset) = offset.filter(|_| message.id.is_empty()) {
            // The same whenever it is read.
            message.id = format!("{}/{offset}", self.flow.queue).into();
        }
        let likeness = message.id.is_empty().then(|| likeness::of(&self.flow.queue, &message, published));
        if message.id.is_empty() {
            message.id = uuid::Uuid::now_v7().to_string().into();
        }
        let mut trail = self.rules.get().read(&message.headers, message.body.as_deref());
        let bare = trail.doubt().is_none() && trail.clamped().is_empty() && trail.next_delay().is_none();
        if bare && *trail == Trail::default() {
            trail = Carried::default();
        }
        if self.flow.rejects() {
            trail = self.rejected(trail, &deaths[..fresh.min(deaths.len())]);
        }
        if !waited {
            trail.forget_entry();
        }
        let due = trail.process_after.filter(|_| waited);
        // A message that is handed out again is known by its id and its time, since a queue has no offsets.
        let place = published.map(|millis| self.place(&message.id, millis));
        let place = if self.flow.kind == QueueKind::Stream { offset } else { place }.filter(|_| !waited);
        let source = SourceRef {
            kind: Arc::clone(&self.kind),
            name: Arc::clone(&self.source),
            partition: None,
            offset: place,
        };
        let ready_at = due.or(published.map(Timestamp::from_millis)).unwrap_or(now);
        let tag = Tag { stream: 0, epoch, number: from.delivery_tag };
        let delivery = Delivery::from(DeliveryParts {
            tag,
            message,
            trail,
            source,
            ready_at,
            redelivered: from.redelivered,
        });
        let delivery = match likeness {
            Some(likeness) => delivery.with_likeness(likeness),
            None => delivery,
        };
        Found { delivery, waited }
    }

    /// The trail of a message that was rejected: nothing of it could be written, and the broker counts instead.
    fn rejected(&self, trail: Carried, deaths: &[Death]) -> Carried {
        let own = || {
            let ours = |death: &&Death| death.queue == self.flow.queue && death.reason == "rejected";
            deaths.iter().filter(ours)
        };
        let attempts = own().fold(0_u64, |sum, death| sum.saturating_add(death.count));
        if attempts == 0 {
            return trail;
        }
        let mut counted = Trail::clone(&trail);
        counted.attempt = counted.attempt.saturating_add(u32::try_from(attempts).unwrap_or(u32::MAX));
        // The broker keeps the time of the first.
        counted.first_failure_at = counted.first_failure_at.or(own().filter_map(|death| death.time).min());
        Carried::from(counted.bounded())
    }

    fn place(&self, id: &str, published: i64) -> i64 {
        let mut hash = Sha256::new();
        hash.update(self.flow.queue.as_bytes());
        hash.update([0]);
        hash.update(id.as_bytes());
        hash.update(published.to_le_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.finalize()[..8]);
        (u64::from_le_bytes(bytes) & PLACE_BITS).cast_signed()
    }

    /// How headers are read.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether messages of the flow wait in this queue.
    pub(crate) fn waits_in(&self, queue: &str) -> bool {
        self.own.iter().any(|own| own == queue)
    }
}
