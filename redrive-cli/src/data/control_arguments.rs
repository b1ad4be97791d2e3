//! The arguments of the commands that order flows to do something, and the help that teaches them.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use redrive::engine::port::Quarantine;

use super::arguments::DataArguments;

#[derive(Debug, Args)]
#[command(
    after_help = "In force within a second on a running instance; on a file, from the next start on. A call that \
                        runs comes to its end, no other begins, no attempt is charged, and time that \
                        passes so is not counted as a message's age. With --retries, fresh messages go on \
                        and only those wait that have failed before.
Ends with 3 when the instance has no such flow, with 4 when that is paused already.

Examples:
  redrive pause orders --reason 'stock count until noon'
  redrive pause orders --retries --reason 'stock service drowns in retries'
  redrive flows                                    who paused what, and why"
)]
pub(crate) struct PauseArguments {
    #[command(flatten)]
    pub(crate) order: OrderArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "A pause of the flow and a pause of its retries are two, and each is ended by itself.
Ends with 3 when the instance has no such flow, with 4 when that is not paused.

Examples:
  redrive resume orders --reason 'stock is counted'
  redrive resume orders --retries --reason 'stock service is back'")]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    pub(crate) order: OrderArguments,
}

#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    /// The flow
    #[arg(value_name = "FLOW", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) flow: String,
    /// Only its retries
    #[arg(long)]
    pub(crate) retries: bool,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// Keep messages back: those with a key, of a tenant, or with a header's value
    Add(KeepArguments),
    /// Let go what was kept back, in the order in which it came
    Rm(ReleaseArguments),
    /// List what is kept back, and how many messages that are
    Ls(QuarantinesArguments),
}

#[derive(Debug, Args)]
#[command(
    after_help = "What fits is put into the ledger, state `held`, before the handler is called, and stays there until \
                        the quarantine is removed; all other messages go on. The tenant is found where \
                        the flow's `facts` say. A flow has at most 1000 quarantines.
Ends with 3 when the instance has no such flow, with 4 when that is in quarantine already.

Examples:
  redrive quarantine add orders tenant=acme --reason 'sends broken orders'
  redrive quarantine add orders key=customer-7 --reason 'customer asked us to wait'
  redrive quarantine add orders header:schema-version=7 --reason 'handler does not know it yet'
  redrive messages ls --flow orders --state held       what is kept back"
)]
pub(crate) struct KeepArguments {
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "When no instance runs, what is let go is handled when `redrive run` runs on the file.
Ends with 4 when that is not in quarantine.

Example:
  redrive quarantine rm orders tenant=acme --reason 'fixed on their side'"
)]
pub(crate) struct ReleaseArguments {
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    /// The flow
    #[arg(value_name = "FLOW", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) flow: String,
    /// Which messages: key=K, tenant=T or header:NAME=V
    #[arg(value_name = "WHICH")]
    pub(crate) which: Quarantine,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  redrive quarantine ls orders --json")]
pub(crate) struct QuarantinesArguments {
    /// Only of this flow
    #[arg(value_name = "FLOW")]
    pub(crate) flow: Option<String>,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}
