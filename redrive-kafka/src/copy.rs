//! The copies that settling writes: what goes to which topic, partition and with which headers.

use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::Bytes;
use redrive_core::headers::Trail;
use redrive_core::route::MAX_HOPS;
use redrive_core::{Envelope, Headers, RejectionEvent, Timestamp};
use redrive_engine::adapter::{Rules, envelope_of};
use redrive_engine::port::{BODY_AT, Delivery, HeaderRules, Outcome, Refusal, Settlement};

use crate::delay::{Delays, Step, names};
use crate::facts::TopicFacts;
use crate::record::KIND;
use crate::{DeadLetterFormat, DelayMode, KafkaFlow, Parking, PartitionBy, client, partition};

/// Says of a record in a dead-letter topic, which the flow parks in too, that it is parked.
pub(crate) const PARKED: &str = "x-parked";
/// The group whose flow made a copy. Two services that read one topic have copies of the same messages.
pub(crate) const GROUP: &str = "x-consumer-group";
/// What a batch of one record adds to it, and what a header adds to its name and value, at most.
const RECORD_OVERHEAD: usize = 128;
const HEADER_OVERHEAD: usize = 10;
/// What the headers of a trail take at most.
const TRAIL: usize = 16 << 10;

/// A record to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// The partition; nothing leaves it to the producer, by the key.
    pub(crate) partition: Option<i32>,
    /// The key.
    pub(crate) key: Option<Bytes>,
    /// The body; nothing is a tombstone.
    pub(crate) body: Option<Bytes>,
    /// The headers.
    pub(crate) headers: Headers,
    /// The time of the record; nothing is the time of writing.
    pub(crate) timestamp: Option<i64>,
    /// Whether the message's body is in it, so that it can be read there again.
    pub(crate) carries_body: bool,
}

impl Copy {
    /// At least as many bytes as the record takes in a topic, uncompressed.
    pub(crate) fn size(&self) -> usize {
        let part = |bytes: Option<&Bytes>| bytes.map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|header| header.name.as_str().len() + part(header.value.as_ref()) + HEADER_OVERHEAD)
            .sum();
        RECORD_OVERHEAD + part(self.key.as_ref()) + part(self.body.as_ref()) + headers
    }
}

/// What becomes of a record of a delay topic now.
#[derive(Debug)]
pub(crate) enum Hop {
    /// It is due: hand it out.
    Ready,
    /// It waits here until then.
    Wait(Timestamp),
    /// It goes on to another topic, and is released here.
    Move(Copy),
}

/// Makes the copies of one flow.
#[derive(Debug)]
pub(crate) struct Copies {
    flow: KafkaFlow,
    facts: Arc<TopicFacts>,
    rules: Arc<Rules>,
    delays: Arc<Delays>,
    dead: Arc<str>,
    parking: Arc<str>,
    /// Whether copies are compressed, and those of dead letters and parked messages.
    compressed: (bool, bool),
}

impl Copies {
    /// The copies of a flow, with what is known of its topics.
    pub(crate) fn new(flow: &KafkaFlow, facts: Arc<TopicFacts>) -> Self {
        Self {
            delays: Arc::new(Delays::new(flow)),
            dead: flow.dead_letter.topic.as_str().into(),
            parking: names::parking(flow).into(),
            compressed: (
                client::compresses(&client::producer(flow, None)),
                client::compresses(&client::shelf_producer(flow)),
            ),
            flow: flow.clone(),
            rules: Arc::default(),
            facts,
        }
    }

    /// The same with the rules that others read by.
    pub(crate) fn with_rules(self, rules: Arc<Rules>) -> Self {
        Self { rules, ..self }
    }

    /// The same with the delays that others look at too.
    pub(crate) fn with_delays(self, delays: Arc<Delays>) -> Self {
        Self { delays, ..self }
    }

    /// How headers are read and written.
    pub(crate) fn rules(&self) -> HeaderRules {
        self.rules.get()
    }

    /// How the flow's messages wait.
    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    /// What has to be written before the delivery is released; nothing for what leaves no copy.
    pub(crate) fn of(&self, settlement: &Settlement, now: Timestamp) -> Result<Vec<Copy>, Refusal> {
        let delivery = &settlement.delivery;
        let trail = || settlement.trail.as_deref().unwrap_or(&delivery.trail).clone();
        let copy = match &settlement.outcome {
            Outcome::Ack | Outcome::Return | Outcome::Discard => return Ok(Vec::new()),
            Outcome::Delay { until } => self.waiting(delivery, trail(), *until, now, MAX_HOPS)?,
            Outcome::DeadLetter => {
                return self.shelved(settlement, trail(), &self.dead).map(|copy| vec![copy]);
            }
            Outcome::Park => return self.shelved(settlement, trail(), &self.parking).map(|copy| vec![copy]),
            Outcome::Reject { event, target } => self.rejection(delivery, event, target),
            Outcome::Reroute { target } => {
                self.is_own_cluster(target)?;
                let topic: Arc<str> = topic_of(target).into();
                let mut all = delivery.message.headers.clone();
                self.rules.get().clear(&mut all);
                self.copy(delivery, topic, delivery.message.body.clone(), all, PartitionBy::Key)
            }
            Outcome::Hold { .. } => {
                let text = "Kafka keeps no lanes: what is held belongs into the ledger";
                return Err(Refusal::Invalid(text.to_owned()));
            }
        };
        self.fits(&copy)?;
        Ok(vec![copy])
    }

    /// Refuses a target that names other hosts than the flow's own: a copy would go to a topic of the wrong cluster. A name
    /// without a port is one that the configuration gives to a cluster.
    fn is_own_cluster(&self, target: &str) -> Result<(), Refusal> {
        let hosts =
            target.strip_prefix("kafka://").and_then(|rest| rest.split_once('/')).map(|(hosts, _)| hosts);
        let own = |hosts: &str| hosts == self.flow.client.bootstrap || !hosts.contains(':');
        if target.starts_with("queue:") || hosts.is_some_and(|hosts| !own(hosts)) {
            return Err(Refusal::Invalid(format!(
                "`{target}` is not at the Kafka that the flow reads; name one of its topics"
            )));
        }
        Ok(())
    }

    /// The topic that an outcome is about, where it is always the same.
    pub(crate) fn target(&self, outcome: &Outcome) -> Arc<str> {
        match outcome {
            Outcome::DeadLetter => Arc::clone(&self.dead),
            Outcome::Park => Arc::clone(&self.parking),
            _ => Arc::default(),
        }
    }

    /// What becomes of a record of a delay topic that was appended at a time. A copy that its next topic does not take is
    /// refused: the record stays.
    pub(crate) fn hop(
        &self,
        delivery: &Delivery,
        appended: Timestamp,
        now: Timestamp,
    ) -> Result<Hop, Refusal> {
        let stay = self.delays.stay(&delivery.source.name, appended, &delivery.trail);
        if now < stay.until {
            return Ok(Hop::Wait(stay.until));
        }
        // A reader that comes late may find that the record is due meanwhile.
        let due = Delays::due(appended, &delivery.trail).unwrap_or(stay.until);
        if stay.last || due <= now {
            return Ok(Hop::Ready);
        }
        let trail = (*delivery.trail).clone();
        let hops = Delays::hops_left(&trail);
        let copy = self.waiting(delivery, trail, due, now, hops)?;
        self.fits(&copy)?;
        Ok(Hop::Move(copy))
    }

    /// The copy of a record that is due, for a level that it leaves at once.
    pub(crate) fn last_hop(
        &self,
        delivery: &Delivery,
        appended: Timestamp,
        now: Timestamp,
    ) -> Result<Copy, Refusal> {
        let due = Delays::due(appended, &delivery.trail).unwrap_or(now);
        // Without a topic to wait in it goes to the end of its own, which is read until nothing is left in it.
        let here = || Step { topic: Arc::clone(&delivery.source.name), rest: None };
        let step = self.delays.step(due, now, 1).unwrap_or_else(here);
        let copy = self.on_its_way(delivery, (*delivery.trail).clone(), due, step);
        self.fits(&copy)?;
        Ok(copy)
    }

    /// The copy that waits.
    fn waiting(
        &self,
        delivery: &Delivery,
        trail: Trail,
        due: Timestamp,
        now: Timestamp,
        hops: usize,
    ) -> Result<Copy, Refusal> {
        let Some(step) = self.delays.step(due, now, hops) else {
            let text = "in the delay mode `ledger` messages wait in the ledger, not in Kafka";
            return Err(Refusal::Invalid(text.to_owned()));
        };
        Ok(self.on_its_way(delivery, trail, due, step))
    }

    fn on_its_way(&self, delivery: &Delivery, mut trail: Trail, due: Timestamp, step: Step) -> Copy {
        trail.process_after = Some(due);
        trail.delay_route = step.rest;
        let mut all = delivery.message.headers.clone();
        let mut body = delivery.message.body.clone();
        // A hop finds a pointer as it was left.
        if self.flow.delay == DelayMode::Pointer
            && !all.contains(BODY_AT)
            && body.is_some()
            && let Some(place) = self.readable_again(&trail)
        {
            all.push(BODY_AT, place);
            body = None;
        }
        all.set(GROUP, self.flow.groups.main.clone());
        self.write(&trail, &mut all, body.as_ref());
        self.copy(delivery, step.topic, body, all, PartitionBy::Same)
    }

    /// The place of the original, when it lies in a topic that the flow reads.
    fn readable_again(&self, trail: &Trail) -> Option<String> {
        let origin = &trail.origin;
        let topic =
            origin.topic.as_deref().filter(|topic| self.flow.topics.iter().any(|own| own == topic))?;
        Some(format!("{topic}/{}/{}", origin.partition?, origin.offset?))
    }

    /// Whether a dead letter or a parked message may be too large for its topic as it is. Never too few: what a trail adds
    /// to a message is bounded.
    pub(crate) fn leaves_body(&self, settlement: &Settlement) -> bool {
        let topic = self.target(&settlement.outcome);
        let Some(most) = self.facts.get(&topic).and_then(|fact| fact.max_bytes) else { return false };
        let times = if self.flow.dead_letter.format == DeadLetterFormat::Envelope { 2 } else { 1 };
        self.flow.ledger && crate::record::size(&settlement.delivery.message) * times + TRAIL > most
    }

    /// A dead letter or a parked message.
    fn shelved(&self, settlement: &Settlement, mut trail: Trail, topic: &Arc<str>) -> Result<Copy, Refusal> {
        let delivery = &settlement.delivery;
        trail.process_after = None;
        trail.delay_route = None;
        trail.wait_id = None;
        let enveloped = self.flow.dead_letter.format == DeadLetterFormat::Envelope;
        let mut all = delivery.message.headers.clone();
        // In a topic of both kinds each says which it is.
        let parked = settlement.outcome == Outcome::Park && self.flow.parking == Parking::Same;
        all.remove(PARKED);
        all.set(GROUP, self.flow.groups.main.clone());
        if parked {
            all.push(PARKED, "true");
        }
        let body = if enveloped {
            all.set("content-type", "application/json");
            Some(json(&envelope_of(&self.flow.flow, settlement, &trail).around(&delivery.message))?)
        } else {
            delivery.message.body.clone()
        };
        self.write(&trail, &mut all, body.as_ref());
        let by = self.flow.dead_letter.partition;
        let copy = self.copy(delivery, Arc::clone(topic), body, all, by);
        if !self.flow.ledger {
            return self.fits(&copy).map(|()| copy);
        }
        // Whether the ledger gets the body has to be known before the copy is sent, so that it is what it is uncompressed.
        if self.fits_as_it_is(&copy).is_ok() {
            return Ok(copy);
        }
        // The ledger has the body, and the original's place is named: the dead letter says so much.
        let mut few = Headers::new();
        few.push(GROUP, self.flow.groups.main.clone());
        for name in ["ce_id", "message-id"] {
            if let Some(value) = delivery.message.headers.get(name) {
                few.push(name, value.clone());
            }
        }
        if parked {
            few.push(PARKED, "true");
        }
        few.push("content-type", "application/json");
        let body = Some(json(&envelope_of(&self.flow.flow, settlement, &trail))?);
        self.write(&trail, &mut few, body.as_ref());
        let pointer = self.copy(delivery, Arc::clone(topic), body, few, by);
        self.fits(&pointer).map(|()| Copy { carries_body: false, ..pointer })
    }

    fn rejection(&self, delivery: &Delivery, event: &Bytes, target: &str) -> Copy {
        let mut all = Headers::with_capacity(1);
        all.push("content-type", RejectionEvent::CONTENT_TYPE);
        self.copy(delivery, topic_of(target).into(), Some(event.clone()), all, PartitionBy::Key)
    }

    fn copy(
        &self,
        delivery: &Delivery,
        topic: Arc<str>,
        body: Option<Bytes>,
        headers: Headers,
        by: PartitionBy,
    ) -> Copy {
        let key = delivery.message.key.clone();
        let partition = self.partition(delivery, &topic, by);
        let carries_body = body.is_some() && !headers.contains(BODY_AT);
        Copy { topic, partition, key, body, headers, timestamp: None, carries_body }
    }

    fn partition(&self, delivery: &Delivery, topic: &str, by: PartitionBy) -> Option<i32> {
        let count = self.facts.get(topic)?.partitions;
        if count < 1 {
            return None;
        }
        let read = if &*delivery.source.kind == KIND { delivery.source.partition } else { None };
        let from = read.or(delivery.trail.origin.partition);
        let key = delivery.message.key.as_deref();
        match by {
            PartitionBy::Same => Some(partition::same(from, key, count)),
            PartitionBy::Key => key.map(|key| partition::of_key(key, count)),
            PartitionBy::Function(choose) => {
                // A panic of somebody else's code ends no flow.
                let chosen = catch_unwind(|| choose(from.unwrap_or(0), key, count)).ok();
                chosen.filter(|chosen| (0..count).contains(chosen))
            }
        }
    }

    /// Writes the trail into the headers, and signs it.
    fn write(&self, trail: &Trail, all: &mut Headers, body: Option<&Bytes>) {
        self.rules.get().write(trail, all, body.map(|body| &body[..]));
    }

    /// Whether the topic takes this record. The limit is that of what is compressed: where a producer does that, the broker
    /// alone can say whether a large one is too large.
    fn fits(&self, copy: &Copy) -> Result<(), Refusal> {
        let shelf = copy.topic == self.dead || copy.topic == self.parking;
        let compressed = if shelf { self.compressed.1 } else { self.compressed.0 };
        if compressed { Ok(()) } else { self.fits_as_it_is(copy) }
    }

    /// Whether the topic takes a record of this size, uncompressed.
    fn fits_as_it_is(&self, copy: &Copy) -> Result<(), Refusal> {
        let size = copy.size();
        match self.facts.get(&copy.topic).and_then(|fact| fact.max_bytes) {
            Some(most) if size > most => Err(Refusal::Limit(format!(
                "the topic `{}` takes records of {most} bytes and the copy has up to {size}; raise its `max.message.bytes`, or set `compression.codec`, since it counts what is compressed",
                copy.topic
            ))),
            _ => Ok(()),
        }
    }
}

/// The topic that an address or a name stands for.
pub(crate) fn topic_of(target: &str) -> &str {
    let path = target
        .strip_prefix("kafka://")
        .and_then(|rest| rest.split_once('/'))
        .map_or(target, |(_, path)| path);
    path.split('?').next().unwrap_or(path)
}

fn json(envelope: &Envelope) -> Result<Bytes, Refusal> {
    let bytes = serde_json::to_vec(envelope);
    bytes.map(Bytes::from).map_err(|error| Refusal::Invalid(format!("no envelope can be made: {error}")))
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
