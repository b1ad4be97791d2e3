//! The names of a flow's queues and exchanges.

use std::time::Duration;

use redrive_core::duration::print;

use crate::{Parking, QueueKind, RabbitFlow};

/// The exchange that every copy passes last: bound to the source.
pub(crate) fn retry(flow: &RabbitFlow) -> String {
    format!("{}{}", flow.flow, flow.suffixes.retry)
}

/// The queue in which copies are handed out again: the source, but never a stream, which others read, too.
pub(crate) fn back(flow: &RabbitFlow) -> String {
    if flow.kind == QueueKind::Stream { retry(flow) } else { flow.queue.clone() }
}

/// The queue of one exact wait.
pub(crate) fn step(flow: &RabbitFlow, wait: Duration) -> String {
    format!("{}.{}", retry(flow), print(wait))
}

/// The exchange that waits through levels begin at.
pub(crate) fn levels(flow: &RabbitFlow) -> String {
    format!("{}.levels", retry(flow))
}

/// The queue of one level, and the exchange behind it.
pub(crate) fn level(flow: &RabbitFlow, level: u32) -> String {
    format!("{}.l{level:02}", retry(flow))
}

/// The exchange of the delayed-message plug-in.
pub(crate) fn delayed(flow: &RabbitFlow) -> String {
    format!("{}.delayed", retry(flow))
}

/// The queue of copies that found no way, and the exchange in front of it.
pub(crate) fn stray(flow: &RabbitFlow) -> String {
    format!("{}{}", flow.flow, flow.suffixes.stray)
}

/// The queue that stands for the place of the one who reads alone.
pub(crate) fn place(flow: &RabbitFlow) -> String {
    format!("{}.alone", flow.queue)
}

/// The queue of parked messages.
pub(crate) fn parking(flow: &RabbitFlow) -> &str {
    match &flow.parking {
        Parking::Same => &flow.dead_letter.queue,
        Parking::Queue(queue) => queue,
    }
}

/// The queue of what people resolved.
pub(crate) fn resolved(flow: &RabbitFlow) -> String {
    format!("{}.resolved", flow.flow)
}
