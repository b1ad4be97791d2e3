//! What a flow on RabbitMQ says of its queues.

use std::collections::BTreeSet;

use super::OrderBy;
use super::finding::Findings;
use super::flow::{DelayMode, Settle};
use super::flow_checks::Checked;
use super::queue::QueueKind;
use crate::address::{AmqpAddress, SourceAddress};
use crate::codes;

impl Checked<'_> {
    pub(super) fn check_rabbitmq(&self, rabbit: &AmqpAddress, findings: &mut Findings<'_>) {
        self.check_queues(rabbit, findings);
        self.check_one_reader(rabbit, findings);
        self.check_nack(findings);
        self.check_stream(findings);
    }

    /// A queue that is read and written by one flow goes round in circles.
    fn check_queues(&self, rabbit: &AmqpAddress, findings: &mut Findings<'_>) {
        let source = rabbit.queue.as_deref().unwrap_or_default();
        if let (false, Some(node)) = (is_queue(source), self.node("from")) {
            wrong_name(node.span.clone(), source, findings);
        }
        let own = self.own_queues();
        if let (Some(name), Some(node)) = (own.iter().find(|name| *name == source), self.node("from")) {
            let message = format!("the flow would make the queue `{name}` for itself, and reads it");
            findings.error(codes::ONE_QUEUE, node.span.clone(), message, "rename the flow".to_owned());
        }
        let mut taken: BTreeSet<&str> = own.iter().map(String::as_str).chain([source]).collect();
        for (node, name) in self.named_places() {
            if !is_queue(name) {
                wrong_name(node.span.clone(), name, findings);
            } else if !taken.insert(name) {
                let message = format!("the queue `{name}` is named for something else of this flow");
                let help =
                    "name another queue; parked messages may share the dead letters' with `parking: same`";
                findings.error(codes::ONE_QUEUE, node.span.clone(), message, help.to_owned());
            }
        }
        if let Some(node) = self.at(&["dead_letter", "partition"]) {
            let message = "a rabbitmq source has no `dead_letter.partition`";
            let help = "leave it out; a queue has no partitions".to_owned();
            findings.error(codes::NOT_OF_THIS_SOURCE, node.span.clone(), message, help);
        }
    }

    /// The queues that the flow makes for itself and does not name.
    fn own_queues(&self) -> Vec<String> {
        let written = self.flow.suffixes.as_ref().or(self.config.suffixes.as_ref());
        let written = written.cloned().unwrap_or_default();
        let dead = self.flow.dead_letter_spec().name.is_none();
        let parking = self.flow.parking.is_none();
        let all = [
            (true, written.retry, ".retry"),
            (true, written.stray, ".stray"),
            (true, None, ".resolved"),
            (dead, written.dead_letter, ".dlq"),
            (parking, written.parking, ".parking"),
        ];
        let usual = all.into_iter().filter(|(is_usual, ..)| *is_usual);
        usual
            .map(|(_, suffix, usual)| format!("{}{}", self.name, suffix.as_deref().unwrap_or(usual)))
            .collect()
    }

    /// Two flows that read one queue would each get a share of what both need.
    fn check_one_reader(&self, rabbit: &AmqpAddress, findings: &mut Findings<'_>) {
        let Some(node) = self.node("from") else { return };
        let earlier = self.config.flows.iter().take_while(|(name, _)| name.as_str() < self.name);
        for (name, other) in earlier {
            let Ok(SourceAddress::Amqp(address)) = other.from.parse() else { continue };
            let place = |at: &AmqpAddress| (at.host.clone(), at.port, at.vhost.clone(), at.queue.clone());
            if place(&address) == place(rabbit) {
                let message = format!("the flow `{name}` reads that queue too");
                let help = "give each flow a queue of its own; an exchange can fill both".to_owned();
                findings.error(codes::ONE_QUEUE, node.span.clone(), message, help);
            }
        }
    }

    /// With `settle: nack` the queue's own dead-letter exchange takes what is to be tried again, and nothing of Redrive's
    /// travels along.
    fn check_nack(&self, findings: &mut Findings<'_>) {
        let dead_letter = self.flow.dead_letter_spec();
        let nack = self.flow.settle == Some(Settle::Nack);
        let rejects = dead_letter.reject == Some(true);
        if let (true, false, Some(node)) = (rejects, nack, self.at(&["dead_letter", "reject"])) {
            let message = "`dead_letter.reject` goes with `settle: nack` alone";
            let help = "leave it out, or settle with nack".to_owned();
            findings.error(codes::CONTRADICTION, node.span.clone(), message, help);
        }
        if !nack {
            return;
        }
        let ordered = self.flow.order_by.as_ref().is_some_and(|order| *order != OrderBy::None);
        let owned = self.flow.queue.as_ref().is_some_and(|queue| queue.owned == Some(true));
        let given = [
            (ordered, &["order_by"][..], "a lane is known by what Redrive writes on a copy"),
            (
                self.flow.delay.is_some(),
                &["delay"],
                "the queue's own dead-letter exchange decides where it waits",
            ),
            (
                owned,
                &["queue", "owned"],
                "a queue that the flow makes has no dead-letter exchange, and what is rejected would be gone",
            ),
            (
                dead_letter.adopt == Some(true),
                &["dead_letter", "adopt"],
                "there is no ledger that could take it in",
            ),
            (!self.flow.foreign.is_empty(), &["foreign"], "there is no ledger that could take it in"),
            (
                self.flow.signing.is_some(),
                &["signing"],
                "what is rejected carries nothing that could be signed",
            ),
        ];
        self.refuse_given(&given, "settle: nack", "settle with republish", findings);
        let there = "the queue's own dead-letter exchange takes it";
        let given = [
            (dead_letter.name.is_some(), &["dead_letter", "name"][..], there),
            (dead_letter.format.is_some(), &["dead_letter", "format"], there),
            (!dead_letter.options.is_empty(), &["dead_letter", "options"], there),
            (self.flow.parking.is_some(), &["parking"], there),
        ];
        let given = given.map(|(is_given, path, why)| (rejects && is_given, path, why));
        self.refuse_given(&given, "dead_letter.reject", "leave `dead_letter.reject` out", findings);
    }

    /// Says of keys that are given why they do not go with another.
    fn refuse_given(
        &self,
        given: &[(bool, &[&str], &str)],
        with: &str,
        instead: &str,
        findings: &mut Findings<'_>,
    ) {
        for (_, path, why) in given.iter().filter(|(is_given, ..)| *is_given) {
            let Some(node) = self.at(path) else { continue };
            let key = path.join(".");
            let message = format!("`{key}` does not go with `{with}`: {why}");
            let help = format!("leave `{key}` out, or {instead}");
            findings.error(codes::CONTRADICTION, node.span.clone(), message, help);
        }
    }

    /// A stream keeps what was read, so nothing can be rejected, and nobody stands by.
    fn check_stream(&self, findings: &mut Findings<'_>) {
        let Some(queue) = self.flow.queue.as_ref().filter(|queue| queue.kind == Some(QueueKind::Stream))
        else {
            return;
        };
        let given = [
            (
                self.flow.settle == Some(Settle::Nack),
                &["settle"][..],
                "nothing can be rejected from a stream",
            ),
            (
                queue.single_active == Some(true),
                &["queue", "single_active"],
                "every reader of a stream gets all",
            ),
            (
                self.flow.delay == Some(DelayMode::DelayedExchange),
                &["delay"],
                "an exchange does not lead back to it",
            ),
        ];
        for (_, path, why) in given.into_iter().filter(|(is_given, ..)| *is_given) {
            let Some(node) = self.at(path) else { continue };
            let key = path.join(".");
            let message = format!("`{key}` does not go with a stream: {why}");
            findings.error(codes::CONTRADICTION, node.span.clone(), message, format!("leave `{key}` out"));
        }
    }
}

fn wrong_name(span: std::ops::Range<usize>, name: &str, findings: &mut Findings<'_>) {
    let help = "use 1 to 255 bytes without white space, not beginning with `amq.`".to_owned();
    let message = format!("`{}` is no name of a queue", super::structure::shown(name));
    findings.error(codes::WRONG_TEXT, span, message, help);
}

/// RabbitMQ keeps `amq.` for itself, and a short string has a length of one byte.
pub(super) fn is_queue(name: &str) -> bool {
    let readable = !name.contains(|c: char| c.is_whitespace() || c.is_control());
    (1..=255).contains(&name.len()) && readable && !name.starts_with("amq.")
}
