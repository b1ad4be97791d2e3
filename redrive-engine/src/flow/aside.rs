//! The wheel on which jobs wait in hand without keeping a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::job::Job;
use super::shared::Shared;
use crate::port::{Revoked, Tag};

/// What is told to the wheel.
#[derive(Debug)]
pub(crate) enum Aside {
    /// A job waits for so long.
    Wait(Box<Job>, Duration),
    /// A stream is lost: what came from it is put down.
    Lost(Revoked),
}

#[derive(Default)]
struct Wheel {
    jobs: DelayQueue<Box<Job>>,
    tags: HashMap<Key, Tag>,
}

impl Wheel {
    fn add(&mut self, job: Box<Job>, after: Duration) {
        let tag = job.delivery.tag;
        self.tags.insert(self.jobs.insert(job, after), tag);
    }

    /// Takes a job off before its time, with what is left of its wait.
    fn take(&mut self, key: &Key) -> (Box<Job>, Duration) {
        let after = self.jobs.deadline(key).saturating_duration_since(tokio::time::Instant::now());
        self.tags.remove(key);
        (self.jobs.remove(key).into_inner(), after)
    }

    fn lost(&mut self, revoked: Revoked) -> Vec<(Box<Job>, Duration)> {
        let lost = self.tags.iter().filter(|(_, tag)| revoked.had(**tag)).map(|(key, _)| *key);
        let lost: Vec<Key> = lost.collect();
        lost.iter().map(|key| self.take(key)).collect()
    }
}

/// Holds jobs until their wait is over, then hands them back to the workers. At a stop, all are put down.
pub(crate) async fn wait_aside(shared: Arc<Shared>, mut arriving: mpsc::UnboundedReceiver<Aside>) {
    let mut wheel = Wheel::default();
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            Some(told) = arriving.recv() => match told {
                // Its stream was lost before it came here, so nobody comes for it any more.
                Aside::Wait(job, after) if shared.revoked.had(job.delivery.tag) => shared.put_down(job, after),
                Aside::Wait(job, after) => wheel.add(job, after),
                Aside::Lost(revoked) => {
                    for (job, after) in wheel.lost(revoked) {
                        shared.put_down(job, after);
                    }
                }
            },
            Some(expired) = wheel.jobs.next(), if !wheel.jobs.is_empty() => {
                wheel.tags.remove(&expired.key());
                let mut job = expired.into_inner();
                job.put_at = shared.clock.monotonic();
                let tag = job.delivery.tag;
                shared.desk.put(job);
                shared.sweep_lost(tag);
            }
        }
    }
    arriving.close();
    while let Some(told) = arriving.recv().await {
        if let Aside::Wait(job, after) = told {
            shared.put_down(job, after);
        }
    }
    while let Some(key) = wheel.jobs.peek() {
        let (job, after) = wheel.take(&key);
        shared.put_down(job, after);
    }
}
