//! What is counted about RabbitMQ itself.

use metrics::{counter, gauge};

/// A connection was made again.
pub(crate) fn reconnected(flow: &str) {
    counter!("redrive_rabbitmq_reconnects_total", "flow" => flow.to_owned()).increment(1);
}

/// Whether the broker reads nothing because it is short of memory or disk.
pub(crate) fn blocked(flow: &str, blocked: bool) {
    gauge!("redrive_rabbitmq_blocked", "flow" => flow.to_owned()).set(f64::from(u8::from(blocked)));
}

/// A copy that no queue took.
pub(crate) fn returned(flow: &str) {
    counter!("redrive_rabbitmq_returned_total", "flow" => flow.to_owned()).increment(1);
}

/// A copy that the broker did not take.
pub(crate) fn nacked(flow: &str) {
    counter!("redrive_rabbitmq_nacked_total", "flow" => flow.to_owned()).increment(1);
}

/// How much lies in a queue, ready to be handed out.
pub(crate) fn depth(flow: &str, queue: &str, messages: u64) {
    let labels = [("flow", flow.to_owned()), ("queue", queue.to_owned())];
    gauge!("redrive_rabbitmq_queue_messages", &labels).set(messages as f64);
}

/// How many copies the broker keeps back.
pub(crate) fn stuck(flow: &str, copies: usize) {
    gauge!("redrive_rabbitmq_stuck", "flow" => flow.to_owned()).set(copies as f64);
}
