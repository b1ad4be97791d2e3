//! What a flow on Kafka says of its consumer groups and topics.

use std::collections::BTreeSet;

use super::finding::Findings;
use super::flow::Flow;
#[cfg(feature = "kafka")]
use super::flow::{DeadLetter, Settle};
use super::flow_checks::Checked;
use crate::address::{KafkaAddress, SourceAddress};
use crate::codes;

impl Checked<'_> {
    pub(super) fn check_kafka(&self, kafka: &KafkaAddress, findings: &mut Findings<'_>) {
        self.check_groups(kafka, findings);
        self.check_topics(kafka, findings);
        #[cfg(feature = "kafka")]
        self.check_options(findings);
    }

    /// A group reads for one part of one flow: two in one group would each get a share of what both need.
    fn check_groups(&self, kafka: &KafkaAddress, findings: &mut Findings<'_>) {
        let Some(node) = self.node("groups").or_else(|| self.node("from")) else { return };
        let own = groups(self.name, self.flow, kafka);
        let mut seen = BTreeSet::new();
        for group in &own {
            if group.is_empty() || group.len() > 249 {
                let help = "use 1 to 249 bytes".to_owned();
                let message = "the name of a consumer group is empty or too long";
                findings.error(codes::WRONG_TEXT, node.span.clone(), message, help);
            } else if !seen.insert(group) {
                let message = format!("the group `{group}` would read for two parts of the flow");
                let help = "give main, retry, delay and ledger names of their own".to_owned();
                findings.error(codes::ONE_GROUP, node.span.clone(), message, help);
            }
        }
        let earlier = self.config.flows.iter().take_while(|(name, _)| name.as_str() < self.name);
        for (name, other) in earlier {
            let Ok(SourceAddress::Kafka(address)) = other.from.parse() else { continue };
            if address.hosts != kafka.hosts {
                continue;
            }
            if let Some(group) = groups(name, other, &address).iter().find(|group| own.contains(group)) {
                let message = format!("the flow `{name}` reads with the group `{group}` too");
                let help = "give each flow a group of its own; `?group=NAME` in `from` names it".to_owned();
                findings.error(codes::ONE_GROUP, node.span.clone(), message, help);
            }
        }
    }

    /// A topic that is read and written by one flow goes round in circles.
    fn check_topics(&self, kafka: &KafkaAddress, findings: &mut Findings<'_>) {
        let mut read: BTreeSet<&str> = BTreeSet::new();
        for topic in &kafka.topics {
            if let (false, Some(node)) = (read.insert(topic), self.node("from")) {
                let message = format!("the topic `{topic}` is named twice");
                findings.error(codes::ONE_TOPIC, node.span.clone(), message, "name it once".to_owned());
            }
        }
        for (node, name) in self.named_places() {
            if !is_topic(name) {
                let help = "use 1 to 249 of a-z, A-Z, 0-9, `.`, `_` and `-`".to_owned();
                let message = format!("`{}` is no name of a topic", super::structure::shown(name));
                findings.error(codes::WRONG_TEXT, node.span.clone(), message, help);
            } else if !read.insert(name) {
                let message = format!("the topic `{name}` is named for something else of this flow");
                let help =
                    "name another topic; parked messages may share the dead letters' with `parking: same`";
                findings.error(codes::ONE_TOPIC, node.span.clone(), message, help.to_owned());
            }
        }
        #[cfg(feature = "kafka")]
        self.check_circles(kafka, findings);
    }

    /// The same with the topics that have their names from the flow, and with those of levels.
    #[cfg(feature = "kafka")]
    fn check_circles(&self, kafka: &KafkaAddress, findings: &mut Findings<'_>) {
        let Ok(flow) = crate::setup::named_on_kafka(self.config, self.name, self.flow, kafka) else { return };
        let named = self.named_places();
        for topic in &kafka.topics {
            // What is written out was told where it stands.
            let told = named.iter().any(|(_, name)| name == topic);
            let written = redrive_kafka::writes_into(&flow, topic).filter(|_| !told);
            if let (Some(what), Some(node)) = (written, self.node("from")) {
                let message = format!("the flow would write {what} to the topic `{topic}`, and reads it");
                let help = "give the flow another name, or its own topics other suffixes".to_owned();
                findings.error(codes::ONE_TOPIC, node.span.clone(), message, help);
            }
        }
        for (node, name) in named.into_iter().filter(|(_, name)| redrive_kafka::waits_in(&flow, name)) {
            let message = format!("in the topic `{name}` messages of this flow wait");
            findings.error(codes::ONE_TOPIC, node.span.clone(), message, "name another topic".to_owned());
        }
    }

    /// A transaction has one producer for all copies, so dead letters cannot have options of their own in one.
    #[cfg(feature = "kafka")]
    fn check_options(&self, findings: &mut Findings<'_>) {
        let Some(DeadLetter::Full(spec)) = &self.flow.dead_letter else { return };
        let own = spec.options.keys().find(|name| redrive_kafka::is_producer_option(name));
        let (Some(name), Some(node)) = (own, self.node("dead_letter")) else { return };
        if self.flow.settle == Some(Settle::Plain) {
            return;
        }
        let node = node.get("options").unwrap_or(node);
        let message =
            format!("`{name}` needs a producer of the dead letters' own, which a transaction cannot have");
        let help = "set it under the broker's `options`, or let the flow `settle: plain`".to_owned();
        findings.error(codes::NOT_OF_THIS_SOURCE, node.span.clone(), message, help);
    }
}

/// The names of a flow's consumer groups: main, retry, delay and ledger.
fn groups(name: &str, flow: &Flow, kafka: &KafkaAddress) -> [String; 4] {
    let group = kafka.group.as_deref().unwrap_or(name);
    flow.groups.clone().unwrap_or_default().named(group)
}

pub(super) fn is_topic(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&name.len()) && name.chars().all(allowed) && name != "." && name != ".."
}
