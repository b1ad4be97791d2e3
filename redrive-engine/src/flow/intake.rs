//! Intake: takes deliveries while there is room, and no more.

use std::sync::Arc;
use std::time::Duration;

use super::job::Job;
use super::log;
use super::shared::Shared;
use crate::port::{Delivery, Source};

/// How long to wait before asking a source again that could not answer.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// Reads until the flow stops.
pub(crate) async fn take_in(shared: Arc<Shared>, mut source: Box<dyn Source>) {
    receive(&shared, &mut *source).await;
    source.close().await;
}

async fn receive(shared: &Shared, source: &mut dyn Source) {
    let mut received: Vec<Delivery> = Vec::new();
    let mut failures = 0_usize;
    loop {
        let result = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            result = async {
                let room = shared.in_hand.room(&shared.spec).await;
                source.receive(room, &mut received).await
            } => result,
        };
        for delivery in received.drain(..) {
            shared.in_hand.take(Job::weight(&delivery));
            shared.metrics.received(&delivery, shared.clock.now());
            // The channel is unbounded and lives as long as the flow; the room above bounds it.
            let _ = shared.to_jobs.try_send(Job::new(delivery));
        }
        match result {
            Ok(()) => {
                failures = 0;
                if shared.trouble.reads() {
                    log::source_back(&shared.spec);
                }
            }
            Err(error) => {
                log::source_away(&shared.spec, &error, failures);
                shared.trouble.cannot_read(&error);
                let wait = PATIENCE[failures.min(PATIENCE.len() - 1)];
                failures += 1;
                if shared.sleep(wait).await.is_err() {
                    return;
                }
            }
        }
    }
}
