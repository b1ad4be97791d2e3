//! The commands that work on a data file: each is one call of the HTTP API, or a few pages of one.
//!
//! When an instance runs on the file the call goes to it, otherwise to the same API in this process; a command does
//! not notice which, and says it on stderr.

mod arguments;
mod audit;
mod call;
mod control_arguments;
mod controls;
mod copy;
mod deeds;
mod filter;
mod flows;
mod groups;
mod ledger;
mod list;
mod messages;
mod progress;
mod publish;
mod queues;
mod replay;
mod shown;
mod stats;
mod who;

use std::process::ExitCode;

pub(crate) use arguments::DataCommand;
use arguments::{AuditCommand, LedgerCommand, MessagesCommand};
use redrive::codes;

use crate::problem::{FAILED, Problem};

/// Runs a command to its end.
pub(crate) fn run(command: DataCommand) -> Result<ExitCode, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::new(codes::NO_DATA_ACCESS, FAILED, error.to_string()))?;
    runtime.block_on(dispatch(command))
}

/// What the running instance's flows need at their brokers.
pub(crate) async fn topology(data: Option<std::path::PathBuf>, json: bool) -> Result<ExitCode, Problem> {
    let arguments = arguments::DataArguments { data, json };
    let data = call::Data::open(&arguments, call::Absent::Refuse).await?;
    let mut answer = data.get("/v1/topology").await?;
    let all = shown::all_typed(&shown::list(&mut answer, "topology")?)?;
    if all.is_empty() {
        crate::terminal::say("no flow runs on this file; -c FILE or --from ADDRESS says which there will be");
    }
    crate::topology::print(&all, json)
}

async fn dispatch(command: DataCommand) -> Result<ExitCode, Problem> {
    match command {
        DataCommand::Publish(arguments) => publish::run(&arguments).await,
        DataCommand::Messages(MessagesCommand::Ls(arguments)) => messages::ls(&arguments).await,
        DataCommand::Messages(MessagesCommand::Show(arguments)) => messages::show(&arguments).await,
        DataCommand::Groups(arguments) => groups::run(&arguments).await,
        DataCommand::Stats(arguments) => stats::run(&arguments).await,
        DataCommand::Flows(arguments) => flows::run(&arguments).await,
        DataCommand::Replay(command) => replay::run(&command).await,
        DataCommand::RetryNow(arguments) => deeds::run("retry-now", &arguments).await,
        DataCommand::Cancel(arguments) => deeds::run("cancel", &arguments).await,
        DataCommand::Park(arguments) => deeds::run("park", &arguments).await,
        DataCommand::Discard(arguments) => deeds::run("discard", &arguments).await,
        DataCommand::Restore(arguments) => deeds::run("restore", &arguments).await,
        DataCommand::Archive(arguments) => deeds::run("archive", &arguments).await,
        DataCommand::Reroute(arguments) => deeds::reroute(&arguments).await,
        DataCommand::Skip(arguments) => deeds::run("skip", &arguments).await,
        DataCommand::Pause(arguments) => controls::pause(&arguments.order).await,
        DataCommand::Resume(arguments) => controls::resume(&arguments.order).await,
        DataCommand::Quarantine(command) => controls::quarantine(&command).await,
        DataCommand::Copy(arguments) => copy::run(&arguments).await,
        DataCommand::Queues(arguments) => queues::run(&arguments).await,
        DataCommand::Ledger(LedgerCommand::Check(arguments)) => ledger::check(&arguments).await,
        DataCommand::Ledger(LedgerCommand::Rebuild(arguments)) => ledger::rebuild(&arguments).await,
        DataCommand::Audit(AuditCommand::Ls(arguments)) => audit::ls(&arguments).await,
    }
}
