//! Where a message waits next, and until when it waits where it is.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redrive_core::headers::Trail;
use redrive_core::route::{Level, MAX_HOPS};
use redrive_core::{Text, Timestamp};
use redrive_engine::port::Carried;

use super::ladder::Ladder;
use super::names;
use crate::{DelayMode, KafkaFlow};

/// A due time that a header names is believed as far as the policy's longest delay, and at least so far.
const BELIEVED: Duration = Duration::from_secs(7 * 86_400);

/// How a flow's messages wait in topics.
#[derive(Debug)]
pub(crate) struct Delays {
    mode: DelayMode,
    ladder: Ladder,
    /// The topic of each level, shortest first.
    topics: Vec<(Level, Arc<str>)>,
    levels: HashMap<Arc<str>, Level>,
    /// Topics in which messages still wait by an earlier schedule or mode, once they were looked for.
    earlier: OnceLock<HashMap<Arc<str>, Option<Level>>>,
    single: Arc<str>,
    /// How far a due time is believed.
    believed: Duration,
    /// What a record waits that names no due time, where its topic has no level.
    unnamed: Duration,
}

/// The next topic of a way, and the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// The topics after it, separated by commas.
    pub(crate) rest: Option<Text>,
}

/// What becomes of a waiting record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stay {
    /// Until when it stays where it is.
    pub(crate) until: Timestamp,
    /// Whether it is due then; else it moves on.
    pub(crate) last: bool,
}

impl Delays {
    /// How this flow's messages wait.
    pub(crate) fn new(flow: &KafkaFlow) -> Self {
        let ladder = Ladder::new(&flow.steps, flow.longest_delay);
        let topics: Vec<(Level, Arc<str>)> = match flow.delay {
            DelayMode::Cascade | DelayMode::Tiered | DelayMode::Pointer => {
                ladder.levels().iter().map(|level| (*level, names::of_level(flow, *level).into())).collect()
            }
            DelayMode::Single | DelayMode::Ledger => Vec::new(),
        };
        let levels = topics.iter().map(|(level, topic)| (Arc::clone(topic), *level)).collect();
        Self {
            mode: flow.delay,
            topics,
            levels,
            earlier: OnceLock::new(),
            single: names::single(flow).into(),
            believed: BELIEVED.max(flow.longest_delay.saturating_mul(2)),
            unnamed: ladder.levels()[0].duration(),
            ladder,
        }
    }

    /// The topics in which messages wait, each with the time that a record of it waits there at most, where that is fixed.
    pub(crate) fn topics(&self) -> Vec<(Arc<str>, Option<Duration>)> {
        match self.mode {
            DelayMode::Single => vec![(Arc::clone(&self.single), None)],
            _ => {
                self.topics.iter().map(|(level, topic)| (Arc::clone(topic), Some(level.duration()))).collect()
            }
        }
    }

    /// Which of these topics messages of the flow may have waited in by another schedule or mode than today's, each with
    /// its level.
    pub(crate) fn of_earlier<'a>(
        &self,
        flow: &KafkaFlow,
        topics: impl Iterator<Item = &'a str>,
    ) -> Vec<(Arc<str>, Option<Level>)> {
        let waited = |topic: &str| names::level_of(flow, topic).is_some() || names::is_single(flow, topic);
        let earlier = topics.filter(|topic| !self.waits_in(topic) && waited(topic));
        earlier.map(|topic| (Arc::from(topic), names::level_of(flow, topic))).collect()
    }

    /// Messages are read from these topics too, until nothing is in them. Said once.
    pub(crate) fn read_also(&self, earlier: impl IntoIterator<Item = (Arc<str>, Option<Level>)>) {
        let _ = self.earlier.set(earlier.into_iter().collect());
    }

    /// The topics that [`read_also`](Self::read_also) named.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = Arc<str>> {
        self.earlier.get().into_iter().flat_map(HashMap::keys).cloned()
    }

    fn level_of(&self, topic: &str) -> Option<Level> {
        let earlier = || *self.earlier.get()?.get(topic)?;
        self.levels.get(topic).copied().or_else(earlier)
    }

    /// The longest time that a record of the topic can wait in it.
    pub(crate) fn longest_in(&self, topic: &str) -> Duration {
        self.levels.get(topic).map_or(self.believed, |level| level.duration() + Ladder::slack(*level))
    }

    /// The shortest time that a record of the topic waits in it: what is read behind one that was appended at a time
    /// comes due so much later at the earliest.
    pub(crate) fn least_in(&self, topic: &str) -> Duration {
        match (self.mode, self.levels.get(topic)) {
            (DelayMode::Cascade | DelayMode::Pointer, Some(level)) => Ladder::least_wait(*level),
            (DelayMode::Tiered, Some(level)) => self.ladder.shorter(*level),
            _ => Duration::ZERO,
        }
    }

    /// Whether messages of the flow wait in this topic.
    pub(crate) fn waits_in(&self, topic: &str) -> bool {
        self.levels.contains_key(topic)
            || (self.mode == DelayMode::Single && *topic == *self.single)
            || self.earlier.get().is_some_and(|earlier| earlier.contains_key(topic))
    }

    fn topic(&self, level: Level) -> &Arc<str> {
        let found = self.topics.iter().find(|(other, _)| *other == level);
        found.map_or(&self.single, |(_, topic)| topic)
    }

    /// The way of a message that has to wait from `now` until it is due; nothing where messages do not wait in topics.
    pub(crate) fn step(&self, due: Timestamp, now: Timestamp, hops: usize) -> Option<Step> {
        let wait = due.since(now);
        let way = match self.mode {
            DelayMode::Ledger => return None,
            DelayMode::Single => {
                return Some(Step { topic: Arc::clone(&self.single), rest: None });
            }
            DelayMode::Tiered => {
                let levels = self.ladder.levels();
                vec![self.ladder.covering(wait).unwrap_or(levels[levels.len() - 1])]
            }
            DelayMode::Cascade | DelayMode::Pointer => self.ladder.way(wait, hops),
        };
        let mut topics = way.into_iter().map(|level| self.topic(level));
        let topic = Arc::clone(topics.next()?);
        let rest: Vec<&str> = topics.map(|topic| &**topic).collect();
        Some(Step { topic, rest: (!rest.is_empty()).then(|| Text::from(rest.join(","))) })
    }

    /// How long a record stays that was appended to a topic at a time. Whether it is due then follows from the record and
    /// its topic alone, so that every reader comes to the same, also one of another mode: roles that run apart leave records
    /// to each other by it. Where no topics have levels any more, it is due where it lies.
    ///
    /// A record without a due time waits as long as its level: it is never handed out at once.
    pub(crate) fn stay(&self, topic: &str, appended: Timestamp, trail: &Carried) -> Stay {
        let level = self.level_of(topic);
        let Some(due) = Self::due(appended, trail) else {
            let wait = level.map_or(self.unnamed, Level::duration);
            return Stay { until: appended + wait, last: true };
        };
        let due = due.min(appended + self.believed);
        let Some(level) = level else { return Stay { until: due, last: true } };
        let end = appended + level.duration();
        if due <= end + Ladder::slack(level) {
            return Stay { until: due, last: true };
        }
        let hops = matches!(self.mode, DelayMode::Cascade | DelayMode::Tiered | DelayMode::Pointer);
        Stay { until: if hops { end } else { due }, last: false }
    }

    /// When a record is due that was appended at a time, as its headers say.
    pub(crate) fn due(appended: Timestamp, trail: &Carried) -> Option<Timestamp> {
        trail.process_after.or_else(|| trail.next_delay().map(|delay| appended + delay))
    }

    /// How many hops the rest of a way may have: as many as were planned, or a new way when it was too long for one.
    pub(crate) fn hops_left(trail: &Trail) -> usize {
        match trail.route().take(MAX_HOPS).count() {
            0 => MAX_HOPS,
            planned => planned,
        }
    }
}
