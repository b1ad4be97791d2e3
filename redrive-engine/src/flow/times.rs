//! The time, as a worker knows it.
//!
//! One message asks for the time in many places, and reading a clock costs as much as half of what is done with a message
//! that succeeds at once. So the monotonic clock is read once for each, and what the others say follows from it for a
//! moment.

use std::time::Duration;

use redrive_core::Timestamp;
use tokio::time::Instant;

use crate::port::Clock;

/// How long after they were read the other clocks are believed to have gone on with this one.
const MOMENT: Duration = Duration::from_millis(2);

/// What the clocks said last.
#[derive(Debug)]
pub(crate) struct Times {
    /// What the monotonic clock has just said.
    pub(crate) now: Duration,
    read_at: Duration,
    wall: Timestamp,
    instant: Instant,
}

impl Times {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let now = clock.monotonic();
        Self { now, read_at: now, wall: clock.now(), instant: Instant::now() }
    }

    /// Looks at the monotonic clock.
    pub(crate) fn look(&mut self, clock: &dyn Clock) {
        self.now = clock.monotonic();
    }

    /// What the clock on the wall, and that of timers, say now.
    pub(crate) fn others(&mut self, clock: &dyn Clock) -> (Timestamp, Instant) {
        let since = self.now.saturating_sub(self.read_at);
        if since <= MOMENT {
            return (self.wall + since, self.instant + since);
        }
        *self = Self::new(clock);
        (self.wall, self.instant)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Set(Mutex<(Timestamp, Duration)>);

    impl Clock for Set {
        fn now(&self) -> Timestamp {
            self.0.lock().unwrap().0
        }

        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap().1
        }
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_in_a_moment() {
        let clock = Set(Mutex::new((Timestamp::from_millis(10_000), Duration::from_secs(1))));
        let mut times = Times::new(&clock);
        *clock.0.lock().unwrap() = (Timestamp::from_millis(500), Duration::from_millis(1_002));
        times.look(&clock);
        assert_eq!(times.others(&clock).0, Timestamp::from_millis(10_002));
        clock.0.lock().unwrap().1 = Duration::from_millis(1_003);
        times.look(&clock);
        assert_eq!(times.others(&clock).0, Timestamp::from_millis(500));
    }
}
