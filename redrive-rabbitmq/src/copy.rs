//! The copies that settling writes: what goes where, and with which headers.

use std::sync::Arc;

use bytes::Bytes;
use lapin::types::AMQPValue;
use redrive_core::headers::Trail;
use redrive_core::{Envelope, Headers, Message, RejectionEvent, Timestamp};
use redrive_engine::adapter::{Rules, envelope_of};
use redrive_engine::port::{Outcome, PortError, Refusal, Settlement, SourceRef};

use crate::delay::Delays;
use crate::outbox::Letter;
use crate::wire::{self, PARKED, Purpose};
use crate::{DeadLetterFormat, Parking, RabbitFlow, amqp, link, names};

/// The kind of every place that this adapter names.
pub(crate) const KIND: &str = "rabbitmq";
/// Says of a dead letter that its message did not fit, and is in the ledger alone.
pub(crate) const LEFT_BODY: &str = "x-left-body";
/// What a frame has beside a message's properties.
const FRAME_OVERHEAD: usize = 8 + 14;
/// What the headers of a trail take at most.
const TRAIL: usize = 16 << 10;

/// A copy, and the queue that it is for.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) letter: Letter,
    /// The queue, by name.
    pub(crate) queue: Arc<str>,
}

/// Makes the copies of one flow.
#[derive(Debug)]
pub(crate) struct Copies {
    flow: Arc<RabbitFlow>,
    rules: Arc<Rules>,
    delays: Delays,
    kind: Arc<str>,
}

impl Copies {
    /// The copies of a flow.
    pub(crate) fn new(flow: Arc<RabbitFlow>, rules: Arc<Rules>) -> Self {
        Self { delays: Delays::new(&flow), flow, rules, kind: KIND.into() }
    }

    /// How the flow's messages wait.
    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    /// A queue as a place.
    pub(crate) fn place(&self, queue: &Arc<str>) -> SourceRef {
        SourceRef { kind: Arc::clone(&self.kind), name: Arc::clone(queue), partition: None, offset: None }
    }

    /// What has to be written before the delivery is released; nothing for what leaves no copy.
    pub(crate) fn of(
        &self,
        settlement: &Settlement,
        now: Timestamp,
        frame_max: usize,
    ) -> Result<Option<Copy>, Refusal> {
        let delivery = &settlement.delivery;
        let trail = || settlement.trail.as_deref().unwrap_or(&delivery.trail).clone();
        let copy = match &settlement.outcome {
            Outcome::Ack | Outcome::Return | Outcome::Discard => return Ok(None),
            Outcome::Delay { until } => self.waiting(&delivery.message, trail(), *until, now, frame_max)?,
            Outcome::DeadLetter => {
                return self.shelved(settlement, trail(), &self.flow.dead_letter.queue, frame_max).map(Some);
            }
            Outcome::Park => {
                return self.shelved(settlement, trail(), names::parking(&self.flow), frame_max).map(Some);
            }
            Outcome::Reject { event, target } => self.rejection(event, target)?,
            Outcome::Reroute { target } => {
                let queue = self.queue_of(target)?;
                let mut all = delivery.message.headers.clone();
                self.rules.get().clear(&mut all);
                let body = delivery.message.body.clone();
                self.copy(&delivery.message, &all, body, queue, Purpose::Sent)?
            }
            Outcome::Hold { .. } => {
                let text = "RabbitMQ keeps no lanes: what is held belongs into the ledger";
                return Err(Refusal::Invalid(text.to_owned()));
            }
        };
        fits(&copy.letter, &copy.queue, frame_max)?;
        Ok(Some(copy))
    }

    /// The copy that waits until it is due.
    pub(crate) fn waiting(
        &self,
        message: &Message,
        mut trail: Trail,
        due: Timestamp,
        now: Timestamp,
        frame_max: usize,
    ) -> Result<Copy, Refusal> {
        let Some(way) = self.delays.way(due, now) else {
            let text = "the flow has no queue to wait in: it settles by rejecting, messages wait in the ledger, or `steps` and `other_delays` are empty";
            return Err(Refusal::Invalid(text.to_owned()));
        };
        trail.process_after = Some(due);
        trail.delay_route = None;
        let mut all = message.headers.clone();
        self.write(&trail, &mut all, message.body.as_ref());
        let mut properties = wire::write(message, &all, &self.flow.login.user, Purpose::Kept)?;
        if let Some(millis) = way.by_plugin {
            let millis = AMQPValue::LongLongInt(i64::try_from(millis).unwrap_or(i64::MAX));
            properties = wire::with_header(properties, "x-delay", millis);
        }
        let letter = Letter {
            exchange: name(&way.exchange)?,
            key: name(&way.key)?,
            properties,
            body: message.body.clone().unwrap_or_default(),
            // The plug-in cannot know yet where it will go, and would return every one.
            mandatory: way.by_plugin.is_none(),
        };
        let copy = Copy { letter, queue: way.queue.into() };
        fits(&copy.letter, &copy.queue, frame_max)?;
        Ok(copy)
    }

    /// A message as somebody publishes it to a queue.
    pub(crate) fn fresh(
        &self,
        message: &Message,
        queue: &str,
        now: Timestamp,
        frame_max: usize,
    ) -> Result<Copy, Refusal> {
        let mut copy = self.copy(message, &message.headers, message.body.clone(), queue, Purpose::Sent)?;
        copy.letter.properties = wire::published_at(copy.letter.properties, now.as_millis());
        fits(&copy.letter, &copy.queue, frame_max)?;
        Ok(copy)
    }

    /// Whether the headers of a copy that waits, of a dead letter or of a parked message may be larger than a frame. Never
    /// too few: what a trail adds to a message is bounded. What is rejected leaves no copy.
    pub(crate) fn leaves_body(&self, settlement: &Settlement, frame_max: usize) -> bool {
        let rejects = matches!(settlement.outcome, Outcome::Delay { .. }) && self.flow.rejects();
        self.flow.ledger && !rejects && size_of(&settlement.delivery.message.headers) + TRAIL > frame_max
    }

    /// A dead letter or a parked message.
    fn shelved(
        &self,
        settlement: &Settlement,
        mut trail: Trail,
        queue: &str,
        frame_max: usize,
    ) -> Result<Copy, Refusal> {
        let message = &settlement.delivery.message;
        trail.process_after = None;
        trail.delay_route = None;
        trail.wait_id = None;
        let enveloped = self.flow.dead_letter.format == DeadLetterFormat::Envelope;
        // In a queue of both kinds each says which it is.
        let parked = settlement.outcome == Outcome::Park && self.flow.parking == Parking::Same;
        let mut all = message.headers.clone();
        all.remove(PARKED);
        if parked {
            all.push(PARKED, "true");
        }
        let mut shown = message.clone();
        let body = if enveloped {
            shown.content_type = Some("application/json".into());
            Some(json(&envelope_of(&self.flow.flow, settlement, &trail).around(message))?)
        } else {
            message.body.clone()
        };
        self.write(&trail, &mut all, body.as_ref());
        let copy = self.copy(&shown, &all, body, queue, Purpose::Kept)?;
        let Err(refusal) = fits(&copy.letter, &copy.queue, frame_max) else { return Ok(copy) };
        if !self.flow.ledger {
            return Err(refusal);
        }
        // The ledger has the message: the dead letter says so much.
        let mut few = Headers::new();
        few.push(LEFT_BODY, "true");
        for name in ["ce_id", "message-id"] {
            if let Some(value) = message.headers.get(name) {
                few.push(name, value.clone());
            }
        }
        if parked {
            few.push(PARKED, "true");
        }
        let body = Some(json(&envelope_of(&self.flow.flow, settlement, &trail))?);
        self.write(&trail, &mut few, body.as_ref());
        let content_type = Some("application/json".into());
        let bare = Message { id: message.id.clone(), content_type, ..Message::default() };
        let pointer = self.copy(&bare, &few, body, queue, Purpose::Kept)?;
        fits(&pointer.letter, &pointer.queue, frame_max).map(|()| pointer)
    }

    fn rejection(&self, event: &Bytes, target: &str) -> Result<Copy, Refusal> {
        let queue = self.queue_of(target)?;
        let content_type = Some(RejectionEvent::CONTENT_TYPE.into());
        let message = Message { content_type, body: Some(event.clone()), ..Message::default() };
        self.copy(&message, &Headers::new(), Some(event.clone()), queue, Purpose::Sent)
    }

    fn copy(
        &self,
        message: &Message,
        headers: &Headers,
        body: Option<Bytes>,
        queue: &str,
        purpose: Purpose,
    ) -> Result<Copy, Refusal> {
        let properties = wire::write(message, headers, &self.flow.login.user, purpose)?;
        let letter = Letter {
            exchange: "".into(),
            key: name(queue)?,
            properties,
            body: body.unwrap_or_default(),
            mandatory: true,
        };
        Ok(Copy { letter, queue: queue.into() })
    }

    /// The queue that an address or a name stands for. One at another server is refused: its copy would go astray.
    pub(crate) fn queue_of<'a>(&self, target: &'a str) -> Result<&'a str, Refusal> {
        let elsewhere = || {
            Refusal::Invalid(format!(
                "`{target}` is not at the RabbitMQ that the flow reads; name one of its queues"
            ))
        };
        let rest = ["amqp://", "amqps://"].iter().find_map(|scheme| target.strip_prefix(scheme));
        let Some(rest) = rest else {
            return if target.contains("://") || target.starts_with("queue:") {
                Err(elsewhere())
            } else {
                Ok(target)
            };
        };
        let (place, query) = rest.split_once('?').ok_or_else(elsewhere)?;
        let authority = place.split('/').next().unwrap_or(place);
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let own = format!("{}:{}", self.flow.login.host, self.flow.login.port);
        // A name without a port is one that the configuration gives to a server.
        if host != own && host.contains(':') {
            return Err(elsewhere());
        }
        let queue = query.split('&').find_map(|pair| pair.strip_prefix("queue="));
        queue.filter(|queue| !queue.is_empty()).ok_or_else(elsewhere)
    }

    /// Writes the trail into the headers, and signs it.
    fn write(&self, trail: &Trail, all: &mut Headers, body: Option<&Bytes>) {
        self.rules.get().write(trail, all, Some(body.map_or(&[][..], |body| &body[..])));
    }
}

fn name(text: &str) -> Result<lapin::types::ShortString, Refusal> {
    link::short(text).map_err(|error| Refusal::Invalid(error.to_string()))
}

/// Roughly how many bytes headers take.
fn size_of(headers: &Headers) -> usize {
    headers.iter().map(|one| one.name.as_str().len() + one.value.as_ref().map_or(0, Bytes::len) + 8).sum()
}

/// Whether the properties fit into a frame: the broker ends the whole connection over one that do not.
pub(crate) fn fits(letter: &Letter, queue: &str, frame_max: usize) -> Result<(), Refusal> {
    // Nearly all are far smaller, which is seen without writing them.
    if amqp::at_most(&letter.properties).is_some_and(|most| most + FRAME_OVERHEAD <= frame_max) {
        return Ok(());
    }
    let size = amqp::encoded(&letter.properties).map_or(usize::MAX, |bytes| bytes.len() + FRAME_OVERHEAD);
    if size <= frame_max {
        return Ok(());
    }
    Err(Refusal::Limit(format!(
        "the headers of the copy for `{queue}` take {size} bytes and the connection has frames of {frame_max}; raise `frame_max` at the server, or use a ledger that keeps what does not fit"
    )))
}

fn json(envelope: &Envelope) -> Result<Bytes, Refusal> {
    let bytes = serde_json::to_vec(envelope);
    bytes.map(Bytes::from).map_err(|error| Refusal::Invalid(format!("no envelope can be made: {error}")))
}

/// The delivery is not ours any more.
pub(crate) fn gone(tag: redrive_engine::port::Tag) -> PortError {
    Refusal::NotFound { what: "delivery", name: format!("{}/{}/{}", tag.stream, tag.epoch, tag.number) }
        .into()
}

/// Whether a copy goes to a place that is not the flow's own.
pub(crate) fn is_elsewhere(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reject { .. } | Outcome::Reroute { .. })
}

/// A place that the flow owns can be mended by its people: the delivery stays and is settled once that is done. Any other
/// place refuses for good.
pub(crate) fn not_taken(elsewhere: bool, refusal: Refusal) -> PortError {
    if elsewhere { refusal.into() } else { PortError::Unavailable(refusal.to_string()) }
}
