//! What a failed copy means, and who is told.

use std::sync::Arc;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use redrive_engine::port::Refusal;

use super::Settling;
use super::commit;
use super::entry::Entry;
use crate::client;

/// Judges failures of copies.
pub(super) struct Trouble<'a> {
    with: &'a Settling,
}

impl<'a> Trouble<'a> {
    pub(super) fn new(with: &'a Settling) -> Self {
        Self { with }
    }

    /// Whether a copy was refused for good, rather than not answered in time. A topic that is missing shows as a time-out
    /// only: it is looked for.
    pub(super) fn is_refusal(&self, topic: &str, error: &KafkaError) -> bool {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageTimedOut) => {
                let topic: Arc<str> = topic.into();
                self.with.topics.look(std::slice::from_ref(&topic)).is_ok() && !self.with.topics.knows(&topic)
            }
            Some(code) => client::is_for_good(code),
            None => false,
        }
    }

    /// Tells people, and what to answer.
    pub(super) fn refuse(&self, topic: &str, error: &KafkaError) -> Refusal {
        let asked: Arc<str> = topic.into();
        // What was known of it may be old.
        let looked = self.with.topics.look(std::slice::from_ref(&asked)).is_ok();
        let missing = looked && !self.with.topics.knows(topic);
        let refusal = if missing {
            Refusal::NotFound { what: "topic", name: topic.to_owned() }
        } else {
            commit::refusal(topic, error)
        };
        let name = if missing { "topic_missing" } else { "copy_refused" };
        let why = format!("a copy was refused, and its message stays unsettled: {refusal}");
        self.with.alarms.raise(name, topic, why);
        refusal
    }

    /// Topics take copies again, unless one of these was refused.
    pub(super) fn is_over(&self, entries: &[Entry]) {
        let of = |fits: fn(&Entry) -> bool| {
            entries.iter().filter(move |entry| fits(entry)).flat_map(|entry| &entry.copies)
        };
        self.with.alarms.clear_all(|name, about| {
            let wanted = matches!(name, "copy_refused" | "topic_missing");
            wanted
                && of(|entry| matches!(entry.answer, Some(Ok(_)))).any(|copy| *copy.topic == *about)
                && !of(|entry| matches!(entry.answer, Some(Err(_)))).any(|copy| *copy.topic == *about)
        });
    }
}
