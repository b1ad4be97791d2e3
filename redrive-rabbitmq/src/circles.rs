//! A flow that writes into what it reads, or puts two kinds of things into one queue: each dead letter would come back as a
//! message, and be one again, without an end.

use std::collections::BTreeMap;

use redrive_engine::port::Refusal;

use crate::delay::Delays;
use crate::things::{self, Thing};
use crate::{RabbitFlow, names};

/// Refuses a flow whose queues are two things at once. `rejected` is where the events of rejections go.
pub fn refuse_circles(flow: &RabbitFlow, rejected: Option<&str>) -> Result<(), Refusal> {
    let delays = Delays::new(flow);
    let mut purposes: BTreeMap<String, &'static str> = BTreeMap::new();
    for thing in things::of(flow, &delays) {
        let Thing::Queue(queue) = thing else { continue };
        if let Some(other) = purposes.get(&queue.name) {
            return Err(Refusal::Invalid(format!(
                "the queue `{}` would be there for {other} and for {} at once; give the flow another name, or name another queue",
                queue.name, queue.purpose
            )));
        }
        purposes.insert(queue.name, queue.purpose);
    }
    let Some(rejected) = rejected else { return Ok(()) };
    let read = [names::back(flow), names::stray(flow)].into_iter().chain(delays.queues());
    if rejected == flow.queue || read.into_iter().any(|queue| queue == rejected) {
        return Err(Refusal::Invalid(format!(
            "rejections would go to the queue `{rejected}`, which the flow reads itself, without an end; name another queue for rejections"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Login, Parking};

    fn flow(queue: &str) -> RabbitFlow {
        let mut flow = RabbitFlow::new("orders", Login::new("localhost", 5672), queue);
        flow.steps = vec![Duration::from_secs(10)];
        flow.other_delays = Some((Duration::from_secs(1), Duration::from_secs(3_600)));
        flow
    }

    fn refused(flow: &RabbitFlow, rejected: Option<&str>) -> Option<String> {
        refuse_circles(flow, rejected).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn a_source_that_is_a_queue_of_the_flows_own_is_refused() {
        for (queue, what) in [
            ("orders.dlq", "dead letters"),
            ("orders.parking", "parked messages"),
            ("orders.resolved", "what people resolved"),
            ("orders.retry.10s", "messages that wait"),
            ("orders.retry.l17", "messages that wait"),
            ("orders.stray", "copies that found no way"),
        ] {
            let why = refused(&flow(queue), None).unwrap_or_else(|| panic!("{queue}"));
            assert!(why.contains(&format!("`{queue}`")) && why.contains(what), "{why}");
        }
    }

    #[test]
    fn what_is_written_beside_goes_nowhere_that_is_read() {
        let mut dead = flow("orders");
        dead.dead_letter.queue = "orders.retry.10s".to_owned();
        assert!(refused(&dead, None).is_some_and(|why| why.contains("dead letters")));
        let parked = RabbitFlow { parking: Parking::Queue("orders".to_owned()), ..flow("orders") };
        assert!(refused(&parked, None).is_some_and(|why| why.contains("parked messages")));
        for queue in ["orders", "orders.retry.10s", "orders.stray"] {
            let why = refused(&flow("orders"), Some(queue)).unwrap_or_else(|| panic!("{queue}"));
            assert!(why.contains("rejections"), "{why}");
        }
    }

    #[test]
    fn any_other_flow_is_none_of_this() {
        for queue in ["orders", "orders.retry.11s", "other.dlq"] {
            assert_eq!(refused(&flow(queue), Some("orders.rejected")), None, "{queue}");
        }
        let same = RabbitFlow { parking: Parking::Same, ..flow("orders") };
        assert_eq!(refused(&same, None), None);
    }
}
