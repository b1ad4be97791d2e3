//! `topology plan` and `topology apply`: what flows need at their brokers.

use std::process::ExitCode;

use redrive::config::Config;
use redrive::engine::port::Topology;
use redrive::server::FlowTopology;
use redrive::setup::{self, InCode};
use redrive::{codes, topology};
use serde_json::json;

use crate::arguments::{PlanArguments, TopologyArguments};
use crate::data;
use crate::problem::{FAILED, Problem, USAGE};
use crate::{files, run_config, table, terminal};

/// A handler for a flow that is looked at and not run.
const NOBODY: &str = "exec:true";

/// One thing in a few words: `topic orders.retry.10s (partitions 8, retention.ms 604800000)`.
pub(crate) fn described(thing: &Topology) -> String {
    let settings: Vec<_> = thing.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
    format!("{} {}{settings}", thing.kind, thing.name)
}

/// What was made, in a line each; the ways between queues in one.
pub(crate) fn created(things: &[Topology]) -> Vec<String> {
    let named = things.iter().filter(|thing| !topology::is_way(thing)).map(described);
    named.chain(topology::counted_ways(things)).collect()
}

pub(crate) fn plan(arguments: &PlanArguments) -> Result<ExitCode, Problem> {
    if !arguments.as_policies && !arguments.permissions {
        return run(&arguments.topology, false);
    }
    let runtime = runtime()?;
    let config = run_config::of(&arguments.topology.flow, Some(NOBODY))?;
    let mut text = String::new();
    for name in config.flows.keys() {
        let flow = set_up(&config, name)?;
        let lines = if arguments.as_policies {
            runtime.block_on(topology::policies(&flow))
        } else {
            topology::permissions(&flow)
        };
        for line in lines.map_err(|error| Problem::new(error.code(), FAILED, error.to_string()))? {
            text.push_str(&line);
            text.push('\n');
        }
    }
    if text.is_empty() {
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "no flow reads a queue of RabbitMQ")
            .with_help("--as-policies and --permissions are about RabbitMQ"));
    }
    terminal::print(&text)
}

fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Problem::new(codes::CANNOT_RUN, FAILED, error.to_string()))
}

fn set_up(config: &Config, name: &str) -> Result<setup::Setup, Problem> {
    setup::flow(config, name, InCode::default(), &files::env)
        .map_err(|error| Problem::new(codes::CANNOT_RUN, USAGE, error.to_string()))
}

pub(crate) fn apply(arguments: &TopologyArguments) -> Result<ExitCode, Problem> {
    run(arguments, true)
}

fn run(arguments: &TopologyArguments, apply: bool) -> Result<ExitCode, Problem> {
    let runtime = runtime()?;
    let written = arguments.flow.from.is_some() || files::config(arguments.flow.config.as_deref()).is_some();
    if !written && !apply {
        return runtime.block_on(data::topology(arguments.flow.data.clone(), arguments.json));
    }
    let config = run_config::of(&arguments.flow, Some(NOBODY))?;
    let all = runtime.block_on(of_config(&config, apply))?;
    print(&all, arguments.json)
}

async fn of_config(config: &Config, apply: bool) -> Result<Vec<FlowTopology>, Problem> {
    let failed = |error: &redrive::Error| Problem::new(error.code(), FAILED, error.to_string());
    let mut all = Vec::new();
    for name in config.flows.keys() {
        let flow = set_up(config, name)?;
        if apply {
            let created = topology::apply(&flow).await.map_err(|error| failed(&error))?;
            for line in self::created(&created) {
                terminal::say(&format!("{name}: created {line}"));
            }
        }
        let needed = topology::plan(&flow).await.map_err(|error| failed(&error))?;
        all.extend(needed.into_iter().map(|topology| FlowTopology { flow: name.clone(), topology }));
    }
    Ok(all)
}

/// The table for people, a line of JSON each for programs.
pub(crate) fn print(all: &[FlowTopology], json: bool) -> Result<ExitCode, Problem> {
    if json {
        let lines: String = all.iter().map(|thing| format!("{}\n", json!(thing))).collect();
        return terminal::print(&lines);
    }
    if all.is_empty() {
        return terminal::print("nothing is needed at a broker\n");
    }
    // The ways between queues are many and say little, as long as they are as they should be.
    let is_plain =
        |thing: &&FlowTopology| topology::is_way(&thing.topology) && thing.topology.drift.is_empty();
    let (plain, shown): (Vec<&FlowTopology>, Vec<&FlowTopology>) = all.iter().partition(is_plain);
    let rows: Vec<_> = shown
        .into_iter()
        .map(|FlowTopology { flow, topology }| {
            let settings: Vec<_> =
                topology.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let stands = match (topology.exists, topology.drift.is_empty()) {
                (false, _) => "missing",
                (true, true) => "there",
                (true, false) => "differs",
            };
            let what = format!("{} {}", topology.kind, topology.name);
            [flow.clone(), what, stands.to_owned(), settings.join(" ")]
        })
        .collect();
    let mut text = table::laid_out(["flow", "what", "stands", "settings"], &rows, &[3], terminal::width());
    let (there, missing): (Vec<&Topology>, Vec<&Topology>) =
        plain.iter().map(|thing| &thing.topology).partition(|way| way.exists);
    let parts: Vec<_> = [(there, "there"), (missing, "missing")]
        .into_iter()
        .filter_map(|(ways, stand)| Some(format!("{} {stand}", topology::counted_ways(ways)?)))
        .collect();
    if !parts.is_empty() {
        text.push_str(&format!("  and {}; --json shows them\n", parts.join(", ")));
    }
    let drift: Vec<_> = all
        .iter()
        .flat_map(|FlowTopology { topology, .. }| {
            topology.drift.iter().map(|drift| format!("  {}: {drift}\n", topology.name))
        })
        .collect();
    if !drift.is_empty() {
        text.push('\n');
        text.push_str(&drift.concat());
    }
    let missing = all.iter().filter(|thing| !thing.topology.exists).count();
    if missing > 0 {
        terminal::say(&format!("{missing} missing; `redrive topology apply` creates them"));
    }
    terminal::print(&text)
}
