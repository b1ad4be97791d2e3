//! A flow that writes into what it reads: each dead letter would come back as a message, and be one again, without an end.

use redrive_engine::port::Refusal;

use crate::delay::names;
use crate::{DelayMode, KafkaFlow};

/// What a flow puts into this topic itself; nothing for a topic that it does not write to.
pub fn writes_into(flow: &KafkaFlow, topic: &str) -> Option<&'static str> {
    if topic == flow.dead_letter.topic {
        Some("dead letters")
    } else if topic == names::parking(flow) {
        Some("parked messages")
    } else if topic == names::resolved(flow) {
        Some("what people resolved")
    } else {
        waits_in(flow, topic).then_some("messages that wait")
    }
}

/// Whether messages of the flow wait in a topic of this name. Levels are known by any schedule, since those of an earlier
/// one are found and read by their names.
pub fn waits_in(flow: &KafkaFlow, topic: &str) -> bool {
    let single = flow.delay == DelayMode::Single && topic == names::single(flow);
    single || names::level_of(flow, topic).is_some()
}

/// Refuses a flow that would write into a topic that it reads: its source, or one in which messages wait. `rejected` is
/// where the events of rejections go.
pub fn refuse_circles(flow: &KafkaFlow, rejected: Option<&str>) -> Result<(), Refusal> {
    for topic in &flow.topics {
        if let Some(what) = writes_into(flow, topic) {
            return Err(Refusal::Invalid(format!(
                "the flow reads the topic `{topic}` and would write {what} to it, which it would read again without an end; give the flow another name, or its own topics other suffixes"
            )));
        }
    }
    let read = |topic: &str| waits_in(flow, topic) || flow.topics.iter().any(|own| own == topic);
    let resolved = names::resolved(flow);
    let written = [
        ("dead letters", Some(flow.dead_letter.topic.as_str())),
        ("parked messages", Some(names::parking(flow))),
        ("what people resolved", Some(resolved.as_str())),
        ("rejections", rejected),
    ];
    for (what, topic) in written {
        if let Some(topic) = topic.filter(|topic| read(topic)) {
            return Err(Refusal::Invalid(format!(
                "{what} would go to the topic `{topic}`, which the flow reads itself, without an end; name another topic for {what}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redrive_engine::port::{Broker as _, PortError, Subscription};

    use super::*;
    use crate::{KafkaBroker, Parking};

    fn flow(topic: &str) -> KafkaFlow {
        KafkaFlow::new("orders", "", topic, "w")
    }

    fn refused(flow: &KafkaFlow, rejected: Option<&str>) -> Option<String> {
        refuse_circles(flow, rejected).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn a_source_that_has_a_name_of_the_flows_own_is_refused_whatever_the_schedule() {
        for (topic, what) in [
            ("orders.dlq", "dead letters"),
            ("orders.parking", "parked messages"),
            ("orders.resolved", "what people resolved"),
            ("orders.retry.10s", "messages that wait"),
            ("orders.retry.17m", "messages that wait"),
        ] {
            for delay in [DelayMode::Cascade, DelayMode::Single, DelayMode::Ledger] {
                let mut one = flow("orders");
                one.topics.push(topic.to_owned());
                one.delay = delay;
                let why = refused(&one, None).unwrap_or_else(|| panic!("{topic}"));
                assert!(why.contains(&format!("`{topic}`")) && why.contains(what), "{why}");
            }
        }
        let single = KafkaFlow { delay: DelayMode::Single, ..flow("orders-retry") };
        assert!(refused(&single, None).is_some_and(|why| why.contains("`orders-retry`")));
        let mut own = flow("orders.done");
        own.suffixes.resolved = ".done".to_owned();
        assert!(refused(&own, None).is_some_and(|why| why.contains("what people resolved")));
        let mut own = flow("orders.later.10s");
        own.suffixes.retry = ".later".to_owned();
        assert!(refused(&own, None).is_some_and(|why| why.contains("messages that wait")));
    }

    #[test]
    fn what_is_written_beside_goes_nowhere_that_is_read() {
        for (topic, delay) in [("orders.retry.10s", DelayMode::Cascade), ("orders-retry", DelayMode::Single)]
        {
            let usual = KafkaFlow { delay, ..flow("orders") };
            let mut dead = usual.clone();
            dead.dead_letter.topic = topic.to_owned();
            assert!(refused(&dead, None).is_some_and(|why| why.contains("dead letters")), "{topic}");
            let parked = KafkaFlow { parking: Parking::Topic(topic.to_owned()), ..usual.clone() };
            assert!(refused(&parked, None).is_some_and(|why| why.contains("parked")), "{topic}");
            assert!(refused(&usual, Some(topic)).is_some_and(|why| why.contains("rejections")), "{topic}");
        }
        let why = refused(&flow("orders"), Some("orders")).unwrap();
        assert!(why.contains("rejections would go to the topic `orders`"), "{why}");
    }

    #[test]
    fn any_other_flow_is_none_of_this() {
        for topic in
            ["orders", "orders.retry", "orders.retry.soon", "other.dlq", "orders-retry", "orders.DLT"]
        {
            assert_eq!(refused(&flow(topic), Some("orders.rejected")), None, "{topic}");
        }
        // A flow that has the topic's own name.
        let own = KafkaFlow::new("orders.dlq", "", "orders.dlq", "w");
        assert_eq!(refused(&own, None), None);
        let same = KafkaFlow { parking: Parking::Same, ..flow("orders") };
        assert_eq!(refused(&same, None), None);
    }

    #[tokio::test]
    async fn such_a_flow_is_neither_planned_nor_read() {
        let flow = KafkaFlow::new("orders", "k:9092", "orders.dlq", "w");
        let broker = KafkaBroker::new(flow).unwrap();
        let subscription = Subscription::new("orders", "orders.dlq");
        let planned = broker.plan(&subscription).await.map(drop);
        for refused in [planned, broker.subscribe(&subscription).await.map(drop)] {
            assert!(matches!(refused, Err(PortError::Refused(Refusal::Invalid(_)))), "{refused:?}");
        }
    }
}
