//! What a benchmark is asked on its command line, and how it answers.

use std::fmt::Display;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::{Measured, Report};

/// A part of a benchmark that can be run alone.
pub trait Part: ValueEnum + Display + Clone + Send + Sync + 'static {}

impl<P: ValueEnum + Display + Clone + Send + Sync + 'static> Part for P {}

/// What to measure, and for how long.
#[derive(Debug, Args)]
pub struct Asked<P: Part> {
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<P>,
    /// Rounds of each ratio
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Less of everything, to see that it works: the figures mean little
    #[arg(long)]
    pub quick: bool,
    /// One JSON object a figure
    #[arg(long)]
    json: bool,
    /// Given by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

impl<P: Part> Asked<P> {
    /// The parts to measure, each named on stderr when its turn comes.
    pub fn parts(&self) -> impl Iterator<Item = P> {
        let parts = if self.only.is_empty() { P::value_variants().to_vec() } else { self.only.clone() };
        parts.into_iter().inspect(|part| eprintln!("{part}"))
    }

    /// Rounds of each ratio: five, unless another number was asked for.
    pub fn rounds(&self) -> u32 {
        self.rounds_or(5)
    }

    /// Rounds of each ratio, with what is usual for rounds that take long.
    pub fn rounds_or(&self, usual: u32) -> u32 {
        if self.quick { 1 } else { self.rounds.unwrap_or(usual) }
    }

    /// So many, or a twentieth of it in a quick run.
    pub fn scaled(&self, count: u64) -> u64 {
        if self.quick { count / 20 } else { count }
    }

    /// Runs the measurements and prints what there is of the report, however they end.
    pub fn run(&self, measure: impl AsyncFnOnce(&mut Report) -> Measured<()>) -> ExitCode {
        let mut report = Report::default();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(measure(&mut report)),
            Err(error) => Err(error.into()),
        };
        if self.json {
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
}
