//! Looks topics up, so that a copy is not sent to one that is missing or too small for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;

use crate::client;
use crate::facts::{TopicFact, TopicFacts};
use crate::options::ClientOptions;

/// How long one question may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Fills what is known of topics.
pub(crate) struct Topics {
    facts: Arc<TopicFacts>,
    admin: AdminClient<DefaultClientContext>,
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Topics {
    pub(crate) fn new(options: &ClientOptions, facts: Arc<TopicFacts>) -> Result<Self, KafkaError> {
        Ok(Self { facts, admin: client::admin(options)? })
    }

    /// Whether the topic was there when it was looked up.
    pub(crate) fn knows(&self, topic: &str) -> bool {
        self.facts.get(topic).is_some()
    }

    /// Looks these up. One that is not there is forgotten. Blocks.
    pub(crate) fn look(&self, topics: &[Arc<str>]) -> Result<(), KafkaError> {
        let mut there = Vec::new();
        for topic in topics {
            let found = self.admin.inner().fetch_metadata(Some(topic), ANSWER)?;
            let partitions = found
                .topics()
                .iter()
                .find(|one| one.name() == &**topic && one.error().is_none())
                .map_or(0, |one| one.partitions().len());
            match i32::try_from(partitions) {
                Ok(partitions) if partitions > 0 => there.push((topic, partitions)),
                _ => self.facts.forget(topic),
            }
        }
        let asked: Vec<ResourceSpecifier<'_>> =
            there.iter().map(|(topic, _)| ResourceSpecifier::Topic(topic)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let options = AdminOptions::new().request_timeout(Some(ANSWER));
        // Who may write may not be allowed to see settings: sizes are then the broker's to refuse.
        let settings = client::block_on(self.admin.describe_configs(&asked, &options)).unwrap_or_default();
        let mut settings = settings.into_iter();
        for (topic, partitions) in there {
            let max_bytes = settings
                .next()
                .and_then(Result::ok)
                .and_then(|one| one.get("max.message.bytes")?.value.as_ref()?.parse().ok());
            self.facts.set(topic, TopicFact { partitions, max_bytes });
        }
        Ok(())
    }
}
