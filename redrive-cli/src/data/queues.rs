//! `queues`: what lies in the queues of the file.

use std::process::ExitCode;

use redrive::server::QueueShown;

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::list::{self, Shape};
use super::shown::{self, plain};
use crate::problem::Problem;

pub(crate) const SHAPE: Shape<'_, QueueShown, 4> = Shape {
    empty: "  none",
    heads: ["queue", "ready", "waiting", "limit"],
    flexible: &[],
    row: |QueueShown { queue, .. }| {
        let limit = queue.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        [plain(&queue.name), queue.depth.ready.to_string(), queue.depth.waiting.to_string(), limit]
    },
};

pub(crate) async fn run(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/queues").await?;
    list::print(&shown::list(&mut answer, "queues")?, arguments.json, &SHAPE)
}
