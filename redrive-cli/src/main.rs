//! The command `redrive`: what people type.
//!
//! Data goes to stdout, all else to stderr. Exit codes: 0 done, 1 it failed, 2 wrong usage or configuration, 3 not
//! found, 4 refused.

mod arguments;
mod config_command;
mod data;
mod demo;
mod explain;
mod failure_arguments;
mod files;
mod masked;
mod plot;
mod problem;
mod report;
mod rules;
mod run;
mod run_arguments;
mod run_config;
mod table;
mod terminal;
mod topology;
mod try_command;
mod which_policy;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Command, ConfigCommand, PolicyCommand, Redrive, TopologyCommand};
use problem::Problem;

fn main() -> ExitCode {
    let redrive = Redrive::parse();
    let done = match redrive.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Policy(PolicyCommand::Explain(arguments)) => explain::run(&arguments),
        Command::Policy(PolicyCommand::Rules(arguments)) => rules::run(&arguments),
        Command::Policy(PolicyCommand::Try(arguments)) => try_command::run(&arguments),
        Command::Config(ConfigCommand::Check(arguments)) => config_command::check(&arguments),
        Command::Config(ConfigCommand::Schema) => config_command::schema(),
        Command::Config(ConfigCommand::Key { id }) => config_command::key(id.as_deref()),
        Command::Config(ConfigCommand::Import(arguments)) => config_command::import(&arguments),
        Command::Data(command) => data::run(command),
        Command::Topology(TopologyCommand::Plan(arguments)) => topology::plan(&arguments),
        Command::Topology(TopologyCommand::Apply(arguments)) => topology::apply(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completions { shell } => completions(shell),
    };
    match done {
        Ok(code) => code,
        Err(problem) => {
            report::problem(&problem);
            ExitCode::from(problem.exit)
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Redrive::command(), "redrive", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
