//! `cargo xtask bench embedded`: what the embedded queue costs, each figure against its floor in the same run.
//!
//! Rounds of the two sides of a ratio take turns, so that a machine which is busy for a moment slows both.

mod arguments;
mod binary;
mod floor;
mod http;
mod lateness;
mod load;
mod server;
mod start;
mod throughput;
mod waiting;

use std::process::ExitCode;

use arguments::{Arguments, Part};
use bench::{Measured, Place};
use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.run(async |report| {
        // The figures of `/metrics` are kept here as in the binary: counting is part of the cost.
        redrive::server::keep_figures();
        for part in arguments.parts() {
            match part {
                Part::Throughput => throughput::measure(&arguments, report).await?,
                Part::Http => http::measure(&arguments, report).await?,
                Part::Lateness => lateness::measure(&arguments, report).await?,
                Part::Waiting => waiting::measure(&arguments, report).await?,
                Part::Start => start::measure(&arguments, report)?,
            }
        }
        Ok(())
    })
}

/// A folder beside the build.
fn place() -> Measured<Place> {
    Place::new(env!("CARGO_TARGET_TMPDIR"))
}
