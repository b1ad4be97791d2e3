//! The envelope that a dead letter can be written in, and the message that one carries.

use redrive_core::headers::Trail;
use redrive_core::{Envelope, FactSources, MAX_ENVELOPE_HEADERS, Message, Payload, Text};

use crate::port::{HeaderRules, Settlement};

/// The envelope of a message that a flow gives up: its facts as the ledger knows them, else as its headers tell.
pub fn envelope_of(flow: &str, settlement: &Settlement, trail: &Trail) -> Envelope {
    let message = &settlement.delivery.message;
    let mut facts = FactSources::default().find(&message.headers, None);
    if let Some(record) = &settlement.record {
        let known = |fact: &Option<String>| fact.as_deref().map(Text::from);
        facts.message_type = known(&record.message_type).or(facts.message_type);
        facts.entity = known(&record.entity);
        facts.tenant = known(&record.tenant).or(facts.tenant);
        facts.correlation = known(&record.correlation_id).or(facts.correlation);
        facts.causation = known(&record.causation_id).or(facts.causation);
    }
    Envelope::new(message.id.clone(), flow, &facts, trail)
}

/// Puts the message that an envelope of ours carries in its place. What is no such envelope stays as it is.
pub fn unwrap_envelope(message: &mut Message, trail: &Trail, rules: &HeaderRules) {
    if trail.entry_id.is_none() {
        return;
    }
    let Some(envelope) = message.body.as_deref().and_then(|body| Envelope::from_json(body).ok()) else {
        return;
    };
    let Some(payload) = envelope.payload else { return };
    message.body = match payload {
        Payload::Tombstone => None,
        Payload::Bytes(bytes) => Some(bytes),
    };
    message.id = envelope.message_id;
    if let Some(mut headers) = envelope.headers.filter(|headers| headers.len() <= MAX_ENVELOPE_HEADERS) {
        rules.write(trail, &mut headers, message.body.as_deref());
        message.headers = headers;
    }
    message.content_type = message
        .headers
        .get_text("content-type", 256)
        .or_else(|| message.headers.get_text("ce_datacontenttype", 256));
}
