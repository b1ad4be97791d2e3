//! Intake: takes deliveries while there is room, and no more.

use std::sync::Arc;
use std::time::Duration;

use super::log;
use super::shared::{Shared, Stopped};
use crate::port::{Delivery, PortError, Room, Source};

/// How long to wait before asking a source again that could not answer.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// Reads until the flow stops.
pub(crate) async fn take_in(shared: Arc<Shared>, mut source: Box<dyn Source>) {
    read(&shared, &mut *source).await;
    source.close().await;
}

async fn read(shared: &Shared, source: &mut dyn Source) {
    let mut received: Vec<Delivery> = Vec::new();
    let mut failures = 0_usize;
    loop {
        if let Some(lanes) = &shared.lanes {
            lanes.book().begin_look(shared.clock.monotonic());
        }
        let Ok(result) = receive(shared, source, &mut received).await else { return };
        shared.take_in(&mut received).await;
        match result {
            Ok(()) => {
                failures = 0;
                shared.reads();
            }
            Err(error) => {
                log::source_away(&shared.spec, &error, failures);
                shared.cannot_read(&error);
                let wait = PATIENCE[failures.min(PATIENCE.len() - 1)];
                failures += 1;
                if shared.sleep(wait).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits for room, and for something to fill it.
async fn receive(
    shared: &Shared,
    source: &mut dyn Source,
    into: &mut Vec<Delivery>,
) -> Result<Result<(), PortError>, Stopped> {
    loop {
        let released = shared.in_hand.released.notified();
        let received = async {
            match shared.room() {
                Some(room) => source.receive(room, into).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return Err(Stopped),
            result = received => return Ok(result),
            // There is more room now, perhaps for a kind of message that there was none for.
            () = released, if shared.room().is_none_or(is_short) => {}
        }
    }
}

/// Whether a source could have something that there is no room for.
fn is_short(room: Room) -> bool {
    room.retries == 0
}
