//! `audit ls`: who did what, and why.

use std::process::ExitCode;

use redrive::engine::port::AuditLine;
use serde_json::Value;

use super::arguments::AuditArguments;
use super::call::{Absent, Data};
use super::list::{self, Shape};
use super::shown::{self, brief, local, plain};
use crate::problem::Problem;

/// Lines of one call.
const PAGE: u64 = 1_000;

pub(crate) async fn ls(arguments: &AuditArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let (mut left, mut before) = (arguments.limit, None::<u64>);
    let mut lines: Vec<Value> = Vec::new();
    while left > 0 {
        let place = before.map(|before| format!("&before={before}")).unwrap_or_default();
        let mut answer = data.get(&format!("/v1/audit?limit={}{place}", left.min(PAGE))).await?;
        let page = shown::list(&mut answer, "lines")?;
        left = left.saturating_sub(page.len() as u64);
        before = answer.get("next").and_then(Value::as_u64);
        lines.extend(page);
        if before.is_none() {
            break;
        }
    }
    let shape = Shape {
        empty: "nobody has done anything yet",
        heads: ["number", "at", "who", "what", "count", "why", "on"],
        flexible: &[5, 6],
        row: |line: &AuditLine| {
            [
                line.number.to_string(),
                local(line.at),
                plain(&line.who),
                plain(&line.what),
                line.count.to_string(),
                brief(&line.why),
                brief(&line.subject),
            ]
        },
    };
    list::print(&lines, arguments.common.json, &shape)
}
