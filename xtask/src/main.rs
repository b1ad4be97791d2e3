//! The project's own commands, so that a clone needs one command to be tried and one to be tested.
//!
//! `cargo xtask` stays light to compile: it talks to no broker itself. Tests do, and ask it for the servers.

mod bench;
mod command;
mod demo;
mod error;
mod install;
mod interrupt;
mod licences;
mod metadata;
mod place;
mod plots;
mod progress;
mod samples;
mod services;
mod soak;
mod summary;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the binary and run its demo: a minute of trouble, and nothing lost
    Demo {
        /// Passed on to `redrive demo`, such as `--speed 3`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run every check: format, lints, licences, tests on real servers, doctests, documentation
    Test {
        /// Leave out the fault tests and everything that needs Java
        #[arg(long)]
        quick: bool,
    },
    /// Run the benchmarks, or the one named
    Bench {
        /// The benchmark, such as `core`
        name: Option<String>,
        /// Arguments for the benchmark, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Draw the plots of the documentation again
    Plots,
    /// Capture the dead letters of other systems again, from the systems themselves
    Samples {
        /// Only those of this broker
        broker: Option<services::Kind>,
    },
    /// Run the property tests and the kill tests for much longer
    Soak {
        /// How many times the ordinary number of cases
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        times: u32,
        /// Rounds of kills at random moments
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        kills: u32,
    },
    /// Real servers for tests and for trying things out
    Services {
        #[command(subcommand)]
        action: services::Action,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.task {
        Task::Demo { arguments } => demo::run(&arguments),
        Task::Test { quick } => test::run(quick),
        Task::Bench { name, arguments } => bench::run(name.as_deref(), &arguments),
        Task::Plots => plots::run(),
        Task::Samples { broker } => samples::run(broker),
        Task::Soak { times, kills } => soak::run(times, kills),
        Task::Services { action } => services::run(action),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Interrupted) => ExitCode::from(130),
        Err(Error::Reported) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
