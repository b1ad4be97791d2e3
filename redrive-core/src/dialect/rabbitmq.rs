//! RabbitMQ's own account of a message's deaths: `x-death`, `x-first-death-…`, `x-delivery-count`.
//!
//! `x-death` is an AMQP table, which headers of bytes do not have. The adapter that reads it gives [`Death`]s; where
//! they have to travel in a header, they do so as JSON.

use serde::{Deserialize, Serialize};

use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::headers::{MAX_ATTEMPT, MAX_TOPIC};
use crate::{ErrorLink, Headers, Text, Timestamp};

/// How many deaths of a message are looked at.
pub const MAX_DEATHS: usize = 64;
/// How long the JSON form may be, in bytes.
const MAX_JSON: usize = 256 * 1024;

/// One line of `x-death`: how often a message was dead-lettered from one queue for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Death {
    /// The queue.
    pub queue: String,
    /// `rejected`, `expired`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// When it happened first.
    pub time: Option<Timestamp>,
    /// The exchange that the message had been published to.
    pub exchange: Option<String>,
    /// The routing keys that it had been published with.
    pub routing_keys: Vec<String>,
    /// How often.
    pub count: u64,
}

/// The deaths that a header carries as JSON. What is none is passed over.
pub(super) fn from_json(headers: &Headers) -> Vec<Death> {
    let Some(text) = headers.get("x-death").filter(|text| text.len() <= MAX_JSON) else { return Vec::new() };
    let list: Vec<serde_json::Value> = serde_json::from_slice(text).unwrap_or_default();
    list.into_iter().take(MAX_DEATHS).filter_map(|death| serde_json::from_value(death).ok()).collect()
}

pub(super) fn read(headers: &Headers, deaths: &[Death]) -> Option<ForeignFailure> {
    let deaths = &deaths[..deaths.len().min(MAX_DEATHS)];
    let (newest, oldest) = (deaths.first(), deaths.last());
    let name =
        |text: &str| if text.len() > 4 * MAX_TOPIC { None } else { Text::from(text).into_id(MAX_TOPIC) };
    let first_queue = values::place(headers, "x-first-death-queue");
    if newest.is_none() && first_queue.is_none() {
        return None;
    }
    let mut failure = ForeignFailure::of(Writer::RabbitMq);
    failure.origin = ForeignOrigin {
        name: first_queue.or_else(|| name(&oldest?.queue)),
        exchange: values::place(headers, "x-first-death-exchange")
            .or_else(|| name(oldest?.exchange.as_ref()?)),
        routing_key: oldest.and_then(|death| name(death.routing_keys.first()?)),
        ..ForeignOrigin::default()
    };
    let times = || deaths.iter().filter_map(|death| death.time).filter(|time| time.as_millis() >= 0);
    failure.first_failed_at = times().min();
    failure.failed_at = times().max();
    failure.attempts = attempts(headers, deaths);
    let reason = newest.and_then(|death| name(&death.reason));
    if let Some(reason) = reason.or_else(|| values::place(headers, "x-first-death-reason")) {
        let queue = newest.and_then(|death| name(&death.queue)).or_else(|| failure.origin.name.clone());
        let message = match queue {
            Some(queue) => format!("{reason} from queue {queue}"),
            None => reason.to_string(),
        };
        failure.chain.push(ErrorLink { kind: reason.to_string(), message });
    }
    (failure.origin.name.is_some() || !failure.chain.is_empty()).then_some(failure)
}

/// Deaths that a consumer caused. One by expiry is a wait, not an attempt.
fn attempts(headers: &Headers, deaths: &[Death]) -> Option<u32> {
    let rejected = deaths
        .iter()
        .filter(|death| matches!(death.reason.as_str(), "rejected" | "delivery_limit"))
        .fold(0_u64, |sum, death| sum.saturating_add(death.count.max(1)));
    let delivered = u64::from(values::count(headers, "x-delivery-count").unwrap_or(0));
    let attempts = rejected.max(delivered).min(u64::from(MAX_ATTEMPT)) as u32;
    (attempts > 0).then_some(attempts)
}
