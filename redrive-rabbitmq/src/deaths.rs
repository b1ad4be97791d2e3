//! What the broker itself writes about a message's deaths.
//!
//! A republished `x-death` counts for the broker's search for cycles, and a message that would go round is dropped or jams
//! a level. So what is found is carried under other names while it waits, and each trip begins with none.

use lapin::types::{AMQPValue, FieldTable};
use redrive_core::Timestamp;
use redrive_core::dialect::Death;

use crate::amqp;

/// How many deaths are read and carried.
const MOST: usize = 64;
/// The longest text of carried deaths that is read.
const LONGEST: usize = 64 << 10;
/// What is put in front of the broker's names on the way.
const CARRIED: &str = "x-redrive-";

/// The name on the wire of a header that only the broker may write; nothing for all others.
pub(crate) fn on_the_wire(name: &str) -> Option<String> {
    let is_death =
        name == "x-death" || name.starts_with("x-first-death-") || name.starts_with("x-last-death-");
    is_death.then(|| format!("{CARRIED}{}", &name[2..]))
}

/// The name that a carried header had.
pub(crate) fn from_the_wire(name: &str) -> Option<String> {
    let rest = name.strip_prefix(CARRIED)?;
    let is_death = rest == "death" || rest.starts_with("first-death-") || rest.starts_with("last-death-");
    is_death.then(|| format!("x-{rest}"))
}

/// Whether the broker writes it anew for each queue: not carried.
pub(crate) fn is_of_the_moment(name: &str) -> bool {
    matches!(name, "x-delivery-count" | "x-acquired-count")
}

/// The deaths that a table tells of, newest first.
pub(crate) fn read(headers: &FieldTable) -> Vec<Death> {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { return Vec::new() };
    deaths.as_slice().iter().take(MOST).filter_map(one).collect()
}

fn one(value: &AMQPValue) -> Option<Death> {
    let AMQPValue::FieldTable(table) = value else { return None };
    let get = |name: &str| table.inner().get(name);
    let text = |name: &str| get(name).and_then(amqp::text);
    let time = match get("time") {
        Some(AMQPValue::Timestamp(seconds)) => Some(Timestamp::from_millis(amqp::in_millis(*seconds))),
        _ => None,
    };
    let routing_keys = match get("routing-keys") {
        Some(AMQPValue::FieldArray(keys)) => keys.as_slice().iter().filter_map(amqp::text).collect(),
        _ => Vec::new(),
    };
    let count = get("count").and_then(amqp::number).and_then(|count| u64::try_from(count).ok()).unwrap_or(1);
    Some(Death {
        queue: text("queue")?,
        reason: text("reason").unwrap_or_default(),
        time,
        exchange: text("exchange"),
        routing_keys,
        count,
    })
}

/// Deaths as JSON, as the reader of dialects takes them.
pub(crate) fn to_json(deaths: &[Death]) -> Option<Vec<u8>> {
    if deaths.is_empty() {
        return None;
    }
    serde_json::to_vec(&deaths[..deaths.len().min(MOST)]).ok()
}

/// Deaths that a header carries as JSON.
pub(crate) fn from_json(text: &[u8]) -> Vec<Death> {
    if text.len() > LONGEST {
        return Vec::new();
    }
    serde_json::from_slice(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_names_come_back() {
        for name in ["x-death", "x-first-death-queue", "x-last-death-reason"] {
            let wire = on_the_wire(name).expect("a name");
            assert_ne!(wire, name);
            assert_eq!(from_the_wire(&wire).as_deref(), Some(name));
        }
        assert_eq!(on_the_wire("x-deathly"), None);
        assert_eq!(from_the_wire("x-redrive-mac"), None);
    }
}
