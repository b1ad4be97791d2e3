//! The levels of a flow: fixed delays that together make any delay.
//!
//! Each wait that the policy's schedules name has a level of its own, so a plain schedule costs one hop. What jitter, a
//! Retry-After or an outage leave goes through a short ladder of smaller levels. A record may leave its level a little
//! before or after the others ([`Ladder::slack`]): for that long it waits in memory, which costs nothing, where another
//! hop would cost a write and a read.

use std::time::Duration;

use redrive_core::route::{Level, MAX_HOPS};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The steps of the short ladder, each about two and a half times the one before. The first one is always there, the
/// others as far as the longest delay reaches.
const LADDER: [Duration; 15] = [
    seconds(5),
    seconds(12),
    seconds(30),
    seconds(75),
    seconds(3 * 60),
    seconds(8 * 60),
    seconds(20 * 60),
    seconds(50 * 60),
    seconds(2 * 3_600),
    seconds(5 * 3_600),
    seconds(12 * 3_600),
    seconds(30 * 3_600),
    seconds(3 * 86_400),
    seconds(8 * 86_400),
    seconds(20 * 86_400),
];

/// The most levels of a flow's own schedules. Each is a topic; a schedule of more waits shares them.
const MOST_STEPS: usize = 24;

const LEAST_SLACK: Duration = seconds(5);
const MOST_SLACK: Duration = seconds(5 * 60);

/// The levels of a flow, shortest first. There is always one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ladder {
    levels: Vec<Level>,
}

impl Ladder {
    /// The levels for these waits of a policy and its longest delay.
    pub(crate) fn new(steps: &[Duration], longest: Duration) -> Self {
        let mut levels: Vec<Level> = steps.iter().filter_map(|step| whole(*step)).collect();
        levels.sort_unstable();
        levels.dedup();
        if levels.len() > MOST_STEPS {
            levels = thinned(&levels);
        }
        let longest = longest.max(levels.last().map_or(Duration::ZERO, |level| level.duration()));
        for (at, step) in LADDER.into_iter().enumerate() {
            // A level that is hardly longer or shorter than one of the schedule's own is another topic for nothing.
            let near = levels.iter().any(|level| {
                let (wait, longer) = (level.duration(), level.duration().max(step));
                wait.abs_diff(step) <= longer / 4
            });
            if (at == 0 || step <= longest)
                && !near
                && let Ok(level) = Level::new(step)
            {
                levels.push(level);
            }
        }
        levels.sort_unstable();
        Self { levels }
    }

    /// The levels, shortest first.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// How much sooner or later than the others a record of this level may be due: an eighth of the level, at least 5 s
    /// and at most five minutes.
    pub(crate) fn slack(level: Level) -> Duration {
        (level.duration() / 8).clamp(LEAST_SLACK, MOST_SLACK)
    }

    /// The shortest time that a record of this level waits in it, but for the few whose way was out of hops.
    pub(crate) fn least_wait(level: Level) -> Duration {
        level.duration().saturating_sub(Self::slack(level))
    }

    /// The level below this one; no time at all below the shortest.
    pub(crate) fn shorter(&self, level: Level) -> Duration {
        let shorter = self.levels.iter().rev().find(|other| **other < level);
        shorter.map_or(Duration::ZERO, |level| level.duration())
    }

    /// The shortest level that is at least so long.
    pub(crate) fn covering(&self, wait: Duration) -> Option<Level> {
        self.levels.iter().find(|level| level.duration() >= wait).copied()
    }

    fn longest(&self) -> Level {
        self.levels[self.levels.len() - 1]
    }

    /// The level in which a wait ends without another hop, when there is one.
    fn last_for(&self, wait: Duration) -> Option<Level> {
        let above =
            self.covering(wait).filter(|level| level.duration().saturating_sub(wait) <= Self::slack(*level));
        above.or_else(|| {
            let below = self.levels.iter().rev().find(|level| level.duration() <= wait).copied();
            below.filter(|level| wait.saturating_sub(level.duration()) < Self::slack(*level))
        })
    }

    /// The levels that a wait goes through, longest first and at most `hops`; at least one. The last one of a way that
    /// comes to its end is left when the record is due. A way of `hops` levels whose last is shorter than what is left
    /// is planned anew there.
    pub(crate) fn way(&self, wait: Duration, hops: usize) -> Vec<Level> {
        let hops = hops.clamp(1, MAX_HOPS);
        let mut way = Vec::with_capacity(4);
        let mut left = wait;
        loop {
            if let Some(last) = self.last_for(left) {
                way.push(last);
                return way;
            }
            if way.len() + 1 == hops {
                // No hop is left for what is exact: the next longer level, which it leaves before the others.
                way.push(self.covering(left).unwrap_or_else(|| self.longest()));
                return way;
            }
            let next = self.levels.iter().rev().find(|level| level.duration() <= left).copied();
            let Some(next) = next else {
                // Shorter than every level: the shortest one, left before its end.
                way.push(self.levels[0]);
                return way;
            };
            way.push(next);
            left -= next.duration();
        }
    }
}

/// A wait as a level, rounded up to whole milliseconds; nothing for one that no level can have.
fn whole(step: Duration) -> Option<Level> {
    let millis = u64::try_from(step.as_nanos().div_ceil(1_000_000)).ok()?;
    Level::new(Duration::from_millis(millis)).ok()
}

/// So many levels of a long list that each of the others is near one of them, the longest among them.
fn thinned(levels: &[Level]) -> Vec<Level> {
    let last = levels.len() - 1;
    (0..MOST_STEPS).map(|at| levels[last * at / (MOST_STEPS - 1)]).collect()
}
