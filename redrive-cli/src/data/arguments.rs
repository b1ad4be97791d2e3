//! The commands that work on a data file, and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use redrive::core::duration::Period;
use redrive::core::guard::Rate;

use super::control_arguments::{PauseArguments, QuarantineCommand, ResumeArguments};
use super::filter::{Conditions, ListFilter, Selected};

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Put messages into a queue or a topic; prints their ids
    Publish(Box<PublishArguments>),
    /// Look at messages that failed
    #[command(
        subcommand,
        after_help = "Examples:
  redrive messages ls --state dead,parked          what failed, the latest first
  redrive messages ls --group GROUP --since 2h     of one failure group, lately
  redrive messages show order-17                   one message, and everything that happened to it
  redrive messages show order-17 --payload         its bytes"
    )]
    Messages(MessagesCommand),
    /// Show failures by what they have in common
    Groups(GroupsArguments),
    /// Show how many messages stand where
    #[command(after_help = "Examples:
  redrive stats
  redrive stats --json | jq '.states[] | select(.state == \"dead\") | .count'")]
    Stats(DataArguments),
    /// Show how flows are, what people ordered of them, and their alarms
    #[command(after_help = "Example:\n  redrive flows --json | jq -r 'select(.alarms != []) | .name'")]
    Flows(DataArguments),
    /// Send messages back that failed, as a job that can be watched and steered
    #[command(
        subcommand,
        after_help = "A replay is planned, frozen and sent to the flow that failed, each message with its bytes \
                      unchanged and its budgets anew. It survives a restart, and the audit has who began it and why.

Examples:
  redrive replay plan --flow orders --state dead     how many, which, what to think about first
  redrive replay run --flow orders --state dead --max 10 --reason 'ten first'
  redrive replay run --flow orders --state dead --rate 50/s --reason 'stock service is back'
  redrive replay ls                                  all of them, newest first
  redrive replay pause ID                            and resume, cancel, show"
    )]
    Replay(ReplayCommand),
    /// Try waiting messages at once, and dead or parked ones again
    RetryNow(Box<DeedArguments>),
    /// Take waiting retries back: the messages are parked
    Cancel(Box<DeedArguments>),
    /// Put messages aside for a person
    Park(Box<DeedArguments>),
    /// Drop messages; `restore` undoes it until retention takes them
    Discard(Box<DeedArguments>),
    /// Undo a discard or an archiving: back to where it was
    Restore(Box<DeedArguments>),
    /// Put messages away that nobody has to look at again
    Archive(Box<DeedArguments>),
    /// Send messages to another queue
    Reroute(Box<RerouteArguments>),
    /// Take messages out of their lanes, which go on without them: the messages are parked
    Skip(Box<DeedArguments>),
    /// Let a flow, or its retries, stand still
    Pause(PauseArguments),
    /// Let a paused flow, or its retries, go on
    Resume(ResumeArguments),
    /// Keep some messages of a flow back, and let them go again
    #[command(
        subcommand,
        after_help = "Example:\n  redrive quarantine add orders tenant=acme --reason 'sends broken orders'"
    )]
    Quarantine(QuarantineCommand),
    /// Publish an edited copy of a message
    Copy(CopyArguments),
    /// Show queues and what lies in them
    #[command(after_help = "Examples:
  redrive queues
  redrive queues --json | jq -r 'select(.ready > 1000) | .name'")]
    Queues(DataArguments),
    /// Look after the ledger
    #[command(subcommand, after_help = "Example:\n  redrive ledger check")]
    Ledger(LedgerCommand),
    /// Look at who did what, and why
    #[command(subcommand, after_help = "Example:\n  redrive audit ls --limit 20")]
    Audit(AuditCommand),
}

/// What every one of these commands takes.
#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    /// The data file; default $REDRIVE_DATA, then the `data` of the configuration, then ./redrive.db
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Makes the data file and the queue when they are not there. Of --lines, blank lines are \
                        passed over; a line of --jsonl has `body` (text, or null for a tombstone) or \
                        `body_base64`, and may have `key`, `id`, `headers` and `delay`.

Examples:
  redrive publish queue:orders '{\"id\": 1}' --key customer-7
  curl -s https://example.com/order.json | redrive publish queue:orders -
  redrive publish queue:orders --file order.json --header type=OrderPlaced --delay 5m
  redrive publish queue:orders --lines orders.txt
  redrive publish queue:orders --jsonl orders.jsonl
  redrive publish kafka://localhost:9092/orders '{\"id\": 1}' --key customer-7
  redrive publish 'amqp://localhost/?queue=orders' '{\"id\": 1}' --delay 5m"
)]
pub(crate) struct PublishArguments {
    /// The queue, such as queue:orders or amqp://localhost/?queue=orders, or a topic, such as
    /// kafka://localhost:9092/orders
    #[arg(value_name = "QUEUE")]
    pub(crate) to: String,
    /// The message's body, or - for standard input
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "lines", "jsonl"])]
    pub(crate) body: Option<String>,
    /// Take the body from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) file: Option<PathBuf>,
    /// Publish each line of a file, or of - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jsonl", "id"])]
    pub(crate) lines: Option<PathBuf>,
    /// Publish each JSON object of a file, or of - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "key", "header", "delay"])]
    pub(crate) jsonl: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) carried: Carried,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

/// What a new message carries beside its body.
#[derive(Debug, Args)]
pub(crate) struct Carried {
    /// The key: messages with one key belong together
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// A header; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Hand it out only after so long
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<Period>,
    /// The message's id; by default one is made
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

/// `NAME=VALUE`.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List messages that failed, the one that failed last first
    Ls(Box<LsArguments>),
    /// Show one message: where it stands, why, and everything that happened to it
    Show(ShowArguments),
}

#[derive(Debug, Args)]
#[command(
    after_help = "States: waiting, held, dead, parked, replaying, recovered, discarded, rejected, archived.
A message that succeeds at once leaves no trace here.

Examples:
  redrive messages ls --state dead,parked
  redrive messages ls --flow orders --since 2h --text timeout
  redrive messages ls --state dead --json | jq -r .id"
)]
pub(crate) struct LsArguments {
    #[command(flatten)]
    pub(crate) filter: ListFilter,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  redrive messages show order-17
  redrive messages show order-17 --payload > order-17.json
  redrive messages show order-17 --json | jq .history")]
pub(crate) struct ShowArguments {
    /// The id of the entry or of the message
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the message's bytes and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) payload: bool,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  redrive groups
  redrive messages ls --group GROUP      the messages of one")]
pub(crate) struct GroupsArguments {
    /// Only of this flow
    #[arg(long, value_name = "FLOW")]
    pub(crate) flow: Option<String>,
    /// At most so many, the largest first
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReplayCommand {
    /// Say what a replay would send, and what to think about first; changes nothing
    Plan(Box<ReplayArguments>),
    /// Freeze the selection, send it back, and follow it until it ends
    Run(Box<RunReplayArguments>),
    /// Send messages of a flow's source to that flow once more, and to nobody else
    Source(SourceReplayArguments),
    /// List replays, newest first
    #[command(
        after_help = "Example:\n  redrive replay ls --json | jq -r 'select(.state == \"running\") | .id'"
    )]
    Ls(ListArguments),
    /// Show a replay, and what became of each message
    #[command(
        after_help = "Example:\n  redrive replay show ID --json | jq -r '.items[] | select(.outcome == \"failed\") | .entry'"
    )]
    Show(ShowReplayArguments),
    /// Hold a replay
    #[command(after_help = "Example:\n  redrive replay pause ID --reason 'the stock service is slow'")]
    Pause(SteerArguments),
    /// Let a held replay go on
    #[command(after_help = "Example:\n  redrive replay resume ID")]
    Resume(SteerArguments),
    /// End a replay; what was not sent stays where it is
    #[command(after_help = "Example:\n  redrive replay cancel ID --reason 'they fail again'")]
    Cancel(SteerArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Dead and parked messages can be sent. Takes the same arguments as `replay run`.

Examples:
  redrive replay plan --flow orders --state dead --since 2h
  redrive replay plan --group GROUP --max 1000")]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    pub(crate) selected: Selected,
    /// At most so many sends in a time, such as 50/s
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    /// At most so many messages
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max: Option<u64>,
    /// Send so many first, and the rest when these have come to an end
    #[arg(long, value_name = "NUMBER")]
    pub(crate) canary: Option<u64>,
    /// Why; stands in the audit when the replay is run
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Dead and parked messages can be sent; each begins its policy anew. When no instance runs, the \
                        messages are made due, and tried when `redrive run` runs on the file.
Ends with 1 when a message failed again, with 3 when nothing fits.

Examples:
  redrive replay run --flow orders --state dead --since 2h --reason 'stock service is back'
  redrive replay run --group GROUP --rate 50/s --max 1000 --reason 'fixed in 2.4.1'
  redrive replay run order-17 order-18 --reason 'asked by the customer' --detach"
)]
pub(crate) struct RunReplayArguments {
    #[command(flatten)]
    pub(crate) plan: ReplayArguments,
    /// Return at once; `redrive replay show` tells how far it is
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The messages are read from the source once more, put where the flow finds them beside it, and handled \
                  as fresh ones that carry the replay's id. Other readers of the topic see nothing of it. An instance \
                  has to run the flow.

Examples:
  redrive replay source orders --since 2h --reason 'the projection was empty'
  redrive replay source orders --since 2026-07-01T09:00:00Z --until 2026-07-01T10:00:00Z --reason 'lost an hour'
  redrive replay source orders --offsets 3:100-199 --offsets 4:90-120 --reason 'asked by accounting'"
)]
pub(crate) struct SourceReplayArguments {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub(crate) flow: String,
    /// What was published since then: a time, or how long ago
    #[arg(long, value_name = "TIME", required_unless_present = "offsets")]
    pub(crate) since: Option<String>,
    /// And until then; default now
    #[arg(long, value_name = "TIME", requires = "since")]
    pub(crate) until: Option<String>,
    /// Offsets of a partition, the last one included; may be repeated
    #[arg(long, value_name = "PARTITION:FIRST-LAST", conflicts_with = "since")]
    pub(crate) offsets: Vec<String>,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ShowReplayArguments {
    /// The replay's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// At most so many of its messages
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SteerArguments {
    /// The replay's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Takes ids, or the filter of `messages ls`; `--reason` says why, so the failure's reason is \
                        --failure-reason here. Who did it is $REDRIVE_USER, else the login name.
Ends with 3 when an id is not there or nothing fits, with 4 when a message's state does not allow it.

Examples:
  redrive discard order-17 order-18 --reason 'test orders'
  redrive retry-now --flow orders --state waiting --reason 'stock service is back'
  redrive park --key customer-7 --state waiting --reason 'customer asked us to wait'"
)]
pub(crate) struct DeedArguments {
    #[command(flatten)]
    pub(crate) selected: Selected,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "The message goes to the other queue as it was published; the entry is archived.

Examples:
  redrive reroute order-17 order-18 queue:orders-by-hand --reason 'needs a person'
  redrive reroute --flow orders --state parked queue:orders-by-hand --reason 'needs a person'")]
pub(crate) struct RerouteArguments {
    /// Ids of entries or messages, and last the queue or topic: queue:orders-by-hand, kafka://HOSTS/TOPIC,
    /// amqp://HOST/VHOST?queue=QUEUE
    #[arg(value_name = "ID… TARGET", required = true)]
    pub(crate) ids_and_target: Vec<String>,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The copy is a new message with its own id and budgets, and carries the id of its parent. Key, \
                        headers and content type are the original's, unless others are given. Prints the new id.

Example:
  redrive messages show order-17 --payload > order-17.json
  $EDITOR order-17.json
  redrive copy order-17 --edit order-17.json --reason 'corrected the address'"
)]
pub(crate) struct CopyArguments {
    /// The id of the entry or of the message
    #[arg(value_name = "ID")]
    pub(crate) of: String,
    /// The edited body: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) edit: PathBuf,
    /// Another content type
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) carried: Carried,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Look for what cannot be right; ends with 1 when there is something
    #[command(after_help = "Example:\n  redrive ledger check --data /var/lib/redrive/orders.db")]
    Check(DataArguments),
    /// Make entries again from what the flows' brokers keep
    #[command(
        after_help = "Reads the delay, dead-letter and parking topics of the flows that run, from their beginning. \
                            What the ledger knows stays as it is, and what people resolved is not brought back. An \
                            instance has to run on the file.

Example:
  redrive ledger rebuild --flow orders --reason 'new data file'"
    )]
    Rebuild(RebuildArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RebuildArguments {
    /// The flow; default all that run
    #[arg(long, value_name = "FLOW")]
    pub(crate) flow: Option<String>,
    /// Why; stands in the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List who did what, newest first
    #[command(after_help = "Example:\n  redrive audit ls --json | jq 'select(.who == \"ada\")'")]
    Ls(AuditArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) common: DataArguments,
}
