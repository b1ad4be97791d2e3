//! `redrive run`: one flow from flags, or many from a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redrive::config::{self, Config, Severity};
use redrive::setup::{InCode, flow_spec};
use redrive::signals::told_to_stop;
use redrive::sqlite::Durability;
use redrive::{Error, Instance, InstanceOptions, codes};
use serde_json::{Map, Value, json};

use crate::problem::{FAILED, Problem, USAGE};
use crate::run_arguments::{LogFormat, RunArguments};
use crate::{files, report, terminal};

/// Where the API listens when nobody says anything.
const LISTEN: &str = "127.0.0.1:7337";

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Problem> {
    let config = configuration(arguments)?;
    log(arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))?;
    runtime.block_on(serve(arguments, &config)).map_err(|error| problem(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration of the file, or the one that the flags spell.
fn configuration(arguments: &RunArguments) -> Result<Config, Problem> {
    let (name, bytes) = match &arguments.from {
        Some(from) => ("the flags".to_owned(), spelled(arguments, from)?.into_bytes()),
        None => {
            let path = files::config(arguments.config.as_deref()).ok_or_else(|| {
                Problem::new(codes::NO_CONFIG, USAGE, "there is nothing to run")
                    .with_help("give --from and --to, name a file with -c FILE, or put a redrive.yaml here")
            })?;
            (path.display().to_string(), files::read(&path)?)
        }
    };
    let checked = config::check(&bytes, &files::env);
    if checked.count(Severity::Error) > 0 || checked.count(Severity::Warning) > 0 {
        report::findings(&name, &checked.source, &checked.findings);
    }
    let config = checked.value.ok_or_else(|| Problem::summary(report::counted(&checked.findings)))?;
    if config.flows.is_empty() {
        return Err(Problem::new(codes::NO_CONFIG, USAGE, format!("{name} has no flows"))
            .with_help("give `flows:` at least one, or use --from and --to"));
    }
    Ok(config)
}

/// The flags as a configuration file, so that they are checked by the same rules.
fn spelled(arguments: &RunArguments, from: &str) -> Result<String, Problem> {
    let to = arguments.to.as_deref().ok_or_else(|| {
        Problem::new(codes::WRONG_ARGUMENT, USAGE, "--from needs --to").with_help(
            "--to http://127.0.0.1:3000/orders, --to 'exec:./handle.sh' or --to 'jsonl:./worker.py'",
        )
    })?;
    let name = arguments.name.clone().unwrap_or_else(|| {
        let source = from.split('?').next().unwrap_or(from);
        source.rsplit([':', '/']).next().filter(|name| !name.is_empty()).unwrap_or("flow").to_owned()
    });
    let mut flow = Map::new();
    flow.insert("from".into(), json!(from));
    flow.insert("to".into(), handler(to, arguments.timeout.as_deref()));
    let texts = [
        ("policy", &arguments.policy),
        ("retry", &arguments.retry),
        ("local", &arguments.local),
        ("blocking", &arguments.blocking),
        ("order_by", &arguments.order_by),
        ("delay", &arguments.delay),
        ("rate", &arguments.rate),
        ("owner", &arguments.owner),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            flow.insert(key.into(), json!(value));
        }
    }
    if let Some(concurrency) = arguments.concurrency {
        flow.insert("concurrency".into(), json!(concurrency));
    }
    let mut budgets = Map::new();
    if let Some(attempts) = arguments.attempts {
        budgets.insert("attempts".into(), json!(attempts));
    }
    if let Some(age) = &arguments.max_age {
        budgets.insert("age".into(), json!(age));
    }
    if !budgets.is_empty() {
        flow.insert("budgets".into(), budgets.into());
    }
    let mut file = json!({ "version": 1, "flows": { name: flow } });
    if let Some(policy) = &arguments.policy
        && let Ok(preset) = policy.parse::<redrive::core::policy::Preset>()
    {
        // A preset needs no file that defines it.
        file["policies"] = json!({ policy: { "preset": preset } });
    }
    serde_json::to_string_pretty(&file)
        .map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))
}

fn handler(to: &str, timeout: Option<&str>) -> Value {
    let Some(timeout) = timeout else { return json!(to) };
    match to.split_once(':') {
        Some((kind @ ("exec" | "jsonl"), command)) => json!({ kind: command, "timeout": timeout }),
        _ => json!({ "http": to, "timeout": timeout }),
    }
}

async fn serve(arguments: &RunArguments, config: &Config) -> Result<(), Error> {
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
    let mut instance = Instance::open(options(arguments, config)?, metrics).await?;
    for (name, flow) in &config.flows {
        let spec = flow_spec(config, name, InCode::default(), &files::env)?;
        let to = match &flow.to {
            config::Handler::Address(address) => address.to_string(),
            config::Handler::Full(spec) => spec.http.as_ref().map_or_else(
                || spec.exec.clone().or_else(|| spec.jsonl.clone()).unwrap_or_default(),
                ToString::to_string,
            ),
        };
        instance.start(spec, &to).await?;
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

fn options(arguments: &RunArguments, config: &Config) -> Result<InstanceOptions, Error> {
    let data = data_file(arguments.data.as_deref(), config)?;
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

/// The data file: the flag, the environment, the configuration, `./redrive.db`.
fn data_file(named: Option<&Path>, config: &Config) -> Result<PathBuf, Error> {
    let from_env = || std::env::var_os("REDRIVE_DATA").filter(|data| !data.is_empty()).map(PathBuf::from);
    let of_file = || config.data.as_ref().map(|data| PathBuf::from(&**data));
    let data =
        named.map(Path::to_owned).or_else(of_file).or_else(from_env).unwrap_or_else(|| "redrive.db".into());
    if data.to_string_lossy().starts_with("postgres://") {
        return Err(Error::Flow("data: PostgreSQL is not in this build; give a file".to_owned()));
    }
    Ok(data)
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
    Problem::new(codes::CANNOT_RUN, exit, error.to_string())
}
