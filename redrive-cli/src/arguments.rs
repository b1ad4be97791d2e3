//! The commands and their arguments, and the help that teaches them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use redrive::{Class, Timestamp};

use crate::data::DataCommand;
use crate::demo::DemoArguments;
use crate::failure_arguments::FailureArguments;
use crate::run_arguments::{FlowArguments, RunArguments};

/// The retry layer of event-driven systems.
#[derive(Debug, Parser)]
#[command(
    name = "redrive",
    version,
    max_term_width = 100,
    after_help = "Examples:
  redrive demo                                     a minute of trouble, and nothing lost
  redrive run --from queue:orders --to http://127.0.0.1:3000/orders
  redrive run --from 'kafka://localhost:9092/orders?group=worker' --to exec:./handle.sh
  redrive run --from 'amqp://localhost/?queue=orders' --to exec:./handle.sh
  redrive publish queue:orders 'hello'
  redrive messages ls --state dead,parked          what failed, and why
  redrive replay run --flow orders --state dead --reason 'stock service is back'
  redrive pause orders --reason 'stock count'      no call begins until `redrive resume`
  redrive policy explain '10s, 1m x3 jitter 10%'   what a schedule does, attempt by attempt
  redrive policy try --status 503 --attempt 2      what would happen to a failed message, and why
  redrive config check redrive.yaml                everything wrong with a file, and where

Exit codes: 0 done, 1 it failed, 2 wrong usage or configuration, 3 not found, 4 refused."
)]
pub(crate) struct Redrive {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one flow from flags, or many from a file
    Run(Box<RunArguments>),
    #[command(flatten)]
    Data(DataCommand),
    /// Show or create what flows need at their brokers
    #[command(
        subcommand,
        after_help = "Examples:
  redrive topology plan --from 'kafka://localhost:9092/orders?group=worker' --retry '10s, 1m x3'
  redrive topology plan -c redrive.yaml
  redrive topology apply -c redrive.yaml"
    )]
    Topology(TopologyCommand),
    /// Look at policies: what they do, which rules there are, what they would decide
    #[command(
        subcommand,
        after_help = "Examples:
  redrive policy explain '10s, 1m x3 jitter 10%'    a schedule, attempt by attempt
  redrive policy explain redrive.yaml orders        what a flow of a file does
  redrive policy try --status 503 --attempt 2       what would happen to a message, and why
  redrive policy rules                              which failures are of which class"
    )]
    Policy(PolicyCommand),
    /// Check configuration files, print their schema, import other settings
    #[command(
        subcommand,
        after_help = "Examples:
  redrive config check redrive.yaml                       everything wrong with a file, and where
  redrive config schema > redrive.schema.json             for an editor
  redrive config import appsettings.json > redrive.yaml   from another retry layer"
    )]
    Config(ConfigCommand),
    /// See it at work for a minute: an order stream, a downstream with moods, one command that mends it
    Demo(DemoArguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  redrive completions bash > /etc/bash_completion.d/redrive")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopologyCommand {
    /// Show what flows need, what of it is missing and what is not as it should be; changes nothing
    #[command(
        after_help = "Without -c and --from, the running instance is asked, or the configuration that is found.

Examples:
  redrive topology plan --from 'kafka://localhost:9092/orders?group=worker' --delay single
  redrive topology plan -c redrive.yaml --json | jq -r 'select(.exists | not) | .name'
  redrive topology plan --from 'amqp://localhost/?queue=orders' --as-policies
  redrive topology plan --from 'amqp://localhost/?queue=orders' --permissions"
    )]
    Plan(Box<PlanArguments>),
    /// Create what is missing; never alters or deletes what exists
    #[command(after_help = "Example:
  redrive topology apply -c redrive.yaml")]
    Apply(Box<TopologyArguments>),
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) topology: TopologyArguments,
    /// Print the rabbitmqctl commands that do the same by policies (RabbitMQ)
    #[arg(long, conflicts_with_all = ["json", "permissions"])]
    pub(crate) as_policies: bool,
    /// Print what the broker has to allow the flow's user (RabbitMQ)
    #[arg(long, conflicts_with = "json")]
    pub(crate) permissions: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopologyArguments {
    #[command(flatten)]
    pub(crate) flow: FlowArguments,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show what a policy does, attempt by attempt
    Explain(ExplainArguments),
    /// Show the rules that classify failures, and the reason codes
    Rules(RulesArguments),
    /// Decide what would happen to a failed message, and say why
    Try(Box<TryArguments>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with a configuration file, with line and column
    Check(CheckArguments),
    /// Print the JSON schema of the configuration file, for editors
    #[command(after_help = "Example:
  redrive config schema > redrive.schema.json
  # then, in the first line of redrive.yaml:
  # yaml-language-server: $schema=./redrive.schema.json")]
    Schema,
    /// Make a key that signs the headers of a flow's messages
    #[command(
        after_help = "The first of a flow's keys signs, any of them verifies. To replace one, add the new key behind \
                            the old, then put it in front, then take the old one out once the longest delay has passed.

Example:
  redrive config key --id orders-1 > /run/secrets/orders-1
  # then, in the flow:
  # signing: { keys: [{ id: orders-1, secret_file: /run/secrets/orders-1 }] }"
    )]
    Key {
        /// Its id, which stands in each signed message; by default one is made up
        #[arg(long)]
        id: Option<String>,
    },
    /// Turn the settings of another retry layer into a redrive.yaml
    #[command(
        after_help = "Reads failedMessagesRetryConfiguration, messagePolicies, or retry settings with \
                            MaxRetryAttempts, as YAML or JSON.

Example:
  redrive config import appsettings.json > redrive.yaml && redrive config check redrive.yaml"
    )]
    Import(ImportArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "A schedule is a list of waits, or a form:
  '10s, 1m x3'                                            steps
  'linear(10s, step 10s, times 5)'                        growing by a step
  'exponential(5s, factor 2, max 5m, times 6)'            growing by a factor
  'exponential(1s, factor 2, max 1m) forever'             without end
  'calendar(mon-fri 09:00-17:00 Europe/Berlin)'           the next working hour
  … jitter full | equal | 10% | +33% | decorrelated       spread

Examples:
  redrive policy explain '10s, 1m x3 jitter 10%'
  redrive policy explain ladder                 a preset: ladder, time-based, http-client, spring
  redrive policy explain policy.yaml            a file with one policy
  redrive policy explain redrive.yaml orders    a flow or a policy of a configuration
  redrive policy explain -c redrive.yaml orders --class CONTENTION --json")]
pub(crate) struct ExplainArguments {
    /// A schedule, a preset, a file, or the name of a flow or policy
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<String>,
    /// The flow or policy of the file
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The configuration file; default $REDRIVE_CONFIG, then ./redrive.yaml
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The class with which the message fails every time
    #[arg(long, default_value = "TRANSIENT", value_name = "CLASS")]
    pub(crate) class: Class,
    /// The type of the message, where the flow treats types differently
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) message_type: Option<String>,
    /// Print a JSON object per attempt, and one for the end
    #[arg(long)]
    pub(crate) json: bool,
    /// When the first attempt fails; only calendars look at it
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The first rule that matches wins. Rules of a flow's policy are asked first, then the `rules:` \
                        of the file, then these.

Examples:
  redrive policy rules
  redrive policy rules --json | jq 'select(.class == \"CONTENTION\")'"
)]
pub(crate) struct RulesArguments {
    /// Print a JSON object per rule and per reason
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print Markdown tables
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  redrive policy try --status 503
  redrive policy try --status 429 --retry-after 30 --attempt 3 --delayed 1
  redrive policy try orders -c redrive.yaml --status 409 --body 'already shipped'
  redrive policy try --policy '10s x3' --error java.net.SocketTimeoutException --message 'timed out'
  redrive policy try --policy spring --verdict park --json")]
pub(crate) struct TryArguments {
    /// The flow or policy of the configuration
    #[arg(value_name = "FLOW", conflicts_with = "policy")]
    pub(crate) flow: Option<String>,
    /// The configuration file; default $REDRIVE_CONFIG, then ./redrive.yaml
    #[arg(short, long, value_name = "FILE", conflicts_with = "policy")]
    pub(crate) config: Option<PathBuf>,
    /// A schedule, a preset or a file with one policy; default ladder
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) failure: FailureArguments,
    /// Print the decision as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The seed of the random numbers, for a wait that can be repeated
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// The time of the failure; default now
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[command(after_help = "Ends with 2 when there are errors, with 0 when there are only warnings or notes.

Example:
  redrive config check redrive.yaml")]
pub(crate) struct CheckArguments {
    /// The file; default $REDRIVE_CONFIG, then ./redrive.yaml
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print a JSON object per finding
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file with the settings
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
