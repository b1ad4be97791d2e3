//! What a reader can know of copies that should have come.
//!
//! A copy has no number in its queue, and what the broker holds between two queues is counted in neither. But whoever reads
//! alone, and has seen the end of the source since a copy had to be there, has had that copy, or it never came.

use std::time::Duration;

use redrive_core::Timestamp;
use tokio::time::Instant;

/// How long what was delivered may be under way to the reader.
const UNDER_WAY: Duration = Duration::from_secs(5);
/// By how much the clock on the wall may differ from the time that has passed. Beyond it, what is due by the clock may have
/// a while to wait by the broker.
const JUMP: Duration = Duration::from_secs(2);

/// One look at the queue in which copies come back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// When it was begun, by the clock on the wall and by one that only goes on.
    pub(crate) at: Timestamp,
    pub(crate) instant: Instant,
    /// The channel that is read.
    pub(crate) epoch: Option<u32>,
    /// Whether somebody else reads.
    pub(crate) others: bool,
    /// Whether nothing lies there that nobody has in hand.
    pub(crate) empty: bool,
}

/// What was seen from one look to the next.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Since when nobody else can have had a copy.
    alone_since: Timestamp,
    /// The last look.
    last: (Timestamp, Instant),
    /// When all that had come was last in this reader's hands, and on which channel: what was in hand on another one is
    /// in the queue again.
    empty: Option<(u32, Timestamp)>,
}

impl Watch {
    /// Begins with a look.
    pub(crate) fn begin(seen: Seen) -> Self {
        let mut watch = Self { alone_since: seen.at, last: (seen.at, seen.instant), empty: None };
        watch.look(seen);
        watch
    }

    /// One more look.
    pub(crate) fn look(&mut self, seen: Seen) {
        let by_clock = seen.at.as_millis() - self.last.0.as_millis();
        let passed = seen.instant.saturating_duration_since(self.last.1);
        let jump = by_clock.abs_diff(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX));
        if seen.others || u128::from(jump) > JUMP.as_millis() {
            self.alone_since = seen.at;
            self.empty = None;
        }
        self.last = (seen.at, seen.instant);
        self.empty = self.empty.filter(|(epoch, _)| Some(*epoch) == seen.epoch);
        if let (true, Some(epoch)) = (seen.empty, seen.epoch) {
            self.empty = Some((epoch, seen.at));
        }
    }

    /// Whether this reader alone can have had a copy that was due then.
    pub(crate) fn saw(&self, due: Timestamp) -> bool {
        due >= self.alone_since
    }

    /// Whether a copy that was due then, and is not in hand, has not come though it had to be there at the latest so much
    /// later.
    pub(crate) fn misses(&self, due: Timestamp, latest: Duration) -> bool {
        self.saw(due) && self.empty.is_some_and(|(_, at)| due + latest + UNDER_WAY < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(begin: Instant, second: u64) -> Seen {
        Seen {
            at: Timestamp::from_millis(1_000_000 + second.cast_signed() * 1_000),
            instant: begin + Duration::from_secs(second),
            epoch: Some(1),
            others: false,
            empty: true,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + second * 1_000)
    }

    #[test]
    fn a_copy_is_missing_once_the_source_was_seen_empty_after_it() {
        let begin = Instant::now();
        let mut watch = Watch::begin(seen(begin, 0));
        let late = Duration::from_secs(3);
        assert!(!watch.misses(at(2), late), "it may come");
        watch.look(Seen { empty: false, ..seen(begin, 20) });
        assert!(!watch.misses(at(2), late), "it may be what lies there");
        watch.look(seen(begin, 21));
        assert!(watch.misses(at(2), late));
        assert!(!watch.misses(at(18), late), "its way is not over");
        assert!(!watch.misses(at(-1), late), "somebody else may have had it");
        watch.look(Seen { empty: false, ..seen(begin, 40) });
        assert!(watch.misses(at(2), late), "what came since is younger");
        watch.look(Seen { epoch: Some(2), empty: false, ..seen(begin, 41) });
        assert!(!watch.misses(at(2), late), "what was in hand was given back");
    }

    #[test]
    fn whoever_else_read_may_have_had_it() {
        let begin = Instant::now();
        let mut watch = Watch::begin(seen(begin, 0));
        watch.look(Seen { others: true, ..seen(begin, 10) });
        watch.look(seen(begin, 30));
        assert!(!watch.saw(at(9)) && !watch.misses(at(9), Duration::ZERO));
        assert!(watch.misses(at(11), Duration::ZERO));
    }

    #[test]
    fn what_is_due_by_a_clock_that_was_set_may_have_to_wait() {
        let begin = Instant::now();
        let mut watch = Watch::begin(seen(begin, 0));
        watch.look(Seen { instant: begin + Duration::from_secs(1), ..seen(begin, 3_600) });
        watch.look(Seen { instant: begin + Duration::from_secs(2), ..seen(begin, 3_601) });
        assert!(!watch.misses(at(60), Duration::ZERO));
    }
}
