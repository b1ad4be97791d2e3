//! `cargo xtask bench kafka`: what a flow on Kafka costs, each figure against bare loops of the client library that do the
//! same commits on the same broker in the same run.
//!
//! Rounds of the two sides of a ratio take turns, so that a machine which is busy for a moment slows both. Values have 512
//! bytes, and every topic has 8 partitions. A time runs from the first message handled to the last one committed: what
//! joining a group takes is measured apart.

mod arguments;
mod bare;
mod cluster;
mod endpoint;
mod flow;
mod kill;
mod lanes;
mod lateness;
mod member;
mod noop;
mod retries;
mod standstill;

use std::process::ExitCode;
use std::sync::Arc;

use arguments::{Arguments, Part};
use bench::{Measured, Place};
use clap::Parser as _;
use cluster::Cluster;

/// Records that the broker warms up with.
const WARM: u64 = 200_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(side) = &arguments.side {
        return noop::side(side);
    }
    arguments.run(async |report| {
        // Counting is part of the cost, as in the binary.
        redrive::server::keep_figures();
        let cluster = Arc::new(tokio::task::spawn_blocking(Cluster::start).await??);
        warm_up(&cluster, arguments.scaled(WARM)).await?;
        for part in arguments.parts() {
            match part {
                Part::Noop => noop::measure(&arguments, &cluster, report).await?,
                Part::Retries => retries::measure(&arguments, &cluster, report).await?,
                Part::Poison => retries::measure_poison(&arguments, &cluster, report).await?,
                Part::Lanes => lanes::measure(&arguments, &cluster, report).await?,
                Part::Lateness => lateness::measure(&arguments, &cluster, report).await?,
                Part::Kill => kill::measure(&arguments, &cluster, report).await?,
                Part::Standstill => standstill::measure(&arguments, &cluster, report).await?,
            }
        }
        Ok(())
    })
}

/// A broker that has just been started compiles itself while it serves: whoever comes first would pay for that.
async fn warm_up(cluster: &Arc<Cluster>, records: u64) -> Measured<()> {
    let topic = cluster.filled("warm", records).await?;
    let target = cluster.name("warm");
    cluster.topics(&[&target]).await?;
    let work = bare::Settling { topic: topic.clone(), target, records, every: 10, delay: None };
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || {
        bare::read(&cluster, &topic, records)?;
        bare::settle(&cluster, &work).map(drop)
    })
    .await?
}

/// A folder beside the build.
fn place() -> Measured<Place> {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}
