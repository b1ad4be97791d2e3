//! The waits that a flow's policies can ask its broker for: what is known of them before any message fails decides which
//! topics and queues there are.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::{Class, Handling, Jitter, Policy, Schedule, Timestamp};
use redrive_engine::handler::LONGEST_FORWARD;

use crate::config::{self, Flow};

/// Steps of one schedule that are looked at; a longer one repeats itself or goes on without end.
const MOST_STEPS: u32 = 64;

/// A day without anything special: what no calendar has a say in does not depend on it.
const NOW: Timestamp = Timestamp::from_millis(0);

fn schedules(policy: &Policy) -> impl Iterator<Item = &Schedule> {
    Class::ALL.iter().filter_map(|class| policy.schedule(Handling::Delayed, *class))
}

/// The waits of all delayed schedules, without jitter and each once, the shortest first. A calendar's depend on the day.
#[cfg(feature = "kafka")]
pub(super) fn nominal(policies: &[&Policy]) -> Vec<Duration> {
    let mut steps = BTreeSet::new();
    for policy in policies {
        for schedule in schedules(policy).filter(|schedule| !schedule.follows_calendar()) {
            let plain = schedule.clone().with_jitter(Jitter::None);
            let waits = (0..MOST_STEPS).map_while(|step| plain.range(step, policy.limits(), NOW));
            steps.extend(waits.map(|range| range.max).filter(|wait| !wait.is_zero()));
        }
    }
    steps.into_iter().collect()
}

/// What a policy asks for exactly, and what else it can ask for.
#[cfg(feature = "rabbitmq")]
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// The waits of the schedules without jitter, each once, the shortest first.
    pub(super) exact: Vec<Duration>,
    /// The shortest and the longest of all others: jitter, calendars, Retry-After, what a message may ask for itself.
    pub(super) others: (Duration, Duration),
}

/// The waits that these policies can ask for, with at most so many exact ones: the shortest, which come most often.
#[cfg(feature = "rabbitmq")]
pub(super) fn of(flow: &Flow, policies: &[&Policy], most_exact: usize) -> Waits {
    let mut exact = BTreeSet::new();
    let mut shortest = policies.iter().map(|policy| policy.retry_after().0).min().unwrap_or_default();
    for policy in policies {
        for schedule in schedules(policy) {
            let is_exact = schedule.jitter() == Jitter::None && !schedule.follows_calendar();
            let ranges = (0..MOST_STEPS).map_while(|step| schedule.range(step, policy.limits(), NOW));
            for range in ranges.filter(|range| !range.max.is_zero()) {
                if is_exact {
                    exact.insert(range.max);
                } else {
                    shortest = shortest.min(range.min);
                }
            }
        }
    }
    let exact: Vec<Duration> = exact.into_iter().take(most_exact).collect();
    let shortest = shortest.max(Duration::from_millis(1));
    Waits { exact, others: (shortest, longest(flow, policies).max(shortest)) }
}

/// The longest that a message can be asked to wait: by a schedule and its jitter, by a handler, by a message itself.
pub(super) fn longest(flow: &Flow, policies: &[&Policy]) -> Duration {
    let longest = policies.iter().map(|policy| policy.longest_delay()).max().unwrap_or_default();
    let forward = match &flow.to {
        config::Handler::Full(spec) => spec.forward.as_ref(),
        config::Handler::Address(_) => None,
    };
    match forward {
        Some(forward) => longest.max(forward.longest.map_or(LONGEST_FORWARD, |longest| longest.0)),
        None => longest,
    }
}
