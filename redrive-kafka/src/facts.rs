//! What is known of topics: how many partitions they have, and how large a record they take.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// What is known of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TopicFact {
    /// How many partitions it has.
    pub(crate) partitions: i32,
    /// The largest record that it takes, in bytes: `max.message.bytes`. Nothing when nobody could read it.
    pub(crate) max_bytes: Option<usize>,
}

/// What is known of the topics of a flow. Whoever reads metadata fills it; a topic that nobody has read is unknown.
#[derive(Debug, Default)]
pub(crate) struct TopicFacts {
    topics: RwLock<HashMap<String, TopicFact>>,
}

impl TopicFacts {
    /// What is known of a topic.
    pub(crate) fn get(&self, topic: &str) -> Option<TopicFact> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic).copied()
    }

    /// Remembers a topic.
    pub(crate) fn set(&self, topic: &str, fact: TopicFact) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.insert(topic.to_owned(), fact);
    }

    /// Forgets a topic that is gone, or that changed.
    pub(crate) fn forget(&self, topic: &str) {
        self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }
}
