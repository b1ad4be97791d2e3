//! The wheel on which jobs wait in hand without keeping a worker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;

use super::job::Job;
use super::shared::Shared;

/// Holds jobs until their wait is over, then hands them back to the workers. At a stop, all are put down.
pub(crate) async fn wait_aside(shared: Arc<Shared>, mut arriving: mpsc::UnboundedReceiver<(Job, Duration)>) {
    let mut wheel: DelayQueue<Job> = DelayQueue::new();
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            Some((job, after)) = arriving.recv() => {
                wheel.insert(job, after);
            }
            Some(expired) = wheel.next(), if !wheel.is_empty() => {
                let mut job = expired.into_inner();
                job.put_at = shared.clock.monotonic();
                shared.desk.put(job);
            }
        }
    }
    arriving.close();
    while let Some((job, after)) = arriving.recv().await {
        shared.put_down(job, after);
    }
    let now = tokio::time::Instant::now();
    while let Some(key) = wheel.peek() {
        let after = wheel.deadline(&key).saturating_duration_since(now);
        shared.put_down(wheel.remove(&key).into_inner(), after);
    }
}
