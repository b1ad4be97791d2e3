//! `pause`, `resume` and `quarantine`: what people order flows to do.

use std::process::ExitCode;

use redrive::engine::port::Control;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::control_arguments::{OrderArguments, QuarantineCommand, QuarantinesArguments, TargetArguments};
use super::filter::encoded;
use super::flows::ordered;
use super::shown::{self, brief, counted, local, plain};
use super::who;
use crate::problem::Problem;
use crate::{table, terminal};

/// What the API says of an order.
#[derive(Deserialize)]
struct Given {
    running: bool,
    released: u64,
    controls: Vec<Control>,
}

pub(crate) async fn pause(arguments: &OrderArguments) -> Result<ExitCode, Problem> {
    let flow = plain(&arguments.flow);
    let done = if arguments.retries {
        format!("the retries of {flow} are paused")
    } else {
        format!("{flow} is paused")
    };
    steer("pause", arguments, &done).await
}

pub(crate) async fn resume(arguments: &OrderArguments) -> Result<ExitCode, Problem> {
    let flow = plain(&arguments.flow);
    let done =
        if arguments.retries { format!("the retries of {flow} go on") } else { format!("{flow} goes on") };
    steer("resume", arguments, &done).await
}

async fn steer(verb: &str, arguments: &OrderArguments, done: &str) -> Result<ExitCode, Problem> {
    let path = format!("/v1/flows/{}/{verb}", encoded(&arguments.flow));
    let mut order = json!({ "retries": arguments.retries });
    sign(&mut order, &arguments.reason);
    give(&arguments.common, &path, order, &arguments.flow, |_| done.to_owned()).await
}

pub(crate) async fn quarantine(command: &QuarantineCommand) -> Result<ExitCode, Problem> {
    match command {
        QuarantineCommand::Add(arguments) => {
            let what = named(&arguments.target);
            keep("/v1/quarantines", &arguments.target, |_| format!("{what} is in quarantine")).await
        }
        QuarantineCommand::Rm(arguments) => {
            let what = named(&arguments.target);
            let done = |given: &Given| format!("{what} is released: {}", counted(given.released, "message"));
            keep("/v1/quarantines/release", &arguments.target, done).await
        }
        QuarantineCommand::Ls(arguments) => list(arguments).await,
    }
}

fn named(target: &TargetArguments) -> String {
    format!("{} of {}", plain(&target.which.to_string()), plain(&target.flow))
}

async fn keep(
    path: &str,
    target: &TargetArguments,
    done: impl FnOnce(&Given) -> String,
) -> Result<ExitCode, Problem> {
    let mut order = json!({ "flow": target.flow, "target": target.which.to_string() });
    sign(&mut order, &target.reason);
    give(&target.common, path, order, &target.flow, done).await
}

fn sign(order: &mut Value, reason: &str) {
    order["reason"] = json!(reason);
    if let Some(by) = who::name() {
        order["by"] = json!(by);
    }
}

async fn give(
    common: &DataArguments,
    path: &str,
    order: Value,
    flow: &str,
    done: impl FnOnce(&Given) -> String,
) -> Result<ExitCode, Problem> {
    let data = Data::open(common, Absent::Refuse).await?;
    let answer = data.post(path, &order).await?;
    let given: Given = shown::typed(&answer)?;
    let flow = plain(flow);
    if !given.running && data.store().is_some() {
        terminal::say(&format!(
            "no instance runs: in force when a flow of the name {flow} starts on this file"
        ));
    } else if !given.running {
        terminal::say(&format!("{flow} does not run here"));
    }
    if common.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let printed = terminal::print(&format!("{}\n", done(&given)))?;
    // Who ends one pause should know of the other.
    if path.ends_with("/resume") {
        for still in given.controls.iter().filter_map(ordered) {
            terminal::say(&format!("still {still}"));
        }
    }
    Ok(printed)
}

async fn list(arguments: &QuarantinesArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let flow = arguments.flow.as_deref().map(|flow| format!("?flow={}", encoded(flow))).unwrap_or_default();
    let mut answer = data.get(&format!("/v1/quarantines{flow}")).await?;
    let found = shown::list(&mut answer, "quarantines")?;
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
    if total > found.len() as u64 {
        terminal::say(&format!("the first {} of {total}; name a flow to see all of its own", found.len()));
    }
    if arguments.common.json {
        return terminal::print(&shown::json_lines(&found));
    }
    if found.is_empty() {
        return terminal::print("nothing is in quarantine\n");
    }
    let rows: Vec<_> = shown::all_typed::<Control>(&found)?
        .iter()
        .map(|control| {
            [
                plain(&control.flow),
                plain(&control.target),
                control.held.to_string(),
                local(control.at),
                plain(&control.by),
                brief(&control.reason),
            ]
        })
        .collect();
    let heads = ["flow", "which", "kept", "since", "by", "why"];
    terminal::print(&table::laid_out(heads, &rows, &[5], terminal::width()))
}
