//! What `redrive run` runs: the configuration of a file, or the one that the flags spell.

use std::collections::BTreeMap;
use std::path::Path;

use redrive::config::{self, Config, Severity};
use redrive::core::Date;
use redrive::core::policy::Preset;
use redrive::{PolicySpec, codes};
use serde_json::{Map, Value, json};

use crate::problem::{FAILED, MISSING, Problem, USAGE};
use crate::run_arguments::FlowArguments;
use crate::which_policy::{self, PRESETS};
use crate::{files, report};

type Holidays = BTreeMap<String, Vec<Date>>;

/// The configuration of the file, or the one that the flags spell. `to` is the handler where none is needed.
pub(crate) fn of(arguments: &FlowArguments, to: Option<&str>) -> Result<Config, Problem> {
    let (name, bytes) = match &arguments.from {
        Some(from) => ("the flags".to_owned(), spelled(arguments, from, to)?.into_bytes()),
        None => {
            let path = files::config(arguments.config.as_deref()).ok_or_else(|| {
                Problem::new(codes::NO_CONFIG, USAGE, "there is nothing to run")
                    .with_help("give --from and --to, name a file with -c FILE, or put a redrive.yaml here")
            })?;
            (path.display().to_string(), files::read(&path)?)
        }
    };
    let checked = match files::named_data(arguments.data.as_deref()) {
        // Whoever names the data beside the file has named it.
        Some(data) => config::check_with_data(&bytes, &files::env, &data.to_string_lossy()),
        None => config::check(&bytes, &files::env),
    };
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
fn spelled(arguments: &FlowArguments, from: &str, to: Option<&str>) -> Result<String, Problem> {
    if arguments.config.is_some() && arguments.policy.is_none() {
        let text = "--config and --from stand together";
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, text)
            .with_help("give one of them; beside --from, a file only has the policy that --policy names"));
    }
    let to = arguments.to.as_deref().or(to).ok_or_else(|| {
        Problem::new(codes::WRONG_ARGUMENT, USAGE, "--from needs --to").with_help(
            "--to http://127.0.0.1:3000/orders, --to 'exec:./handle.sh' or --to 'jsonl:./worker.py'",
        )
    })?;
    let name = arguments.name.clone().unwrap_or_else(|| redrive::setup::usual_name(from));
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
    if let Some(policy) = &arguments.policy {
        let (spec, holidays) = policy_of(policy, arguments.config.as_deref())?;
        file["policies"] = json!({ policy: spec });
        file["holidays"] = json!(holidays);
    }
    serde_json::to_string_pretty(&file)
        .map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))
}

/// A preset, or a policy of the configuration file with all that lies under it there.
fn policy_of(name: &str, file: Option<&Path>) -> Result<(PolicySpec, Holidays), Problem> {
    if let Ok(preset) = name.parse::<Preset>() {
        return Ok((PolicySpec { preset: Some(preset), ..PolicySpec::default() }, Holidays::new()));
    }
    let missing = |what: String, help: String| Problem::new(codes::NOT_FOUND, MISSING, what).with_help(help);
    let Some(path) = files::config(file) else {
        return Err(missing(
            format!("`{name}` is no preset, and there is no configuration file with policies"),
            format!("presets: {PRESETS}; or name a file with -c FILE or $REDRIVE_CONFIG"),
        ));
    };
    let config = which_policy::usable(&path, config::check(&files::read(&path)?, &files::env))?;
    match config.policy(name) {
        Some(spec) => Ok((spec, config.holidays)),
        None => {
            let policies: Vec<_> = config.policies.keys().map(String::as_str).collect();
            Err(missing(
                format!("`{name}` is no preset, and {} has no policy of that name", path.display()),
                format!("presets: {PRESETS}; policies: {}", which_policy::listed(&policies)),
            ))
        }
    }
}

fn handler(to: &str, timeout: Option<&str>) -> Value {
    let Some(timeout) = timeout else { return json!(to) };
    match to.split_once(':') {
        Some((kind @ ("exec" | "jsonl"), command)) => json!({ kind: command, "timeout": timeout }),
        _ => json!({ "http": to, "timeout": timeout }),
    }
}
