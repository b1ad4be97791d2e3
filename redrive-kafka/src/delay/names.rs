//! The names of a flow's topics.

use redrive_core::route::Level;

use crate::{DelayMode, KafkaFlow, Parking};

/// The topic of a level: `<flow>.retry.10s`.
pub(crate) fn of_level(flow: &KafkaFlow, level: Level) -> String {
    format!("{}{}.{level}", flow.flow, flow.suffixes.retry)
}

/// The only retry topic of `single`: `<flow>-retry`, or with the suffix that was chosen instead of `.retry`.
pub(crate) fn single(flow: &KafkaFlow) -> String {
    let suffix = if flow.suffixes.retry == ".retry" { "-retry" } else { &flow.suffixes.retry };
    format!("{}{suffix}", flow.flow)
}

/// The level of a topic in which messages of the flow wait by some schedule; nothing where its name has none.
pub(crate) fn level_of(flow: &KafkaFlow, topic: &str) -> Option<Level> {
    let rest = topic.strip_prefix(&*flow.flow)?;
    [flow.suffixes.retry.as_str(), ".retry"]
        .into_iter()
        .find_map(|suffix| rest.strip_prefix(suffix)?.strip_prefix('.')?.parse().ok())
}

/// Whether a topic has the name of the only retry topic of `single`.
pub(crate) fn is_single(flow: &KafkaFlow, topic: &str) -> bool {
    let rest = topic.strip_prefix(&*flow.flow);
    rest.is_some_and(|rest| ["-retry", flow.suffixes.retry.as_str()].contains(&rest))
}

/// The topic of what people resolved: `<flow>.resolved`.
pub(crate) fn resolved(flow: &KafkaFlow) -> String {
    format!("{}{}", flow.flow, flow.suffixes.resolved)
}

/// Where parked messages go.
pub(crate) fn parking(flow: &KafkaFlow) -> &str {
    match &flow.parking {
        Parking::Same => &flow.dead_letter.topic,
        Parking::Topic(topic) => topic,
    }
}

/// Whether the flow has topics of its own to wait in.
pub(crate) fn waits_in_topics(flow: &KafkaFlow) -> bool {
    flow.delay != DelayMode::Ledger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_of_any_schedule_are_known_by_their_names() {
        let flow = KafkaFlow::new("orders", "", "orders", "w");
        let level = |topic: &str| level_of(&flow, topic).map(|level| level.to_string());
        assert_eq!(level("orders.retry.10s").as_deref(), Some("10s"));
        assert_eq!(level("orders.retry.75s").as_deref(), Some("75s"));
        for other in ["orders.retry", "orders.retry.soon", "orders.dlq", "other.retry.10s", "orders"] {
            assert_eq!(level(other), None, "{other}");
        }
        assert!(is_single(&flow, "orders-retry") && !is_single(&flow, "orders-retry-0"));
    }
}
