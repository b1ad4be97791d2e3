//! `messages`: entries of the ledger.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use bytes::Bytes;
use redrive::codes;
use redrive::core::duration::print;
use redrive::engine::port::{Entry, HistoryLine};
use redrive::server::http::Method;
use serde_json::Value;

use super::arguments::{LsArguments, ShowArguments};
use super::call::{Absent, Data};
use super::filter::encoded;
use super::list::{self, Shape};
use super::shown::{self, brief, local, plain};
use crate::problem::{FAILED, Problem};
use crate::terminal::{self, BOLD};

/// Entries of one call.
const PAGE: u64 = 1_000;

pub(crate) async fn ls(arguments: &LsArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let filter = arguments.filter.query();
    let (mut left, mut after) = (arguments.limit, None::<String>);
    let mut entries = Vec::new();
    loop {
        let page = left.min(PAGE);
        let place = after.as_deref().map(|after| format!("&after={}", encoded(after))).unwrap_or_default();
        let mut answer = data.get(&format!("/v1/messages?limit={page}{filter}{place}")).await?;
        let found = shown::list(&mut answer, "entries")?;
        left = left.saturating_sub(found.len() as u64);
        after = answer.get("next").and_then(Value::as_str).map(str::to_owned);
        if arguments.common.json {
            // As they come: a long list need not fit into memory.
            terminal::print(&shown::json_lines(&found))?;
        } else {
            entries.extend(shown::all_typed::<Entry>(&found)?);
        }
        if left == 0 || after.is_none() {
            break;
        }
    }
    if !arguments.common.json {
        terminal::print(&list::text(&entries, &SHAPE))?;
    }
    if after.is_some() {
        terminal::say(&format!("there are more; --limit {} shows them", arguments.limit.saturating_mul(10)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Messages by the ids that their senders know; commands take these as well as the entries' own, which `show` and
/// `--json` tell.
const SHAPE: Shape<'_, Entry, 7> = Shape {
    empty: "nothing fits",
    heads: ["message", "flow", "state", "attempts", "failed last", "reason", "error"],
    flexible: &[0, 6],
    row: |entry| {
        [
            brief(&entry.message.id),
            plain(&entry.flow),
            entry.state.to_string(),
            entry.attempts.to_string(),
            local(entry.last_failed_at),
            entry.reason.to_string(),
            brief(&entry.error.message),
        ]
    },
};

pub(crate) async fn show(arguments: &ShowArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let path = format!("/v1/messages/{}", encoded(&arguments.id));
    if arguments.payload {
        let answer = data.send(Method::GET, &format!("{path}/payload"), None, Bytes::new()).await?;
        return write_bytes(&answer.bytes);
    }
    let answer = data.get(&path).await?;
    if arguments.common.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let entry: Entry = shown::typed(&answer)?;
    let history = shown::all_typed(&shown::list(&mut answer.clone(), "history")?)?;
    terminal::print(&format!("{}\n{}", described(&entry), told(&history)))
}

/// Not through the writer for texts, which takes colours out.
fn write_bytes(bytes: &[u8]) -> Result<ExitCode, Problem> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Problem::new(codes::NO_FILE, FAILED, format!("cannot write: {error}"))),
    }
}

fn described(entry: &Entry) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<15} {}", plain(value));
    };
    let safe = &entry.safe_to_replay;
    line("id", &entry.id.to_string());
    line("flow", &entry.flow);
    line("state", entry.state.as_str());
    line("because", &entry.because);
    line("message", &entry.message.id);
    let source = &entry.source;
    let place =
        [source.partition.map(|n| format!("partition {n}")), source.offset.map(|n| format!("offset {n}"))];
    let place: Vec<_> = place.into_iter().flatten().collect();
    line("from", format!("{} {} {}", source.kind, source.name, place.join(" ")).trim_end());
    let optional = [
        ("key", &entry.message.key),
        ("type", &entry.message.kind),
        ("content type", &entry.message.content_type),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            line(name, value);
        }
    }
    line("size", &shown::counted(entry.message.size, "byte"));
    for (name, value) in &entry.message.headers {
        line("header", &format!("{name}: {value}"));
    }
    line("attempts", &entry.attempts.to_string());
    line("failed first", &local(entry.first_failed_at));
    line("failed last", &local(entry.last_failed_at));
    if let Some(due) = entry.due_at {
        line("due", &local(due));
    }
    line("class", entry.class.as_str());
    line("reason", entry.reason.as_str());
    line("group", &entry.group);
    if let Some(status) = entry.http_status {
        line("status", &status.to_string());
    }
    if let Some(kind) = &entry.error.kind {
        line("error type", kind);
    }
    for (i, part) in entry.error.message.lines().enumerate() {
        line(if i == 0 { "error" } else { "" }, part);
    }
    let optional = [
        ("handler version", &entry.handler_version),
        ("owner", &entry.owner),
        ("entity", &entry.entity),
        ("tenant", &entry.tenant),
        ("correlation", &entry.correlation_id),
        ("causation", &entry.causation_id),
        ("held behind", &entry.held_behind),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            line(name, value);
        }
    }
    if let Some(parent) = entry.parent_id {
        line("copy of", &parent.to_string());
    }
    if entry.followers > 0 {
        line("followers", &entry.followers.to_string());
    }
    if entry.replays > 0 {
        line("replays", &entry.replays.to_string());
    }
    line("safe to replay", &format!("{}: {}", safe.verdict, safe.why));
    text
}

fn told(history: &[HistoryLine]) -> String {
    let shape = Shape {
        empty: "  none",
        heads: ["at", "what", "took", "calls", "reason", "then", "because"],
        flexible: &[6],
        row: |line: &HistoryLine| {
            let number = line.attempt.map(|number| format!(" {number}")).unwrap_or_default();
            let took = line.took_ms.map(|ms| print(std::time::Duration::from_millis(ms)).to_string());
            let who = line.by.as_deref().map(|by| format!("by {}", plain(by)));
            let decision = line.decision.as_ref().map(|decision| decision.replace('_', " "));
            let error = line.error.as_ref().map(|error| brief(&error.message));
            let reason = line.reason.as_ref().map(ToString::to_string);
            let why = [error, line.because.as_deref().map(brief)];
            let why: Vec<_> = why.into_iter().flatten().filter(|part| !part.is_empty()).collect();
            [
                local(line.at),
                format!("{}{number}", plain(&line.what)),
                took.unwrap_or_default(),
                line.calls.map(|calls| calls.to_string()).unwrap_or_default(),
                reason.unwrap_or_default(),
                decision.or(who).unwrap_or_default(),
                why.join("; "),
            ]
        },
    };
    format!("{BOLD}history{BOLD:#}\n{}", list::text(history, &shape))
}
