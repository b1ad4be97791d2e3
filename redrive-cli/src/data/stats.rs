//! `stats`: how many messages stand where, and how the flows are.

use std::process::ExitCode;

use redrive::engine::port::{QueueInfo, StateCount};
use redrive::server::FlowShown;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::queues;
use super::shown::{self, local_or_dash, plain};
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
    let flows: Vec<FlowShown> = shown::all_typed(&shown::list(&mut answer, "flows")?)?;
    let mut parts = vec![messages(&states), format!("{BOLD}queues{BOLD:#}\n{}", queues::listed(&queues))];
    if data.store().is_none() {
        parts.insert(0, running(&flows));
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

fn running(flows: &[FlowShown]) -> String {
    let rows: Vec<_> = flows
        .iter()
        .map(|flow| {
            let alarms: Vec<_> = flow.alarms.iter().map(|alarm| plain(&alarm.message)).collect();
            [
                plain(&flow.name),
                format!("{:?}", flow.state).to_lowercase(),
                flow.in_hand.to_string(),
                plain(&flow.from),
                plain(&flow.to),
                alarms.join("; "),
            ]
        })
        .collect();
    let listed = if rows.is_empty() {
        "  none\n".to_owned()
    } else {
        let heads = ["flow", "state", "in hand", "from", "to", "alarms"];
        table::laid_out(heads, &rows, 5, terminal::width())
    };
    format!("{BOLD}flows{BOLD:#}\n{listed}")
}
