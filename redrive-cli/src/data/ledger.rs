//! `ledger check`: what cannot be right.

use std::process::ExitCode;

use redrive::engine::port::Problem as Found;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::list::{self, Shape};
use super::progress::Progress;
use super::shown::{self, plain};
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
