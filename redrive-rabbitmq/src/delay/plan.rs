//! The way of a due time: through the queue of its step, through levels, or by the plug-in.

use std::time::Duration;

use redrive_core::Timestamp;

use super::levels::{self, Levels};
use crate::{DelayMode, RabbitFlow, names};

/// Settling takes a moment: a step that is longer by so much is still the one that was meant.
const SLACK: Duration = Duration::from_millis(10);
/// The longest delay that the plug-in takes.
const LONGEST_BY_PLUGIN: u64 = 4_294_967_295;

/// Where a copy that waits is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The exchange; the default one has no name.
    pub(crate) exchange: String,
    /// The routing key.
    pub(crate) key: String,
    /// The queue in which it waits first.
    pub(crate) queue: String,
    /// The milliseconds that the plug-in is told; with it a copy cannot be asked to be returned.
    pub(crate) by_plugin: Option<u64>,
}

/// How the messages of a flow wait.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    flow: RabbitFlow,
    /// The steps, the shortest first.
    steps: Vec<Duration>,
    levels: Option<Levels>,
}

impl Delays {
    /// As the flow chose.
    pub(crate) fn new(flow: &RabbitFlow) -> Self {
        let mut steps: Vec<Duration> =
            flow.steps.iter().copied().filter(|step| !step.is_zero() && levels_take(*step)).collect();
        steps.sort_unstable();
        steps.dedup();
        let has_steps = flow.waits() && matches!(flow.delay, DelayMode::Cascade | DelayMode::Ring);
        if !has_steps {
            steps.clear();
        }
        let (shortest, longest) = flow.other_delays.unwrap_or_default();
        // A step that no queue holds in one go needs levels, as any other delay does.
        let too_long = flow.steps.iter().copied().filter(|step| !levels_take(*step)).max();
        let longest = too_long.map_or(longest, |step| step.max(longest));
        let wanted = flow.waits() && flow.delay == DelayMode::Cascade && !longest.is_zero();
        let shortest = if shortest.is_zero() { longest.min(Duration::from_millis(100)) } else { shortest };
        let levels = wanted.then(|| Levels::reaching(shortest, longest));
        Self { flow: flow.clone(), steps, levels }
    }

    /// The steps that have a queue of their own.
    pub(crate) fn steps(&self) -> &[Duration] {
        &self.steps
    }

    /// The levels, when there are any.
    pub(crate) fn levels(&self) -> Option<Levels> {
        self.levels
    }

    /// The queues in which messages wait.
    pub(crate) fn queues(&self) -> Vec<String> {
        let steps = self.steps.iter().map(|step| names::step(&self.flow, *step));
        let levels = self.levels.into_iter().flat_map(Levels::all);
        steps.chain(levels.map(|level| names::level(&self.flow, level))).collect()
    }

    /// How long after its due time a copy is back at the latest, as far as its way is to blame.
    pub(crate) fn latest(&self) -> Duration {
        let longest = self.steps.last().copied().unwrap_or_default();
        match self.levels {
            Some(levels) => levels.latest().max(longest * 3 / 100 + SLACK),
            // The smallest step that is long enough may be much longer than the wait.
            None => longest,
        }
    }

    /// The way of a message that is due then; nothing when the broker does not delay.
    pub(crate) fn way(&self, due: Timestamp, now: Timestamp) -> Option<Way> {
        if !self.flow.waits() {
            return None;
        }
        let wait = due.since(now);
        if self.flow.delay == DelayMode::DelayedExchange {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(LONGEST_BY_PLUGIN);
            let exchange = names::delayed(&self.flow);
            let queue = exchange.clone();
            return Some(Way { exchange, key: String::new(), queue, by_plugin: Some(millis) });
        }
        if wait.is_zero() {
            let queue = names::back(&self.flow);
            return Some(Way {
                exchange: names::retry(&self.flow),
                key: String::new(),
                queue,
                by_plugin: None,
            });
        }
        let fits = |step: &&Duration| **step >= wait && step.saturating_sub(wait) <= **step * 3 / 100 + SLACK;
        let long_enough = |step: &&Duration| **step >= wait;
        match self.levels {
            Some(levels) => match self.steps.iter().find(fits) {
                Some(step) => Some(self.by_step(*step)),
                None => Some(self.by_levels(levels, wait)),
            },
            None => {
                let step = self.steps.iter().find(long_enough).or(self.steps.last());
                step.map(|step| self.by_step(*step))
            }
        }
    }

    fn by_step(&self, step: Duration) -> Way {
        let queue = names::step(&self.flow, step);
        Way { exchange: String::new(), key: queue.clone(), queue, by_plugin: None }
    }

    fn by_levels(&self, levels: Levels, wait: Duration) -> Way {
        let trip = levels.trip(wait);
        let queue = match trip.first() {
            Some(level) => names::level(&self.flow, level),
            None => names::back(&self.flow),
        };
        let begin = if trip.first().is_some() { names::levels } else { names::retry };
        let exchange = begin(&self.flow);
        Way { exchange, key: trip.key(), queue, by_plugin: None }
    }
}

/// Whether one queue can hold a message for so long.
fn levels_take(wait: Duration) -> bool {
    wait.as_millis() < u128::from(levels::stay(32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Login;

    fn flow() -> RabbitFlow {
        let mut flow = RabbitFlow::new("orders", Login::new("localhost", 5672), "orders");
        flow.steps = vec![Duration::from_secs(60), Duration::from_secs(10)];
        flow
    }

    fn way(flow: &RabbitFlow, millis: i64) -> Way {
        let now = Timestamp::from_millis(1_000_000);
        let due = Timestamp::from_millis(1_000_000 + millis);
        Delays::new(flow).way(due, now).expect("a way")
    }

    #[test]
    fn a_step_is_one_hop_also_when_settling_took_a_moment() {
        for millis in [10_000, 9_990, 9_700] {
            let way = way(&flow(), millis);
            assert_eq!((way.exchange.as_str(), way.key.as_str()), ("", "orders.retry.10s"), "{millis}");
        }
        for millis in [10_001, 9_000] {
            let way = way(&flow(), millis);
            assert_eq!(
                (way.exchange.as_str(), way.queue.as_str()),
                ("orders.retry.levels", "orders.retry.l13")
            );
        }
    }

    #[test]
    fn a_ring_takes_the_smallest_that_is_long_enough() {
        let ring = RabbitFlow { delay: DelayMode::Ring, ..flow() };
        assert_eq!(way(&ring, 1).key, "orders.retry.10s");
        assert_eq!(way(&ring, 10_001).key, "orders.retry.1m");
        assert_eq!(way(&ring, 90_000).key, "orders.retry.1m", "and goes round again");
    }

    #[test]
    fn what_is_due_goes_straight_to_the_source() {
        let way = way(&flow(), -5);
        assert_eq!((way.exchange.as_str(), way.queue.as_str()), ("orders.retry", "orders"));
    }

    #[test]
    fn without_a_place_to_wait_there_is_no_way() {
        let none = RabbitFlow { delay: DelayMode::Ledger, ..flow() };
        let now = Timestamp::from_millis(0);
        assert_eq!(Delays::new(&none).way(Timestamp::from_millis(5), now), None);
    }

    #[test]
    fn a_step_that_no_queue_holds_has_levels() {
        let mut long = flow();
        long.steps = vec![Duration::from_secs(60 * 86_400)];
        long.other_delays = None;
        let delays = Delays::new(&long);
        assert!(delays.steps().is_empty());
        assert_eq!(delays.levels().expect("levels").all().next(), Some(31));
    }
}
