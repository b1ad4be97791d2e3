//! What one kind of source has and another has not.

use super::finding::Findings;
use super::flow::{DeadLetter, Settle};
use super::flow_checks::Checked;
use super::tree::Node;
use crate::address::{AmqpAddress, SourceAddress};
use crate::codes;

/// Keys that not every source has, and whose they are.
const OWNED: [(&[&str], &[&str]); 9] = [
    (&["settle"], &["kafka", "rabbitmq"]),
    (&["groups"], &["kafka"]),
    (&["kafka"], &["kafka"]),
    (&["foreign"], &["kafka", "rabbitmq"]),
    (&["queue"], &["rabbitmq"]),
    (&["confirm_timeout"], &["rabbitmq"]),
    (&["dead_letter", "adopt"], &["rabbitmq"]),
    (&["dead_letter", "reject"], &["rabbitmq"]),
    (&["suffixes", "stray"], &["rabbitmq"]),
];

impl Checked<'_> {
    pub(super) fn check_source_settings(&self, source: &SourceAddress, findings: &mut Findings<'_>) {
        let kind = source.kind();
        for (path, owners) in OWNED {
            let Some(node) = self.at(path).filter(|_| !owners.contains(&kind)) else { continue };
            let key = path.join(".");
            let names: Vec<_> = owners.iter().map(|owner| spoken(owner)).collect();
            let message = format!("a {kind} source has no `{key}`");
            let have = if names.len() == 1 { "alone has it" } else { "alone have it" };
            let help = format!("leave `{key}` out; {} {have}", names.join(" and "));
            findings.error(codes::NOT_OF_THIS_SOURCE, node.span.clone(), message, help);
        }
        self.check_settle(kind, findings);
        match source {
            SourceAddress::Kafka(address) => self.check_kafka(address, findings),
            SourceAddress::Amqp(address) => self.check_rabbitmq(address, findings),
            SourceAddress::Queue(_) | SourceAddress::Postgres(_) => {}
        }
    }

    /// Each broker ends deliveries in its own ways.
    fn check_settle(&self, kind: &str, findings: &mut Findings<'_>) {
        let (Some(settle), Some(node)) = (self.flow.settle, self.node("settle")) else { return };
        let (owner, known) = match settle {
            Settle::Transactional | Settle::Plain => ("kafka", "republish or nack"),
            Settle::Republish | Settle::Nack => ("rabbitmq", "transactional or plain"),
        };
        if owner != kind && matches!(kind, "kafka" | "rabbitmq") {
            let message = format!("{kind} has no such way to settle");
            let help = format!("choose {known}, or leave `settle` out");
            findings.error(codes::NOT_OF_THIS_SOURCE, node.span.clone(), message, help);
        }
    }

    /// What stands at a path below the flow.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Node> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.node(first)?, |node, key| node.get(key))
    }

    /// The topics or queues that the flow names beside its source, and where it does.
    pub(super) fn named_places(&self) -> Vec<(&Node, &str)> {
        let mut named: Vec<(&Node, &str)> = Vec::new();
        let dead = match self.flow.dead_letter.as_ref() {
            Some(DeadLetter::Name(name)) => Some(name.as_str()),
            Some(DeadLetter::Full(spec)) => spec.name.as_deref(),
            None => None,
        };
        let node = self.node("dead_letter").map(|node| node.get("name").unwrap_or(node));
        named.extend(node.zip(dead));
        let parking = self.flow.parking.as_deref().filter(|name| *name != "same");
        named.extend(self.node("parking").zip(parking));
        let foreign = self.node("foreign").map_or(&[][..], Node::items);
        named.extend(foreign.iter().filter_map(|node| node.text().map(|name| (node, name))));
        named
    }
}

/// A rejection that comes back as a message is rejected again.
pub(super) fn check_rejected(
    node: &Node,
    source: &SourceAddress,
    target: &SourceAddress,
    findings: &mut Findings<'_>,
) {
    let (code, what, same) = match (source, target) {
        (SourceAddress::Queue(source), SourceAddress::Queue(target)) => {
            (codes::ONE_QUEUE, "queue", (source == target).then_some(target.as_str()))
        }
        (SourceAddress::Kafka(source), SourceAddress::Kafka(target)) => {
            let read = target.topics.iter().find(|topic| source.topics.contains(topic));
            (codes::ONE_TOPIC, "topic", read.filter(|_| source.hosts == target.hosts).map(String::as_str))
        }
        (SourceAddress::Amqp(source), SourceAddress::Amqp(target)) => {
            let place = |at: &AmqpAddress| (at.host.clone(), at.port, at.vhost.clone(), at.queue.clone());
            let same = place(source) == place(target);
            (codes::ONE_QUEUE, "queue", target.queue.as_deref().filter(|_| same))
        }
        _ => return,
    };
    let Some(name) = same else { return };
    let message = format!("rejections would go to the {what} `{name}`, which the flow reads");
    findings.error(code, node.span.clone(), message, format!("name another {what}"));
}

fn spoken(kind: &str) -> &str {
    match kind {
        "kafka" => "Kafka",
        "rabbitmq" => "RabbitMQ",
        other => other,
    }
}
