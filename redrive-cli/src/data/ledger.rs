//! `ledger check`: what cannot be right. `ledger rebuild`: entries made again.

use std::process::ExitCode;

use redrive::engine::port::Problem as Found;
use redrive::server::RebuiltFlow;
use serde_json::json;

use super::arguments::{DataArguments, RebuildArguments};
use super::call::{Absent, Data};
use super::list::{self, Shape};
use super::progress::Progress;
use super::shown::{self, plain};
use super::who;
use crate::problem::{FAILED, Problem};

pub(crate) async fn check(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut progress = Progress::new();
    progress.show("checking".to_owned());
    let mut answer = data.get("/v1/ledger/check").await?;
    drop(progress);
    let problems = shown::list(&mut answer, "problems")?;
    let shape = Shape {
        empty: "the ledger is sound",
        heads: ["invariant", "found"],
        flexible: &[1],
        row: |problem: &Found| [plain(&problem.invariant), plain(&problem.found)],
    };
    list::print(&problems, arguments.json, &shape)?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

pub(crate) async fn rebuild(arguments: &RebuildArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let mut progress = Progress::new();
    progress.show("reading what the brokers keep".to_owned());
    let request = json!({ "flow": arguments.flow, "reason": arguments.reason, "by": who::name() });
    let mut answer = data.post("/v1/ledger/rebuild", &request).await?;
    drop(progress);
    let shape = Shape {
        empty: "nothing",
        heads: ["flow", "looked at", "told", "resolved before"],
        flexible: &[],
        row: |flow: &RebuiltFlow| {
            [plain(&flow.flow), flow.looked_at.to_string(), flow.told.to_string(), flow.resolved.to_string()]
        },
    };
    list::print(&shown::list(&mut answer, "rebuilt")?, arguments.common.json, &shape)
}
