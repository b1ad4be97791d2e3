//! `stats`: how many messages stand where, and how the flows are.

use std::process::ExitCode;

use redrive::engine::port::StateCount;
use redrive::server::{FlowControlled, QueueShown};

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::list::{self, Shape};
use super::shown::{self, local_or_dash, plain};
use super::{flows as flow_list, queues};
use crate::problem::Problem;
use crate::terminal::{self, BOLD};

pub(crate) async fn run(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/stats").await?;
    if arguments.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let mut states: Vec<StateCount> = shown::all_typed(&shown::list(&mut answer, "states")?)?;
    states.retain(|count| count.count > 0);
    let queues: Vec<QueueShown> = shown::all_typed(&shown::list(&mut answer, "queues")?)?;
    let flows: Vec<FlowControlled> = shown::all_typed(&shown::list(&mut answer, "flows")?)?;
    let mut parts =
        vec![part("messages that failed", &states, &STATES), part("queues", &queues, &queues::SHAPE)];
    // Of a file that no instance runs on, only flows with orders are known.
    if data.store().is_none() || !flows.is_empty() {
        parts.insert(0, format!("{BOLD}flows{BOLD:#}\n{}", flow_list::listed(&flows)));
    }
    terminal::print(&parts.join("\n"))
}

const STATES: Shape<'_, StateCount, 4> = Shape {
    empty: "  none",
    heads: ["flow", "state", "count", "oldest failed first"],
    flexible: &[],
    row: |count| {
        let oldest = local_or_dash(count.oldest_at);
        [plain(&count.flow), count.state.to_string(), count.count.to_string(), oldest]
    },
};

fn part<T, const N: usize>(title: &str, items: &[T], shape: &Shape<'_, T, N>) -> String {
    format!("{BOLD}{title}{BOLD:#}\n{}", list::text(items, shape))
}
