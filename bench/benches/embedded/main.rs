//! `cargo xtask bench embedded`: what the embedded queue costs, each figure against its floor in the same run.
//!
//! Rounds of the two sides of a ratio take turns, so that a machine which is busy for a moment slows both.

mod arguments;
mod binary;
mod floor;
mod http;
mod lateness;
mod load;
mod place;
mod server;
mod start;
mod throughput;
mod waiting;

use std::process::ExitCode;

use arguments::{Arguments, Part};
use bench::Report;
use clap::Parser as _;

type Measured<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut report = Report::default();
    let outcome = measure(&arguments, &mut report);
    if arguments.json {
        report.json_lines().for_each(|line| println!("{line}"));
    } else {
        println!("{report}");
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        count_as_the_binary_does()?;
        for part in arguments.parts() {
            eprintln!("{part}");
            match part {
                Part::Throughput => throughput::measure(arguments, report).await?,
                Part::Http => http::measure(arguments, report).await?,
                Part::Lateness => lateness::measure(arguments, report).await?,
                Part::Waiting => waiting::measure(arguments, report).await?,
                Part::Start => start::measure(arguments, report)?,
            }
        }
        Ok(())
    })
}

/// The figures of `/metrics` are kept here as in the binary: counting is part of the cost.
fn count_as_the_binary_does() -> Measured<()> {
    let recorder = redrive::server::recorder()?;
    let handle = recorder.handle();
    redrive::server::install(recorder);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            handle.run_upkeep();
        }
    });
    Ok(())
}
