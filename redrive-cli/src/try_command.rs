//! `policy try`: the decision about a failed message, and why.

use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redrive::core::classify::Subject;
use redrive::core::duration::print;
use redrive::core::{Random, SplitMix64};
use redrive::{Action, Decision, Timestamp, codes, decide};
use serde::Serialize;

use crate::arguments::TryArguments;
use crate::problem::{FAILED, Problem};
use crate::terminal::BOLD;
use crate::which_policy::{self, Chosen};
use crate::{files, terminal};

/// The decision, and what it could be with other random numbers.
#[derive(Serialize)]
struct Tried {
    #[serde(flatten)]
    decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_min_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_max_ms: Option<u64>,
    /// What happens instead when the wait turns out long.
    #[serde(skip_serializing_if = "Option::is_none")]
    or: Option<&'static str>,
    text: String,
}

pub(crate) fn run(arguments: &TryArguments) -> Result<ExitCode, Problem> {
    let chosen = choose(arguments)?;
    if let Some(success) = arguments.failure.success() {
        return acked(&chosen, &success, arguments.json);
    }
    let policy = if chosen.rejects { chosen.policy.with_reject_target() } else { chosen.policy };
    let now = arguments.now.unwrap_or_else(wall_clock);
    let (failure, headers) = (arguments.failure.failure(), arguments.failure.headers());
    let history = arguments.failure.history(now);
    let subject = Subject {
        message_type: arguments.failure.message_type.as_deref(),
        schema: arguments.failure.schema.as_deref(),
        producer: arguments.failure.producer.as_deref(),
        deadline: arguments.failure.deadline,
        headers: Some(&headers),
    };
    let decided = |rng: &mut dyn Random| decide(&policy, &subject, &history, &failure, now, rng);
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let decision = decided(&mut SplitMix64::new(seed));
    let (least, most) = (decided(&mut Always(0)), decided(&mut Always(u64::MAX)));
    let other = [&least, &most].into_iter().find(|other| other.action.name() != decision.action.name());
    let in_millis =
        |wait: Option<Duration>| wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    let wait = |decision: &Decision| wait(&decision.action, now);
    if arguments.json {
        let tried = Tried {
            wait_ms: in_millis(wait(&decision)),
            wait_min_ms: in_millis(wait(&least)),
            wait_max_ms: in_millis(wait(&most)),
            or: other.map(|other| other.action.name()),
            text: decision.because.to_string(),
            decision,
        };
        let line = serde_json::to_string(&tried);
        let line = line.map_err(|error| Problem::new(codes::WRONG_ARGUMENT, FAILED, error.to_string()))?;
        return terminal::print(&format!("{line}\n"));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    line("policy", chosen.title);
    line("decision", format!("{BOLD}{}{BOLD:#}", decision.action.name().replace('_', " ")));
    line("class", decision.class.to_string());
    line("reason", decision.reason.to_string());
    if let Some(taken) = wait(&decision) {
        let range = match (wait(&least), wait(&most)) {
            (Some(least), Some(most)) if least != most => {
                format!("{} to {}, this time {}", print(least), print(most), print(taken))
            }
            _ => print(taken).to_string(),
        };
        line("wait", range);
        line("due", local(now + taken));
    }
    if let Action::Follow { id } = &decision.action {
        line("follows", id.to_string());
    }
    line("because", decision.because.to_string());
    if let Some(other) = other {
        let or = format!("{} when the wait turns out otherwise: {}", other.action.name(), other.because);
        line("or", or);
    }
    terminal::print(&text)
}

/// A success is no failure to decide about: whatever the policy, the message is done.
fn acked(chosen: &Chosen, success: &str, json: bool) -> Result<ExitCode, Problem> {
    let text = format!("success: {success}");
    if json {
        let by = serde_json::json!({ "by": { "kind": "success" } });
        let line = serde_json::json!({ "action": Action::Ack.name(), "because": by, "text": text });
        return terminal::print(&format!("{line}\n"));
    }
    let decision = Action::Ack.name();
    terminal::print(&format!(
        "{:<9} {}\n{:<9} {BOLD}{decision}{BOLD:#}\n{:<9} {text}\n",
        "policy", chosen.title, "decision", "because"
    ))
}

fn choose(arguments: &TryArguments) -> Result<Chosen, Problem> {
    let message_type = arguments.failure.message_type.as_deref();
    if let Some(policy) = &arguments.policy {
        return which_policy::from_text(policy, None, message_type);
    }
    match (&arguments.flow, files::config(arguments.config.as_deref())) {
        (None, None) => which_policy::from_text("ladder", None, message_type),
        (Some(_), None) => Err(files::no_config()),
        (flow, Some(config)) => which_policy::from_file(&config, flow.as_deref(), message_type),
    }
}

fn wait(action: &Action, now: Timestamp) -> Option<Duration> {
    match action {
        Action::RetryInPlace { after } => Some(*after),
        Action::Block { until } | Action::Delay { until } => Some(until.since(now)),
        _ => None,
    }
}

/// A source of one number: the ends of what can happen.
struct Always(u64);

impl Random for Always {
    fn next_u64(&mut self) -> u64 {
        self.0
    }
}

/// The time on the wall. This and the seed below are the only things a decision takes from the machine.
pub(crate) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A time as people read it: on their own clock, with its zone.
fn local(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(instant) => {
            instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()
        }
        Err(_) => time.to_string(),
    }
}

/// A seed that differs from run to run; the standard library seeds its hash maps from the operating system.
fn random_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
