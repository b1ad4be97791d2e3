//! What hooks are told, attempt by attempt.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_retry::{Attempt, Bulkhead, Cause, Hooks, Next};

use crate::script::{Busy, FAIL, OK, Service, Step};
use crate::{known, ms};

/// Writes down what it is told.
#[derive(Debug, Clone, Default)]
struct Diary(Arc<Mutex<String>>);

impl Diary {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

impl Hooks<Busy> for Diary {
    fn starting(&self, attempt: &Attempt) {
        writeln!(self.0.lock().unwrap(), "{} of {} begins", attempt.number, attempt.of).unwrap();
    }

    fn failed(&self, attempt: &Attempt, cause: &Cause<Busy>, next: &Next) {
        let next = match next {
            Next::Retry(wait) => format!("again in {} ms", wait.as_millis()),
            Next::Stop(stop) => stop.to_string(),
        };
        writeln!(self.0.lock().unwrap(), "{}: {cause}; {next}", attempt.number).unwrap();
    }

    fn succeeded(&self, attempt: &Attempt, took: Duration) {
        writeln!(self.0.lock().unwrap(), "{} done after {} ms", attempt.number, took.as_millis()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_told_as_it_begins_and_ends() {
    let diary = Diary::default();
    let retryer = known().attempts(3).hooks(diary.clone()).build().unwrap();
    let heals = Service::new([FAIL, Step::Hang, Step::Answer(ms(5))]);
    retryer.call(|attempt| heals.call(attempt)).await.unwrap();
    assert_eq!(
        diary.lines(),
        [
            "1 of 3 begins",
            "1: busy for the 1. time; again in 100 ms",
            "2 of 3 begins",
            "2: no answer within 2s; again in 200 ms",
            "3 of 3 begins",
            "3 done after 2305 ms",
        ]
    );
    let fails = Service::new([FAIL]);
    retryer.call(|attempt| fails.call(attempt)).await.unwrap_err();
    assert_eq!(diary.lines().last().unwrap(), "3: busy for the 3. time; all attempts are used up");
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_succeeds_at_once_is_told_too() {
    let diary = Diary::default();
    let expected = ["1 of 5 begins", "1 done after 0 ms"];
    let good = Service::new([OK]);
    // On the shortest way, behind a guard, and on a thread.
    let plain = known().hooks(diary.clone()).build().unwrap();
    plain.call(|attempt| good.call(attempt)).await.unwrap();
    assert_eq!(diary.lines(), expected);
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let guarded = known().hooks(diary.clone()).bulkhead(bulkhead.clone()).build().unwrap();
    guarded.call(|attempt| good.call(attempt)).await.unwrap();
    assert_eq!(diary.lines(), expected);
    plain.call_blocking(|_| Ok::<_, Busy>(())).unwrap();
    assert_eq!(diary.lines(), expected);
    let _held = bulkhead.try_acquire().unwrap();
    guarded.call(|attempt| good.call(attempt)).await.unwrap_err();
    assert_eq!(diary.lines(), [] as [&str; 0], "nothing was attempted");
}
