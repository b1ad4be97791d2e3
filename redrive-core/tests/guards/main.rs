//! Each guard against a reference that keeps every event in a list, over random histories in which time also
//! stands still and runs backwards.

mod breaker;
mod breaker_model;
mod late;
mod limits;
mod rate;
mod retry_budget;

use std::time::Duration;

use proptest::prelude::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A step of time in milliseconds: none, a little, a lot, or back.
fn step() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => Just(0),
        6 => 1i64..200,
        2 => 200i64..3_000,
        1 => 3_000i64..40_000,
        1 => -5_000i64..0,
    ]
}

/// The clock that the guard is given, and the latest time that it has seen.
#[derive(Default)]
struct Clock {
    given: i64,
    latest: i64,
}

impl Clock {
    /// The time to give, and the one that it must count as.
    fn pass(&mut self, step: i64) -> (Duration, Duration) {
        self.given = (self.given + step).max(0);
        self.latest = self.latest.max(self.given);
        (ms(self.given as u64), ms(self.latest as u64))
    }
}
