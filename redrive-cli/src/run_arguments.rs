//! The arguments of `redrive run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use redrive::core::duration::Period;
use tracing_subscriber::filter::LevelFilter;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  redrive run --from queue:orders --to http://127.0.0.1:3000/orders --retry '1s, 10s, 1m x3'
  redrive run --from queue:orders --to exec:./handle.sh --local '20ms x2' --attempts 5
  redrive run --from queue:orders --to exec:./handle.sh --policy payments
  redrive run --from 'kafka://localhost:9092/orders?group=worker' --to exec:./handle.sh --data ./orders.db
  redrive run --from 'amqp://app:PASSWORD@localhost/prod?queue=orders' --to exec:./handle.sh
  redrive run -c redrive.yaml

Beside --from, a configuration file is looked at for the policy that --policy names and for nothing else; a preset of \
that name wins.

A flow on Kafka or RabbitMQ gets topics or queues for what waits, what is dead and what is parked. What is missing is \
created, and said; --topology check refuses instead, and `redrive topology plan` shows it before. Nothing that exists \
is altered. Of Kafka, any parameter of the address but `group` is an option of librdkafka; secrets are never printed.

The data file holds the queue and the ledger. Beside it lies a folder <file>.d with the lock, the address of the HTTP \
API, its token, and a socket that the other commands use.

SIGTERM and Ctrl-C stop it: running calls get 25 s, what has finished is settled, everything else goes back \
uncharged. A second time hurries.")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) flow: FlowArguments,
    /// Whether missing topics and queues are created, or named and the flow not started
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) topology: Option<TopologyMode>,
    /// Run a part of the flows alone, so that each can be scaled apart
    #[arg(long, value_enum, default_value_t = Role::All, value_name = "PART")]
    pub(crate) role: Role,
    /// Write nothing down of what fails: dead letters live in the broker alone
    #[arg(long)]
    pub(crate) no_ledger: bool,
    /// The address of the HTTP API, or off; default 127.0.0.1:7337, port 0 picks one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Listen where others can reach it, without TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// End with 0 when nothing has been ready, running or waiting for so long
    #[arg(long, value_name = "DURATION")]
    pub(crate) exit_when_idle: Option<Period>,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: LevelFilter,
}

/// Which flows there are: one from flags, or those of a file.
#[derive(Debug, Args)]
pub(crate) struct FlowArguments {
    /// The configuration file; default $REDRIVE_CONFIG, then ./redrive.yaml
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The source: queue:NAME, kafka://HOST:9092/TOPIC?group=GROUP or amqp://HOST/VHOST?queue=QUEUE
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: Option<String>,
    /// The handler: http://…, https://…, exec:COMMAND or jsonl:COMMAND
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub(crate) to: Option<String>,
    /// The flow's name; default the queue's or the first topic's
    #[arg(long, requires = "from")]
    pub(crate) name: Option<String>,
    /// A preset (ladder, time-based, http-client, spring), or a policy of the file
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) policy: Option<String>,
    /// Retries later, others go on
    #[arg(long, value_name = "SCHEDULE", requires = "from")]
    pub(crate) retry: Option<String>,
    /// Retries in place, the message still in hand
    #[arg(long, value_name = "SCHEDULE", requires = "from")]
    pub(crate) local: Option<String>,
    /// Retries that hold the flow
    #[arg(long, value_name = "SCHEDULE", requires = "from")]
    pub(crate) blocking: Option<String>,
    /// What keeps messages in order: none, key, header:NAME, json:/pointer
    #[arg(long, value_name = "WHAT", requires = "from")]
    pub(crate) order_by: Option<String>,
    /// Where a message waits: cascade, tiered, single, pointer, ledger on Kafka; cascade, ring, delayed-exchange, ledger on
    /// RabbitMQ
    #[arg(long, value_name = "MODE", requires = "from")]
    pub(crate) delay: Option<String>,
    /// How many calls run at once; default 64
    #[arg(long, value_name = "CALLS", requires = "from")]
    pub(crate) concurrency: Option<u32>,
    /// How long one call may take; default 30s
    #[arg(long, value_name = "DURATION", requires = "from")]
    pub(crate) timeout: Option<String>,
    /// How often calls may start: 500/s
    #[arg(long, requires = "from")]
    pub(crate) rate: Option<String>,
    /// Calls of the handler in all, the first included
    #[arg(long, value_name = "CALLS", requires = "from")]
    pub(crate) attempts: Option<u32>,
    /// How long after its first failure a message is still tried
    #[arg(long, value_name = "DURATION", requires = "from")]
    pub(crate) max_age: Option<String>,
    /// Who looks after it
    #[arg(long, requires = "from")]
    pub(crate) owner: Option<String>,
    /// The data file; default $REDRIVE_DATA, then the `data` of the configuration, then ./redrive.db
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyMode {
    Apply,
    Check,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Everything
    All,
    /// Reads the source
    Main,
    /// Reads what comes due, and calls the handler
    Retry,
    /// Moves waiting messages on; calls nobody
    Delay,
    /// Shows what failed; calls nobody
    Ledger,
}
