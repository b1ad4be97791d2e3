//! `groups`: failures by what they have in common.

use std::process::ExitCode;

use redrive::engine::port::Group;

use super::arguments::GroupsArguments;
use super::call::{Absent, Data};
use super::filter::encoded;
use super::list::{self, Shape};
use super::shown::{self, brief, local, plain};
use crate::problem::Problem;

pub(crate) async fn run(arguments: &GroupsArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let flow = arguments.flow.as_deref().map(|flow| format!("&flow={}", encoded(flow))).unwrap_or_default();
    let mut answer = data.get(&format!("/v1/groups?limit={}{flow}", arguments.limit)).await?;
    let shape = Shape {
        empty: "no failures are open",
        heads: ["group", "flow", "class", "reason", "messages", "failed last", "example"],
        flexible: &[4, 6],
        row: |group: &Group| {
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
        },
    };
    list::print(&shown::list(&mut answer, "groups")?, arguments.common.json, &shape)
}
