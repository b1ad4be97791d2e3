//! The head of the request that carries a message.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use redrive_core::{MAX_FACT, Message, Timestamp};

use super::encoding::{encoded, encoded_list, encoded_str};
use super::passing::{Allowance, MAX_VALUE, is_text};
use super::webhook::{WebhookSecret, sign};
use crate::handler::Context;

const CE_ID: HeaderName = HeaderName::from_static("ce-id");
const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
const CE_TIME: HeaderName = HeaderName::from_static("ce-time");
const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ATTEMPT: HeaderName = HeaderName::from_static("redrive-attempt");
const CALLS_LEFT: HeaderName = HeaderName::from_static("redrive-calls-left");
const DEADLINE: HeaderName = HeaderName::from_static("redrive-deadline");
const DIVERTED: HeaderName = HeaderName::from_static("redrive-diverted");
const FLOW: HeaderName = HeaderName::from_static("redrive-flow");
const TOMBSTONE: HeaderName = HeaderName::from_static("redrive-tombstone");
const WILL_RETRY: HeaderName = HeaderName::from_static("redrive-will-retry");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");

pub(super) const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("redrive/", env!("CARGO_PKG_VERSION")));
const ONE_ZERO: HeaderValue = HeaderValue::from_static("1.0");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const FALSE: HeaderValue = HeaderValue::from_static("false");
const PLAIN_MESSAGE: HeaderValue = HeaderValue::from_static("redrive.message");

/// What CloudEvents attributes begin with in Kafka, in HTTP and in AMQP.
const CE_PREFIXES: [&str; 4] = ["ce_", "ce-", "cloudEvents:", "cloudEvents_"];
/// How much of the ids of diverted predecessors is told.
const MAX_DIVERTED: usize = 4 * 1024;

/// What the requests of one handler have in common.
#[derive(Debug)]
pub(super) struct Head {
    own: Vec<(HeaderName, HeaderValue)>,
    secrets: Vec<WebhookSecret>,
    flow: Remembered,
    source: Remembered,
}

impl Head {
    pub(super) fn new(own: Vec<(HeaderName, HeaderValue)>, secrets: Vec<WebhookSecret>) -> Self {
        Self { own, secrets, flow: Remembered::default(), source: Remembered::default() }
    }

    pub(super) fn build(&self, message: &Message, context: &Context) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(24 + message.headers.len().min(32));
        carry(message, &mut headers);
        let key = match &*context.idempotency_key {
            "" => encoded(message.id.as_bytes()),
            key => encoded_str(key),
        };
        cloud_event(self, message, context, &mut headers);

        headers.insert(USER_AGENT, AGENT);
        headers.insert(FLOW, self.flow.value(&context.flow));
        headers.insert(ATTEMPT, HeaderValue::from(context.attempt));
        headers.insert(WILL_RETRY, if context.will_retry { TRUE } else { FALSE });
        headers.insert(DEADLINE, time(context.deadline));
        if let Some(calls) = context.calls_left {
            headers.insert(CALLS_LEFT, HeaderValue::from(calls));
        }
        if !context.diverted.is_empty() {
            headers.insert(DIVERTED, encoded_list(context.diverted.iter(), MAX_DIVERTED));
        }
        if message.body.is_none() {
            headers.insert(TOMBSTONE, TRUE);
        }
        let body = message.body.as_deref().unwrap_or_default();
        put_signature(&mut headers, &self.secrets, &key, context.started_at(), body);
        headers.insert(IDEMPOTENCY_KEY, key);
        for (name, value) in &self.own {
            headers.insert(name, value.clone());
        }
        headers
    }
}

/// Signs a request, when there are secrets.
pub(super) fn put_signature(
    headers: &mut HeaderMap,
    secrets: &[WebhookSecret],
    id: &HeaderValue,
    at: Timestamp,
    body: &[u8],
) {
    if secrets.is_empty() {
        return;
    }
    let timestamp = (at.as_millis() / 1_000).to_string();
    let signature = sign(secrets, id.as_bytes(), &timestamp, body);
    headers.insert(WEBHOOK_ID, id.clone());
    headers.insert(WEBHOOK_TIMESTAMP, encoded_str(&timestamp));
    if let Ok(signature) = HeaderValue::try_from(signature) {
        headers.insert(WEBHOOK_SIGNATURE, signature);
    }
}

/// Takes from the message's headers what an endpoint may see. The last value of a name counts, as everywhere.
fn carry(message: &Message, headers: &mut HeaderMap) {
    if let Some(content_type) = &message.content_type {
        set_text(headers, CONTENT_TYPE, content_type.as_bytes());
    }
    if message.headers.is_empty() {
        return;
    }
    let mut allowance = Allowance::new();
    for header in message.headers.iter().rev() {
        let Some(value) = &header.value else { continue };
        let name = header.name.as_str();
        if let Some(attribute) = CE_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
            carry_attribute(&mut allowance, headers, attribute, value);
        } else if name.eq_ignore_ascii_case("content-type") {
            if !headers.contains_key(CONTENT_TYPE) {
                set_text(headers, CONTENT_TYPE, value);
            }
        } else {
            allowance.pass(headers, name, value);
        }
    }
    if let Some(parent) = message.headers.get(TRACEPARENT.as_str()).filter(|value| is_traceparent(value)) {
        set_text(headers, TRACEPARENT, parent);
        if let Some(state) = message.headers.get(TRACESTATE.as_str()) {
            set_text(headers, TRACESTATE, state);
        }
    }
}

/// An attribute that the message brings. Its id is the message's id, which may come from elsewhere.
fn carry_attribute(allowance: &mut Allowance, headers: &mut HeaderMap, attribute: &str, value: &Bytes) {
    if attribute == "datacontenttype" {
        if !headers.contains_key(CONTENT_TYPE) {
            set_text(headers, CONTENT_TYPE, value);
        }
        return;
    }
    let is_attribute = (1..=64).contains(&attribute.len())
        && attribute.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_attribute || matches!(attribute, "id" | "data") || value.len() > MAX_VALUE {
        return;
    }
    if std::str::from_utf8(value).is_err() {
        return;
    }
    let name = match attribute {
        "source" => CE_SOURCE,
        "specversion" => CE_SPECVERSION,
        "time" => CE_TIME,
        "type" => CE_TYPE,
        _ => match HeaderName::from_bytes(format!("ce-{attribute}").as_bytes()) {
            Ok(name) => name,
            Err(_) => return,
        },
    };
    allowance.add(headers, name, encoded(value));
}

/// Fills in the attributes that every event has.
fn cloud_event(head: &Head, message: &Message, context: &Context, headers: &mut HeaderMap) {
    headers.insert(CE_ID, encoded(message.id.as_bytes()));
    headers.entry(CE_SPECVERSION).or_insert(ONE_ZERO);
    if !headers.contains_key(CE_SOURCE) {
        headers.insert(CE_SOURCE, head.source.value(&context.source));
    }
    if let Some(message_type) = &context.message_type {
        headers.insert(CE_TYPE, encoded(message_type.as_bytes()));
    } else if !headers.contains_key(CE_TYPE) {
        let found = message.headers.get_text("type", MAX_FACT).filter(|found| !found.is_empty());
        headers.insert(CE_TYPE, found.map_or(PLAIN_MESSAGE, |found| encoded(found.as_bytes())));
    }
    if !headers.contains_key(CE_TIME)
        && let Some(millis) = message.headers.get_text("x-original-timestamp", 20)
        && let Ok(millis) = millis.parse()
    {
        headers.insert(CE_TIME, time(Timestamp::from_millis(millis)));
    }
}

/// A trace context of version 00 or later whose ids are not all zero (W3C Trace Context, section 3.2).
fn is_traceparent(value: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    let Some((known, rest)) = value.split_at_checked(55) else { return false };
    let (version, trace, parent, flags) = (&known[..2], &known[3..35], &known[36..52], &known[53..]);
    let dashes = known[2] == b'-' && known[35] == b'-' && known[52] == b'-';
    let later = !rest.is_empty() && version != b"00" && rest[0] == b'-' && value.len() <= 512;
    dashes
        && (rest.is_empty() || later)
        && version != b"ff"
        && [version, trace, parent, flags].into_iter().all(is_hex)
        && !is_zero(trace)
        && !is_zero(parent)
}

fn set_text(headers: &mut HeaderMap, name: HeaderName, value: &Bytes) {
    if value.len() > 512 || value.is_empty() || !is_text(value) {
        return;
    }
    if let Ok(value) = HeaderValue::from_maybe_shared(value.clone()) {
        headers.insert(name, value);
    }
}

fn time(time: Timestamp) -> HeaderValue {
    encoded(&Bytes::from(time.to_string()))
}

/// The header value of a text that is the same in nearly every call.
#[derive(Debug, Default)]
struct Remembered(OnceLock<(Arc<str>, HeaderValue)>);

impl Remembered {
    fn value(&self, text: &Arc<str>) -> HeaderValue {
        let (known, value) = self.0.get_or_init(|| (Arc::clone(text), encoded_str(text)));
        if Arc::ptr_eq(known, text) || known == text { value.clone() } else { encoded_str(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_trace_context() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(valid.as_bytes()));
        assert!(is_traceparent(
            b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-adds"
        ));
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(!is_traceparent(text.as_bytes()), "{text}");
        }
    }
}
