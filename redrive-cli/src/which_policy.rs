//! Which policy is meant: a schedule, a preset, a file, or a name in a configuration.

use std::path::Path;

use redrive::config::{self, Config, Report, Severity};
use redrive::core::policy::{self, ByClass, Preset};
use redrive::{Policy, PolicySpec, Schedule, codes};

use crate::problem::{MISSING, Problem, USAGE};
use crate::{files, report};

/// The presets there are.
pub(crate) const PRESETS: &str = "ladder, time-based, http-client, spring";

/// A policy and what to call it.
pub(crate) struct Chosen {
    pub(crate) title: String,
    pub(crate) policy: Policy,
    /// Whether its flow sends rejection events somewhere.
    pub(crate) rejects: bool,
}

impl Chosen {
    fn new(title: impl Into<String>, spec: &PolicySpec) -> Result<Self, Problem> {
        let policy = spec.build().map_err(|findings| {
            let told: Vec<_> = findings.iter().map(ToString::to_string).collect();
            Problem::new(codes::POLICY_UNUSABLE, USAGE, told.join("\n"))
        })?;
        Ok(Self { title: title.into(), policy, rejects: false })
    }
}

/// A schedule, a preset or a file.
pub(crate) fn from_text(
    what: &str,
    name: Option<&str>,
    message_type: Option<&str>,
) -> Result<Chosen, Problem> {
    if let (Ok(preset), None) = (what.parse::<Preset>(), name) {
        return Chosen::new(format!("preset {preset}"), &preset.spec());
    }
    let schedule = match what.parse::<Schedule>() {
        Ok(schedule) if name.is_none() => {
            // Without a budget only a blocking retry may go on for ever.
            let endless = schedule.is_unlimited();
            let title = format!("{} {schedule}", if endless { "blocking" } else { "retry" });
            let layer = Some(ByClass::general(schedule));
            let spec = if endless {
                PolicySpec { blocking: layer, ..PolicySpec::default() }
            } else {
                PolicySpec { retry: layer, ..PolicySpec::default() }
            };
            warn(&spec);
            return Chosen::new(title, &spec);
        }
        other => other,
    };
    let path = Path::new(what);
    let kind = match (&schedule, what.parse::<Preset>()) {
        (_, Ok(_)) => Some("a preset"),
        (Ok(_), _) => Some("a schedule"),
        _ => None,
    };
    if let (Some(kind), Some(name)) = (kind.filter(|_| !path.exists()), name) {
        let message = format!("`{what}` is {kind}, and there is no `{name}` in it");
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, message)
            .with_help(format!("leave `{name}` out, or name the file that it stands in")));
    }
    let looks_like_a_file =
        path.exists() || name.is_some() || path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    match schedule {
        Err(error) if !looks_like_a_file => {
            let help = format!("it is no preset ({PRESETS}) and no file either");
            Err(Problem::in_text(codes::WRONG_ARGUMENT, what, &error).with_help(help))
        }
        _ => from_file(path, name, message_type),
    }
}

/// What is questionable about a policy goes to stderr. What makes it unusable is told when it is built.
fn warn(spec: &PolicySpec) {
    let warnings = spec.check().into_iter().filter(|finding| finding.severity == policy::Severity::Warning);
    for finding in warnings {
        crate::terminal::say(&format!("warning: {finding}"));
    }
}

/// A file with one policy, or a configuration with the name of a flow or policy in it.
pub(crate) fn from_file(
    path: &Path,
    name: Option<&str>,
    message_type: Option<&str>,
) -> Result<Chosen, Problem> {
    let bytes = files::read(path)?;
    if config::is_config(&bytes) {
        let config = usable(path, config::check(&bytes, &files::env))?;
        return from_config(&config, path, name, message_type);
    }
    if let Some(name) = name {
        let message = format!("{} holds one policy, and none called `{name}`", path.display());
        return Err(Problem::new(codes::NOT_FOUND, MISSING, message));
    }
    let spec = usable(path, config::check_policy(&bytes, &files::env))?;
    Chosen::new(path.display().to_string(), &spec)
}

/// What was read, after its findings have been shown; notes are left out.
pub(crate) fn usable<T>(path: &Path, report: Report<T>) -> Result<T, Problem> {
    let found: Vec<_> =
        report.findings.iter().filter(|finding| finding.severity > Severity::Note).cloned().collect();
    if !found.is_empty() {
        report::findings(&path.display().to_string(), &report.source, &found);
    }
    report.value.ok_or_else(|| Problem::summary(format!("{}: {}", path.display(), report::counted(&found))))
}

fn from_config(
    config: &Config,
    path: &Path,
    name: Option<&str>,
    message_type: Option<&str>,
) -> Result<Chosen, Problem> {
    let flows: Vec<_> = config.flows.keys().map(String::as_str).collect();
    let policies: Vec<_> = config.policies.keys().map(String::as_str).collect();
    let nearest = name.and_then(|name| config::nearest(name, flows.iter().chain(&policies).copied()));
    let nearest = nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "));
    let known = format!("{nearest}flows: {}; policies: {}", listed(&flows), listed(&policies));
    let Some(name) = name else {
        // With a single flow, or no flow and a single policy, there is nothing to choose.
        return match (flows.as_slice(), policies.as_slice()) {
            ([only], _) | ([], [only]) => from_config(config, path, Some(only), message_type),
            _ => Err(Problem::new(
                codes::NAME_NEEDED,
                USAGE,
                format!("{} has several flows and policies; say which one", path.display()),
            )
            .with_help(known)),
        };
    };
    if let Some(spec) = config.flow_policy(name, message_type) {
        let mut chosen = Chosen::new(format!("flow {name}"), &spec)?;
        chosen.rejects = config.flows.get(name).is_some_and(|flow| flow.rejected.is_some());
        return Ok(chosen);
    }
    match config.policy(name) {
        Some(spec) => Chosen::new(format!("policy {name}"), &spec),
        None => Err(Problem::new(
            codes::NOT_FOUND,
            MISSING,
            format!("{} has no flow and no policy called `{name}`", path.display()),
        )
        .with_help(known)),
    }
}

pub(crate) fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
