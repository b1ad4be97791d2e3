//! `stats`: how many messages stand where, and how the flows are.

use std::process::ExitCode;

use redrive::engine::port::{QueueInfo, StateCount};
use redrive::server::FlowControlled;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::shown::{self, local_or_dash, plain};
use super::{flows as flow_list, queues};
use crate::problem::Problem;
use crate::terminal::BOLD;
use crate::{table, terminal};

pub(crate) async fn run(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/stats").await?;
    if arguments.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let states: Vec<StateCount> = shown::all_typed(&shown::list(&mut answer, "states")?)?;
    let queues: Vec<QueueInfo> = shown::all_typed(&shown::list(&mut answer, "queues")?)?;
    let flows: Vec<FlowControlled> = shown::all_typed(&shown::list(&mut answer, "flows")?)?;
    let mut parts = vec![messages(&states), format!("{BOLD}queues{BOLD:#}\n{}", queues::listed(&queues))];
    // Of a file that no instance runs on, only flows with orders are known.
    if data.store().is_none() || !flows.is_empty() {
        parts.insert(0, format!("{BOLD}flows{BOLD:#}\n{}", flow_list::listed(&flows)));
    }
    terminal::print(&parts.join("\n"))
}

fn messages(states: &[StateCount]) -> String {
    let rows: Vec<_> = states
        .iter()
        .filter(|count| count.count > 0)
        .map(|count| {
            let oldest = local_or_dash(count.oldest_at);
            [plain(&count.flow), count.state.to_string(), count.count.to_string(), oldest]
        })
        .collect();
    let listed = if rows.is_empty() {
        "  none\n".to_owned()
    } else {
        let heads = ["flow", "state", "count", "oldest failed first"];
        table::laid_out(heads, &rows, 3, terminal::width())
    };
    format!("{BOLD}messages that failed{BOLD:#}\n{listed}")
}
