//! A service that answers by a script and writes down when it was called.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use redrive_retry::Attempt;
use tokio::time::Instant;

/// What the service does when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Answers after this time.
    Answer(Duration),
    /// Fails after this time.
    Fail(Duration),
    /// Never comes back.
    Hang,
}

pub(crate) const OK: Step = Step::Answer(Duration::ZERO);
pub(crate) const FAIL: Step = Step::Fail(Duration::ZERO);

/// Why the service failed: the number of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("busy for the {0}. time")]
pub(crate) struct Busy(pub(crate) u32);

pub(crate) struct Service {
    steps: Mutex<VecDeque<Step>>,
    seen: Mutex<Vec<(Duration, Attempt)>>,
    began: Instant,
}

impl Service {
    /// Goes through the steps, and stays with the last.
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: Mutex::new(steps.into_iter().collect()), seen: Mutex::default(), began: Instant::now() }
    }

    pub(crate) fn begin(&self, attempt: Attempt) -> Step {
        self.seen.lock().unwrap().push((self.began.elapsed(), attempt));
        let mut steps = self.steps.lock().unwrap();
        if steps.len() > 1 { steps.pop_front().unwrap() } else { steps[0] }
    }

    pub(crate) async fn call(&self, attempt: Attempt) -> Result<u32, Busy> {
        let number = self.calls() as u32 + 1;
        match self.begin(attempt) {
            Step::Answer(after) => {
                wait(after).await;
                Ok(number)
            }
            Step::Fail(after) => {
                wait(after).await;
                Err(Busy(number))
            }
            Step::Hang => std::future::pending().await,
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// When it was called, in milliseconds.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.seen.lock().unwrap().iter().map(|(at, _)| at.as_millis() as u64).collect()
    }

    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.seen.lock().unwrap().iter().map(|(_, attempt)| *attempt).collect()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
