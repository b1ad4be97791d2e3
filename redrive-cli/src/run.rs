//! `redrive run`: one flow from flags, or many from a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use redrive::config::{self, Config};
use redrive::setup::{self, InCode, Part, Setup, SetupError};
use redrive::signals::told_to_stop;
use redrive::sqlite::Durability;
use redrive::{Error, Instance, InstanceOptions, Started, codes};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::problem::{FAILED, Problem, REFUSED, USAGE};
use crate::run_arguments::{LogFormat, Role, RunArguments, TopologyMode};
use crate::{files, run_config, terminal, topology};

/// Where the API listens when nobody says anything.
const LISTEN: &str = "127.0.0.1:7337";

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Problem> {
    let mut config = run_config::of(&arguments.flow, None)?;
    if let Some(topology) = arguments.topology {
        let topology = match topology {
            TopologyMode::Apply => config::Topology::Apply,
            TopologyMode::Check => config::Topology::Check,
        };
        config.flows.values_mut().for_each(|flow| flow.topology = Some(topology));
    }
    let data = files::data(arguments.flow.data.as_deref(), arguments.flow.config.as_deref())?;
    log(arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))?;
    runtime.block_on(serve(arguments, &config, data)).map_err(|error| problem(&error))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: &RunArguments, config: &Config, data: PathBuf) -> Result<(), Error> {
    let metrics = redrive::server::keep_figures();
    let mut instance = Instance::open(options(arguments, config, data)?, metrics).await?;
    for (name, flow) in &config.flows {
        let flow_setup = set_up(arguments, config, name)?;
        let started = instance.start(flow_setup, &flow.to.to_string()).await?;
        report_topology(name, &started);
    }
    instance.ready();
    match instance.address() {
        Some(address) => terminal::say(&format!("redrive ready http://{address}")),
        None => terminal::say("redrive ready"),
    }
    tokio::select! {
        told = told_to_stop() => {
            told?;
            terminal::say("redrive stops; once more to hurry");
        }
        () = idle(&instance, arguments) => {}
    }
    instance
        .stop(async {
            let _ = told_to_stop().await;
        })
        .await;
    Ok(())
}

fn set_up(arguments: &RunArguments, config: &Config, name: &str) -> Result<Setup, SetupError> {
    let part = match arguments.role {
        Role::All => Part::All,
        Role::Main => Part::Main,
        Role::Retry => Part::Retry,
        Role::Delay => Part::Delay,
        Role::Ledger => Part::Ledger,
    };
    let whole = setup::flow(config, name, InCode::default(), &files::env)?.part(part)?;
    if arguments.no_ledger { whole.without_ledger() } else { Ok(whole) }
}

/// Says what was created at a flow's broker, and what there is not as it should be.
fn report_topology(flow: &str, started: &Started) {
    for line in topology::created(&started.created) {
        terminal::say(&format!("{flow}: created {line}"));
    }
    for thing in &started.differs {
        for drift in &thing.drift {
            terminal::say(&format!("{flow}: {} {}: {}", thing.kind, thing.name, drift));
        }
    }
}

async fn idle(instance: &Instance, arguments: &RunArguments) {
    match arguments.exit_when_idle {
        Some(long) => instance.idle(long.0).await,
        None => std::future::pending().await,
    }
}

fn options(arguments: &RunArguments, config: &Config, data: PathBuf) -> Result<InstanceOptions, Error> {
    if config.tls.is_some() {
        let what = "tls: is not in this build; listen on 127.0.0.1 behind a proxy that has it";
        return Err(Error::Flow(what.to_owned()));
    }
    let listen = arguments.listen.as_deref().or(config.listen.as_deref()).unwrap_or(LISTEN);
    let relaxed = config.flows.values().any(|flow| flow.durability == Some(config::Durability::Relaxed));
    Ok(InstanceOptions {
        listen: address(listen)?,
        insecure: arguments.insecure || config.insecure,
        token: std::env::var("REDRIVE_TOKEN").ok().filter(|token| !token.is_empty()),
        durability: if relaxed { Durability::Relaxed } else { Durability::Full },
        file_limit: file_limit(),
        ..InstanceOptions::new(data)
    })
}

/// A limit that a test sets, to see what a full disk does; in a build without debug assertions there is none.
fn file_limit() -> Option<u64> {
    #[cfg(debug_assertions)]
    return std::env::var("REDRIVE_FILE_LIMIT").ok().and_then(|bytes| bytes.parse().ok());
    #[cfg(not(debug_assertions))]
    None
}

fn address(listen: &str) -> Result<Option<SocketAddr>, Error> {
    if listen == "off" {
        return Ok(None);
    }
    let listen = listen.replace("localhost:", "127.0.0.1:");
    listen.parse().map(Some).map_err(|_| {
        Error::Flow(format!("--listen {listen}: expected an address and a port such as {LISTEN}, or off"))
    })
}

fn log(arguments: &RunArguments) {
    let level = arguments.log_level;
    // The client library of RabbitMQ would write every frame, and so the password and what people's messages say; and each
    // no of the broker as an error, also where it was only asked whether something is there.
    let wanted = Targets::new().with_default(level).with_target("lapin", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry();
    match arguments.log_format {
        LogFormat::Text => registry.with(lines.with_ansi(false).with_filter(wanted)).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(wanted)).init(),
    }
}

fn problem(error: &Error) -> Problem {
    let exit = match error {
        Error::Missing { .. } => REFUSED,
        Error::Flow(_) | Error::Setup(_) | Error::Listen(_) | Error::Token(_) => USAGE,
        _ => FAILED,
    };
    let problem = Problem::new(error.code(), exit, error.to_string());
    if matches!(error, Error::Missing { .. }) {
        return problem.with_help("`redrive topology plan` shows it, `redrive topology apply` creates it");
    }
    problem
}
