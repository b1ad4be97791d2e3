//! What a message is like: all that it says, but not how often it was delivered.
//!
//! A queue has no places, and a message need not have an id. What comes again after a crash is then known by what it is
//! like, and two dead letters are told apart by whatever their headers tell apart.

use redrive_core::{Header, Message};
use sha2::{Digest as _, Sha256};

use crate::deaths;

/// What a message of a queue is like: the same whenever and by whomever it is read there.
pub(crate) fn of(queue: &str, message: &Message, published: Option<i64>) -> [u8; 16] {
    let mut headers: Vec<&Header> = (&message.headers)
        .into_iter()
        .filter(|header| !deaths::is_of_the_moment(header.name.as_str()))
        .collect();
    // The order of a table's names depends on who wrote it last.
    headers.sort_by(|one, other| (one.name.as_str(), &one.value).cmp(&(other.name.as_str(), &other.value)));
    let mut hash = Hash::default();
    hash.add(queue.as_bytes());
    hash.add(message.id.as_str().as_bytes());
    hash.add(message.body.as_deref().unwrap_or_default());
    hash.add(&published.unwrap_or(-1).to_le_bytes());
    hash.add(message.key.as_deref().unwrap_or_default());
    hash.add(message.content_type.as_ref().map_or(&[], |kind| kind.as_str().as_bytes()));
    for Header { name, value } in headers {
        hash.add(name.as_str().as_bytes());
        hash.add(value.as_deref().unwrap_or_default());
    }
    hash.done()
}

/// A hash of these parts.
pub(crate) fn hashed(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Hash::default();
    for part in parts {
        hash.add(part);
    }
    hash.done()
}

#[derive(Default)]
struct Hash(Sha256);

impl Hash {
    fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    fn done(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0.finalize()[..16]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;
    use lapin::types::{AMQPValue, FieldTable};

    use super::*;
    use crate::wire::{self, Purpose};

    fn message(headers: Vec<(&str, AMQPValue)>) -> Message {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert(name.into(), value);
        }
        let properties =
            BasicProperties::default().with_message_id("m-1".into()).with_priority(3).with_headers(table);
        wire::read(&properties, b"body".to_vec(), None, &|_| false).message
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    #[test]
    fn every_header_tells_apart_but_how_often_it_was_delivered() {
        let like = |message: &Message| of("theirs", message, None);
        let first = message(vec![("n", AMQPValue::LongInt(1)), ("why", text("no fridge"))]);
        let again = message(vec![
            ("n", AMQPValue::LongInt(1)),
            ("why", text("no fridge")),
            ("x-delivery-count", AMQPValue::LongLongInt(1)),
            ("x-acquired-count", AMQPValue::LongLongInt(2)),
        ]);
        assert_eq!(like(&first), like(&again));
        for other in [
            message(vec![("n", AMQPValue::LongInt(1)), ("why", text("no lamp"))]),
            message(vec![("n", AMQPValue::LongLongInt(1)), ("why", text("no fridge"))]),
            message(vec![("n", AMQPValue::LongInt(1))]),
        ] {
            assert_ne!(like(&first), like(&other), "{other:?}");
        }
        assert_ne!(like(&first), of("others", &first, None));
        assert_ne!(like(&first), of("theirs", &first, Some(1)));
    }

    #[test]
    fn what_is_written_to_the_end_of_its_queue_is_like_what_it_was() {
        let first = message(vec![
            ("n", AMQPValue::LongInt(1)),
            ("why", text("no fridge")),
            ("x-first-death-queue", text("orders")),
            ("CC", AMQPValue::FieldArray(vec![text("audit")].into())),
            ("x-delivery-count", AMQPValue::LongLongInt(1)),
        ]);
        let written = wire::write(&first, &first.headers, "guest", Purpose::Kept).expect("properties");
        let back = wire::read(&written, b"body".to_vec(), None, &|_| false).message;
        assert_eq!(of("theirs", &first, None), of("theirs", &back, None), "{first:?} {back:?}");
    }
}
