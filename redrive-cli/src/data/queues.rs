//! `queues`: what lies in the queues of the file.

use std::process::ExitCode;

use redrive::engine::port::QueueInfo;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::shown::{self, plain};
use crate::problem::Problem;
use crate::{table, terminal};

pub(crate) async fn run(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/queues").await?;
    let queues = shown::list(&mut answer, "queues")?;
    if arguments.json {
        return terminal::print(&shown::json_lines(&queues));
    }
    terminal::print(&listed(&shown::all_typed(&queues)?))
}

pub(crate) fn listed(queues: &[QueueInfo]) -> String {
    if queues.is_empty() {
        return "  none\n".to_owned();
    }
    let rows: Vec<_> = queues
        .iter()
        .map(|queue| {
            let limit = queue.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            [plain(&queue.name), queue.depth.ready.to_string(), queue.depth.waiting.to_string(), limit]
        })
        .collect();
    table::laid_out(["queue", "ready", "waiting", "limit"], &rows, 0, terminal::width())
}
