//! `ledger check`: what cannot be right.

use std::process::ExitCode;

use redrive::engine::port::Problem as Found;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::shown::{self, plain};
use crate::problem::{FAILED, Problem};
use crate::{table, terminal};

pub(crate) async fn check(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/ledger/check").await?;
    let problems = shown::list(&mut answer, "problems")?;
    let code = if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    if arguments.json {
        terminal::print(&shown::json_lines(&problems))?;
        return Ok(code);
    }
    if problems.is_empty() {
        return terminal::print("the ledger is sound\n");
    }
    let rows: Vec<_> = shown::all_typed::<Found>(&problems)?
        .iter()
        .map(|problem| [plain(&problem.invariant), plain(&problem.found)])
        .collect();
    terminal::print(&table::laid_out(["invariant", "found"], &rows, 1, terminal::width()))?;
    Ok(code)
}
