//! Where a flow that forwards may send to.

use super::finding::Findings;
use super::flow_checks::Checked;
use super::handler::Handler;
use super::kafka_checks::is_topic;
use super::rabbitmq_checks::is_queue;
use super::tree::Node;
use crate::address::SourceAddress;
use crate::codes;

impl Checked<'_> {
    /// Targets are queues or topics of the flow's own broker, by their names.
    pub(super) fn check_forward(&self, source: &SourceAddress, findings: &mut Findings<'_>) {
        let Handler::Full(spec) = &self.flow.to else { return };
        let (Some(forward), Some(node)) = (&spec.forward, self.node("to")) else { return };
        let node = node.get("forward").unwrap_or(node);
        let targets = node.get("allow").map_or(&[][..], Node::items);
        if forward.allow.is_empty() && targets.is_empty() {
            let help =
                "name the queues or topics that messages may ask for, such as orders.due or `orders.*`";
            let message = "a flow that forwards to nowhere parks everything";
            findings.error(codes::FORWARD_TARGETS, node.span.clone(), message, help.to_owned());
        }
        for target in targets {
            let Some(text) = target.text() else { continue };
            let bare = match source {
                SourceAddress::Queue(_) => text.strip_prefix("queue:").unwrap_or(text),
                _ => text,
            };
            let beginning = bare.strip_suffix('*').unwrap_or(bare);
            let is_name = match source {
                SourceAddress::Amqp(_) => is_queue(beginning) && !beginning.contains("://"),
                _ => is_topic(beginning),
            };
            let fits = beginning.is_empty() && bare == "*" || is_name;
            if !fits {
                let text = super::structure::shown(text);
                let message = format!("`{text}` is no name of a queue or topic of the flow's own broker");
                let help = "name it without an address: orders.due, or `orders.*` for all that begin so";
                findings.error(codes::FORWARD_TARGETS, target.span.clone(), message, help.to_owned());
            }
        }
    }
}
