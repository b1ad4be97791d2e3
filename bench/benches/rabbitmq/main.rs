//! `cargo xtask bench rabbitmq`: what a flow on RabbitMQ costs, each figure against bare loops of the client library that do
//! the same on the same broker in the same run.
//!
//! Rounds of the two sides of a ratio take turns, so that a machine which is busy for a moment slows both. Bodies have 512
//! bytes, every queue is a quorum queue, messages are persistent, and 256 of them are handed out at once. A time runs from
//! the first message handled to the last one acknowledged.

mod arguments;
mod bare;
mod diverted;
mod flow;
mod lateness;
mod noop;
mod rabbit;

use std::process::ExitCode;

use arguments::{Arguments, Part};
use bench::{Measured, Place};
use clap::Parser as _;
use rabbit::Rabbit;

/// Messages that the broker warms up with.
const WARM: u64 = 20_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(side) = &arguments.side {
        return noop::side(side);
    }
    arguments.run(async |report| {
        // Counting is part of the cost, as in the binary.
        redrive::server::keep_figures();
        let rabbit = tokio::task::spawn_blocking(Rabbit::start).await??;
        warm_up(&rabbit, arguments.scaled(WARM)).await?;
        for part in arguments.parts() {
            match part {
                Part::Noop => noop::measure(&arguments, &rabbit, report).await?,
                Part::Diverted => diverted::measure(&arguments, &rabbit, report).await?,
                Part::Lateness => lateness::measure(&arguments, &rabbit, report).await?,
            }
        }
        Ok(())
    })
}

/// A broker that has just been started is slower: whoever comes first would pay for that.
async fn warm_up(rabbit: &Rabbit, messages: u64) -> Measured<()> {
    let (queue, target) = (rabbit.filled("warm", messages).await?, rabbit.queue("warm").await?);
    bare::divert(rabbit, &queue, &target, messages, 10).await?;
    rabbit.delete(&[&queue, &target]).await
}

/// A folder beside the build.
fn place() -> Measured<Place> {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}
