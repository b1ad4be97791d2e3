//! `redrive run`: one flow from flags, or many from a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use redrive::config::{self, Config};
use redrive::setup::{InCode, flow_spec};
use redrive::signals::told_to_stop;
use redrive::sqlite::Durability;
use redrive::{Error, Instance, InstanceOptions, codes};

use crate::problem::{FAILED, Problem, USAGE};
use crate::run_arguments::{LogFormat, RunArguments};
use crate::{files, run_config, terminal};

/// Where the API listens when nobody says anything.
const LISTEN: &str = "127.0.0.1:7337";

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Problem> {
    let config = run_config::of(arguments)?;
    let data = files::data(arguments.data.as_deref(), arguments.config.as_deref())?;
    log(arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))?;
    runtime.block_on(serve(arguments, &config, data)).map_err(|error| problem(&error))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: &RunArguments, config: &Config, data: PathBuf) -> Result<(), Error> {
    let metrics = redrive::server::recorder().ok().and_then(|recorder| {
        let handle = recorder.handle();
        redrive::server::install(recorder).then_some(handle)
    });
    if let Some(handle) = metrics.clone() {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                handle.run_upkeep();
            }
        });
    }
    let mut instance = Instance::open(options(arguments, config, data)?, metrics).await?;
    for (name, flow) in &config.flows {
        let spec = flow_spec(config, name, InCode::default(), &files::env)?;
        instance.start(spec, &flow.to.to_string()).await?;
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
    let builder = tracing_subscriber::fmt()
        .with_max_level(arguments.log_level)
        .with_writer(std::io::stderr)
        .with_target(false);
    match arguments.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

fn problem(error: &Error) -> Problem {
    let exit = match error {
        Error::Flow(_) | Error::Setup(_) | Error::Listen(_) | Error::Token(_) => USAGE,
        _ => FAILED,
    };
    Problem::new(error.code(), exit, error.to_string())
}
