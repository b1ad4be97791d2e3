//! From an AMQP message to one of Redrive's, and back, without losing a type or a property.
//!
//! Headers are names and bytes; AMQP has types, and properties beside them. What does not fit into headers travels with
//! the message as one header of its own, in AMQP's encoding, and is put back where a copy is written. It does so through
//! the ledger too, which knows nothing of AMQP. A table has no order and each name once: where that is lost, it is
//! written down.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use redrive_core::dialect::Death;
use redrive_core::headers::{Field, Origin};
use redrive_core::{Header, Headers, Message, Text};
use redrive_engine::port::Refusal;
use serde_json::{Value, json};

use crate::{amqp, deaths};

/// What headers cannot express of a message, in AMQP's encoding.
pub(crate) const PROPERTIES: &str = "x-amqp-properties";
/// The key of a copy.
const KEY: &str = "x-message-key";
/// The order of the headers, where it is not that of their names.
const ORDER: &str = "x-header-order";
/// When Redrive itself published the message.
const PUBLISHED: &str = "x-published-ms";
/// The place of a message in a stream, as the broker says it.
pub(crate) const OFFSET: &str = "x-stream-offset";
/// Says of a message in a dead-letter queue, which the flow parks in too, that it is parked.
pub(crate) const PARKED: &str = "x-parked";
/// Headers by which the broker would route a copy once more.
const ROUTES: [&str; 2] = ["CC", "BCC"];

/// What was read off the wire.
#[derive(Debug)]
pub(crate) struct Read {
    /// The message; its id is empty when it has none.
    pub(crate) message: Message,
    /// When it was published, in milliseconds, when it says so.
    pub(crate) published: Option<i64>,
    /// Its deaths outside of the flow's own delays, newest first.
    pub(crate) deaths: Vec<Death>,
    /// How many of these the broker wrote since the message was last published; what lies behind was carried along.
    pub(crate) fresh: usize,
}

/// Where a message came from on its way to the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) key: &'a str,
}

/// Makes a message of what was delivered. `is_own` tells the queues that messages of the flow wait in.
pub(crate) fn read(
    properties: &BasicProperties,
    body: Vec<u8>,
    route: Option<Route<'_>>,
    is_own: &dyn Fn(&str) -> bool,
) -> Read {
    let empty = FieldTable::default();
    let table = properties.headers().as_ref().unwrap_or(&empty);
    let own_death = deaths::read(table);
    let mut deaths: Vec<Death> = own_death.iter().filter(|death| !is_own(&death.queue)).cloned().collect();
    let fresh = deaths.len();
    let first_is_own = table.inner().get("x-first-death-queue").and_then(amqp::text);
    let first_is_own = first_is_own.is_some_and(|queue| is_own(&queue));
    let (mut typed, mut held) = (BTreeMap::new(), None);
    let (mut key, mut order, mut published) = (None, None, None);
    let mut headers = Headers::with_capacity(table.inner().len() + 1);
    for (name, value) in table.inner() {
        match name.as_str() {
            PROPERTIES => held = amqp::shown(value).and_then(|text| carried_by(&text)),
            KEY => key = amqp::shown(value),
            ORDER => order = amqp::shown(value),
            PUBLISHED => published = amqp::number(value),
            "x-death" => {}
            other
                if first_is_own
                    && (other.starts_with("x-first-death-") || other.starts_with("x-last-death-")) => {}
            other => match deaths::from_the_wire(other) {
                Some(name) if name == "x-death" => {
                    deaths.extend(deaths::from_json(&amqp::shown(value).unwrap_or_default()));
                }
                // What the broker wrote now is newer.
                Some(name) if !first_is_own && table.inner().contains_key(name.as_str()) => {}
                Some(name) => headers.push_header(name, amqp::shown(value)),
                None => {
                    let is_text = matches!(value, AMQPValue::LongString(_) | AMQPValue::Void);
                    if !is_text && !deaths::is_of_the_moment(other) {
                        typed.insert(name.clone(), value.clone());
                    }
                    headers.push_header(name.as_str(), amqp::shown(value));
                }
            },
        }
    }
    deaths.truncate(64);
    if let Some(json) = deaths::to_json(&deaths) {
        headers.push("x-death", json);
    }
    if let Some(table) = held.as_ref().and_then(|held| held.headers().as_ref()) {
        for (name, value) in table.inner() {
            headers.remove(name.as_str());
            headers.push_header(name.as_str(), amqp::shown(value));
            typed.insert(name.clone(), value.clone());
        }
    }
    if let Some(order) = order {
        headers = in_order(headers, &order);
    }
    let by_property = properties.message_id().as_ref().map(ShortString::as_str);
    let id = Message::id_of(&headers, by_property, &Origin::default()).unwrap_or_default();
    let content_type = properties.content_type().as_ref().map(|text| Text::from(text.as_str()));
    let rest = rest_of(properties, held.as_ref(), typed, &id);
    if rest != BasicProperties::default()
        && let Some(text) = amqp::to_text(&rest)
    {
        headers.push(PROPERTIES, text);
    }
    let of_route =
        |route: Route<'_>| (!route.exchange.is_empty()).then(|| Bytes::copy_from_slice(route.key.as_bytes()));
    let key = key.or_else(|| route.and_then(of_route));
    let published = published.or_else(|| properties.timestamp().map(amqp::in_millis));
    let message = Message { id, key, body: Some(body.into()), headers, content_type };
    Read { message, published, deaths, fresh }
}

/// The properties that a header carries; nothing when it carries none that can be read.
fn carried_by(text: &[u8]) -> Option<BasicProperties> {
    match amqp::from_text(text) {
        Ok(properties) => Some(properties),
        Err(why) => {
            tracing::warn!(header = PROPERTIES, why, "carried properties are left out");
            None
        }
    }
}

/// Takes over the properties that are there.
macro_rules! carry {
    ($to:ident, $from:expr, $($get:ident => $with:ident),+ $(,)?) => {
        $(if let Some(value) = $from.$get() { $to = $to.$with(value.clone()); })+
    };
}

/// What the properties say beyond the message's id, content type and headers.
fn rest_of(
    properties: &BasicProperties,
    held: Option<&BasicProperties>,
    typed: BTreeMap<ShortString, AMQPValue>,
    id: &str,
) -> BasicProperties {
    let mut rest = BasicProperties::default();
    carry!(rest, properties,
        content_encoding => with_content_encoding, priority => with_priority,
        correlation_id => with_correlation_id, reply_to => with_reply_to, expiration => with_expiration,
        timestamp => with_timestamp, kind => with_type, user_id => with_user_id, app_id => with_app_id,
        cluster_id => with_cluster_id);
    if let Some(held) = held {
        carry!(rest, held, expiration => with_expiration, user_id => with_user_id);
    }
    if let Some(other) = properties.message_id().as_ref().filter(|other| other.as_str() != id) {
        rest = rest.with_message_id(other.clone());
    }
    if !typed.is_empty() {
        rest = rest.with_headers(typed.into());
    }
    rest
}

/// Whether the broker takes this as the time that a message lives: of any other it ends the channel.
fn is_legal_expiration(text: &ShortString) -> bool {
    let text = text.as_str();
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u32>().is_ok()
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It waits, or lies on a shelf: nothing may take it away or send it elsewhere.
    Kept,
    /// It goes on as a message of its own.
    Sent,
}

/// The properties of a copy, with these headers.
pub(crate) fn write(
    message: &Message,
    headers: &Headers,
    login: &str,
    purpose: Purpose,
) -> Result<BasicProperties, Refusal> {
    let carried = headers.get(PROPERTIES).and_then(|text| carried_by(text)).unwrap_or_default();
    let mut held = BasicProperties::default();
    let mut held_headers: BTreeMap<ShortString, AMQPValue> = BTreeMap::new();
    let mut table: BTreeMap<ShortString, AMQPValue> = BTreeMap::new();
    let typed = carried.headers().clone().unwrap_or_default();
    for Header { name, value } in headers {
        let name = name.as_str();
        if name == PROPERTIES || deaths::is_of_the_moment(name) {
            continue;
        }
        let on_the_wire = deaths::on_the_wire(name);
        let short = ShortString::try_new(on_the_wire.as_deref().unwrap_or(name)).map_err(|error| {
            Refusal::Invalid(format!("a header's name is longer than RabbitMQ takes: {error}"))
        })?;
        let same = typed.inner().get(name).filter(|typed| amqp::shown(typed) == *value).cloned();
        let value = same.unwrap_or_else(|| match value {
            Some(value) => AMQPValue::LongString(value.to_vec().into()),
            None => AMQPValue::Void,
        });
        if ROUTES.contains(&name) {
            held_headers.insert(short, value);
        } else {
            table.insert(short, value);
        }
    }
    let mut properties = BasicProperties::default();
    carry!(properties, carried,
        content_encoding => with_content_encoding, priority => with_priority,
        correlation_id => with_correlation_id, reply_to => with_reply_to, message_id => with_message_id,
        timestamp => with_timestamp, kind => with_type, app_id => with_app_id, cluster_id => with_cluster_id);
    // The broker refuses a copy in the name of another user.
    match carried.user_id() {
        Some(user) if user.as_str() == login => carry!(properties, carried, user_id => with_user_id),
        _ => carry!(held, carried, user_id => with_user_id),
    }
    // It would leave the place in which it waits too early.
    match purpose {
        Purpose::Sent if carried.expiration().as_ref().is_some_and(is_legal_expiration) => {
            carry!(properties, carried, expiration => with_expiration);
        }
        Purpose::Kept | Purpose::Sent => carry!(held, carried, expiration => with_expiration),
    }
    if !held_headers.is_empty() {
        held = held.with_headers(held_headers.into());
    }
    if held != BasicProperties::default()
        && let Some(text) = amqp::to_text(&held)
    {
        table.insert(PROPERTIES.into(), AMQPValue::LongString(text.into()));
    }
    if let Some(order) = order_of(headers) {
        table.insert(ORDER.into(), AMQPValue::LongString(order.into()));
    }
    if let Some(key) = &message.key {
        table.insert(KEY.into(), AMQPValue::ByteArray(key.to_vec().into()));
    }
    if headers.message_id().is_none() && !message.id.is_empty() {
        match ShortString::try_new(message.id.as_str()) {
            Ok(id) => properties = properties.with_message_id(id),
            Err(_) => {
                let id = AMQPValue::LongString(message.id.as_str().into());
                table.insert("message-id".into(), id);
            }
        }
    }
    if let Some(kind) = &message.content_type
        && let Ok(kind) = ShortString::try_new(kind.as_str())
    {
        properties = properties.with_content_type(kind);
    }
    let headers = FieldTable::from(table);
    if !headers.inner().is_empty() {
        properties = properties.with_headers(headers);
    }
    Ok(properties.with_delivery_mode(2))
}

/// The same properties with the time at which Redrive published the message.
pub(crate) fn published_at(properties: BasicProperties, millis: i64) -> BasicProperties {
    with_header(properties, PUBLISHED, AMQPValue::LongLongInt(millis))
}

/// The place in a stream that the broker says. Anywhere else the header is one like others.
pub(crate) fn offset_of(properties: &BasicProperties) -> Option<i64> {
    properties.headers().as_ref()?.inner().get(OFFSET).and_then(amqp::number)
}

/// The same properties without a place in a stream, which only the stream itself can tell.
pub(crate) fn without_offset(properties: BasicProperties) -> BasicProperties {
    let table = properties.headers().as_ref().map(FieldTable::inner);
    let Some(table) = table.filter(|table| table.contains_key(OFFSET)) else { return properties };
    let others = table.iter().filter(|(name, _)| name.as_str() != OFFSET);
    let others: BTreeMap<ShortString, AMQPValue> =
        others.map(|(name, value)| (name.clone(), value.clone())).collect();
    properties.with_headers(others.into())
}

/// The same properties with one more header.
pub(crate) fn with_header(properties: BasicProperties, name: &str, value: AMQPValue) -> BasicProperties {
    let mut table = properties.headers().clone().unwrap_or_default();
    table.insert(name.into(), value);
    properties.with_headers(table)
}

/// Whether the order of a header is kept: those that Redrive writes itself have none.
fn is_brought(name: &str) -> bool {
    Field::of(name).is_none()
        && ![PROPERTIES, PARKED].contains(&name)
        && !deaths::is_of_the_moment(name)
        && deaths::on_the_wire(name).is_none()
        && !ROUTES.contains(&name)
}

/// The order of headers, where a table would lose it. A name that comes again has its earlier values beside it.
fn order_of(headers: &Headers) -> Option<String> {
    let brought: Vec<&Header> = headers.iter().filter(|header| is_brought(header.name.as_str())).collect();
    if brought.windows(2).all(|two| two[0].name.as_str() < two[1].name.as_str()) {
        return None;
    }
    let items = brought.iter().enumerate().map(|(place, header)| {
        let name = header.name.as_str();
        if brought[place + 1..].iter().any(|later| later.name.as_str() == name) {
            json!([name, header.value.as_ref().map(|value| BASE64.encode(value))])
        } else {
            json!(name)
        }
    });
    Some(Value::Array(items.collect()).to_string())
}

fn in_order(headers: Headers, order: &[u8]) -> Headers {
    let Ok(items) = serde_json::from_slice::<Vec<Value>>(order) else { return headers };
    let mut left: Vec<Option<Header>> = headers.into_iter().map(Some).collect();
    let places: std::collections::HashMap<String, usize> = left
        .iter()
        .enumerate()
        .filter_map(|(place, header)| Some((header.as_ref()?.name.as_str().to_owned(), place)))
        .collect();
    let mut all = Headers::with_capacity(left.len());
    for item in items {
        match &item {
            Value::String(name) => {
                if let Some(header) = places.get(name).and_then(|place| left[*place].take()) {
                    all.push_header(header.name, header.value);
                }
            }
            Value::Array(pair) => {
                let [Value::String(name), value] = &pair[..] else { continue };
                let value = value.as_str().and_then(|text| BASE64.decode(text).ok()).map(Bytes::from);
                all.push_header(name.as_str(), value);
            }
            _ => {}
        }
    }
    for header in left.into_iter().flatten() {
        all.push_header(header.name, header.value);
    }
    all
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
