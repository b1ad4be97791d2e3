//! What retries do to a server that is in trouble, simulated: with and without jitter, budget and breaker.
//!
//! The clients are real [`Retryer`](redrive_retry::Retryer)s on paused time, so that a minute takes a moment and every
//! run is the same. The server is a model: a bounded queue, served at a rate, that goes on serving requests whose
//! clients have given up, because it cannot know. `cargo xtask plots` draws what comes of it.

#[path = "herd.rs"]
mod herd;
#[path = "outage.rs"]
mod outage;
#[path = "plot.rs"]
mod plot;
#[path = "server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use herd::{Herd, herd};
pub(crate) use outage::{Outage, Protection, outage};
pub(crate) use plot::{draw_herd, draw_outage};
use redrive_retry::{Clock, Jitter};
use tokio::time::Instant;

/// The ways to spread the waits of a herd, with the names they have in a plot.
pub(crate) const JITTERS: [(&str, Jitter); 4] = [
    ("no jitter", Jitter::None),
    ("equal jitter", Jitter::Equal),
    ("decorrelated jitter", Jitter::Decorrelated),
    ("full jitter", Jitter::Full),
];

/// Time since the simulation began, so that windows begin alike in every run.
#[derive(Debug)]
struct SimulatedClock(Instant);

impl SimulatedClock {
    fn begin() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Runs a simulation on paused time.
fn run<F: Future>(simulation: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(simulation))
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
