//! `groups`: failures by what they have in common.

use std::process::ExitCode;

use redrive::engine::port::Group;

use super::arguments::GroupsArguments;
use super::call::{Absent, Data};
use super::filter::encoded;
use super::shown::{self, brief, local, plain};
use crate::problem::Problem;
use crate::{table, terminal};

pub(crate) async fn run(arguments: &GroupsArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let flow = arguments.flow.as_deref().map(|flow| format!("&flow={}", encoded(flow))).unwrap_or_default();
    let mut answer = data.get(&format!("/v1/groups?limit={}{flow}", arguments.limit)).await?;
    let groups = shown::list(&mut answer, "groups")?;
    if arguments.common.json {
        return terminal::print(&shown::json_lines(&groups));
    }
    if groups.is_empty() {
        return terminal::print("no failures are open\n");
    }
    let rows: Vec<_> = shown::all_typed::<Group>(&groups)?
        .iter()
        .map(|group| {
            let counts: Vec<_> =
                group.counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
            [
                plain(&group.id),
                plain(&group.flow),
                group.class.to_string(),
                group.reason.to_string(),
                counts.join(", "),
                local(group.last_seen_at),
                brief(&group.example),
            ]
        })
        .collect();
    let heads = ["group", "flow", "class", "reason", "messages", "failed last", "example"];
    terminal::print(&table::laid_out(heads, &rows, 6, terminal::width()))
}
