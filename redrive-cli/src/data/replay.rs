//! `replay`: sending messages back, as a job that is planned, watched and steered.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redrive::codes;
use redrive::engine::ReplayDriver;
use redrive::engine::port::{Ledger, Replay, ReplayItem, ReplayPlan, ReplayState, SystemClock};
use redrive::server::SourceReplayed;
use redrive::signals::told_to_stop;
use serde_json::{Map, Value, json};

use super::arguments::{
    ListArguments, ReplayArguments, ReplayCommand, RunReplayArguments, ShowReplayArguments,
    SourceReplayArguments, SteerArguments,
};
use super::call::{Absent, Data};
use super::filter::encoded;
use super::list::{self, Shape};
use super::progress::Progress;
use super::shown::{self, brief, local, plain};
use super::who;
use crate::problem::{FAILED, MISSING, Problem, USAGE};
use crate::terminal;
use crate::terminal::BOLD;

/// How often a replay is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Messages of one call.
const PAGE: u64 = 1_000;

pub(crate) async fn run(command: &ReplayCommand) -> Result<ExitCode, Problem> {
    match command {
        ReplayCommand::Plan(arguments) => plan(arguments).await,
        ReplayCommand::Run(arguments) => begin(arguments).await,
        ReplayCommand::Source(arguments) => source(arguments).await,
        ReplayCommand::Ls(arguments) => ls(arguments).await,
        ReplayCommand::Show(arguments) => show(arguments).await,
        ReplayCommand::Pause(arguments) => steer("pause", arguments).await,
        ReplayCommand::Resume(arguments) => steer("resume", arguments).await,
        ReplayCommand::Cancel(arguments) => steer("cancel", arguments).await,
    }
}

fn wanted(arguments: &ReplayArguments) -> Result<Map<String, Value>, Problem> {
    let mut request = Map::new();
    arguments.selected.selection()?.put_into(&mut request);
    if let Some(rate) = &arguments.rate {
        request.insert("rate".into(), json!(rate));
    }
    for (name, number) in [("max", arguments.max), ("canary", arguments.canary)] {
        if let Some(number) = number {
            request.insert(name.into(), json!(number));
        }
    }
    Ok(request)
}

async fn plan(arguments: &ReplayArguments) -> Result<ExitCode, Problem> {
    let request = wanted(arguments)?;
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let answer = data.post("/v1/replays/plan", &request.into()).await?;
    if arguments.common.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let plan: ReplayPlan = shown::typed(&answer)?;
    let mut text = format!("{BOLD}{} would be sent{BOLD:#}\n", shown::counted(plan.count, "message"));
    for (state, count) in &plan.left_out {
        let _ = writeln!(text, "left out: {count} {state}");
    }
    if plan.followers > 0 {
        let _ = writeln!(text, "released: {}", shown::counted(plan.followers, "follower"));
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "warning: {}", plain(warning));
    }
    for id in &plan.sample {
        let _ = writeln!(text, "  {id}");
    }
    let more = plan.count.saturating_sub(plan.sample.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  … and {more} more");
    }
    terminal::print(&text)
}

async fn source(arguments: &SourceReplayArguments) -> Result<ExitCode, Problem> {
    let mut request = json!({ "flow": arguments.flow, "reason": arguments.reason });
    for (name, value) in [("since", &arguments.since), ("until", &arguments.until), ("by", &who::name())] {
        if let Some(value) = value {
            request[name] = json!(value);
        }
    }
    if !arguments.offsets.is_empty() {
        request["offsets"] = json!(arguments.offsets);
    }
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let mut progress = Progress::new();
    progress.show("reading the source".to_owned());
    let answer = data.post("/v1/replays/source", &request).await?;
    drop(progress);
    if arguments.common.json {
        return terminal::print(&format!("{answer}\n"));
    }
    let done: SourceReplayed = shown::typed(&answer)?;
    let text = format!(
        "{} sent to {} as replay {}\n",
        shown::counted(done.messages, "message"),
        plain(&done.flow),
        done.id
    );
    terminal::print(&text)
}

async fn begin(arguments: &RunReplayArguments) -> Result<ExitCode, Problem> {
    let mut request = wanted(&arguments.plan)?;
    let Some(reason) = &arguments.plan.reason else {
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "--reason is missing")
            .with_help("say why; it stands in the audit"));
    };
    request.insert("reason".into(), json!(reason));
    if let Some(by) = who::name() {
        request.insert("by".into(), json!(by));
    }
    let data = Data::open(&arguments.plan.common, Absent::Refuse).await?;
    let mut answer = data.post("/v1/replays", &request.into()).await?;
    let begun: Replay = shown::typed(&answer)?;
    let mut stopped = false;
    if begun.total > 0 {
        terminal::say(&format!("replay {}: {}", begun.id, shown::counted(begun.total, "message")));
        if !arguments.detach {
            (answer, stopped) = follow(&data, &begun).await?;
        }
    }
    let replay: Replay = shown::typed(&answer)?;
    if arguments.plan.common.json {
        terminal::print(&format!("{answer}\n"))?;
    } else {
        terminal::print(&format!("{}\n", summary(&replay)))?;
    }
    if replay.state == ReplayState::Running {
        terminal::say(&next(&data, &replay, arguments.detach || stopped));
    }
    Ok(match replay.state {
        _ if replay.total == 0 => ExitCode::from(MISSING),
        ReplayState::Done if replay.failed > 0 => ExitCode::from(FAILED),
        ReplayState::Cancelled | ReplayState::Stopped => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    })
}

/// What happens to a replay that has not ended when the command does.
fn next(data: &Data, replay: &Replay, early: bool) -> String {
    if data.store().is_none() {
        return format!("it goes on: redrive replay show {}", replay.id);
    }
    if early || replay.sent + replay.skipped < replay.total {
        return "no instance runs on the file: the rest is sent when one does".to_owned();
    }
    "no instance runs on the file: the messages are due, and are tried when one does".to_owned()
}

/// Follows a replay to its end, and says whether a signal came first. Without an instance its messages are sent here,
/// and its end is that nothing more can be sent: outcomes need an instance.
async fn follow(data: &Data, begun: &Replay) -> Result<(Value, bool), Problem> {
    let driver = data.store().map(|store| {
        let ledger: Arc<dyn Ledger> = Arc::new(store.clone());
        ReplayDriver::start(ledger, Arc::new(SystemClock::default()), LOOK)
    });
    let path = format!("/v1/replays/{}", begun.id);
    let mut progress = Progress::new();
    let mut stop = std::pin::pin!(told_to_stop());
    let mut stopped = false;
    let answer = loop {
        let answer = data.get(&path).await?;
        let replay: Replay = shown::typed(&answer)?;
        let ended = matches!(replay.state, ReplayState::Done | ReplayState::Cancelled | ReplayState::Stopped);
        let first_sent = replay.canary.is_some_and(|canary| replay.sent >= canary);
        let all_sent = replay.sent + replay.skipped >= replay.total;
        if ended || stopped || (driver.is_some() && (first_sent || all_sent)) {
            break answer;
        }
        progress.show(summary(&replay));
        tokio::select! {
            _ = &mut stop => stopped = true,
            () = tokio::time::sleep(if driver.is_some() { LOOK / 10 } else { LOOK }) => {}
        }
    };
    if let Some(driver) = driver {
        driver.stop().await;
    }
    Ok((answer, stopped))
}

fn summary(replay: &Replay) -> String {
    let mut text = format!("{}: {} of {} sent", name(replay.state), replay.sent, replay.total);
    let _ = write!(text, ", {} recovered, {} failed again", replay.recovered, replay.failed);
    if replay.skipped > 0 {
        let _ = write!(
            text,
            ", {} left out: no longer where they were, or their bodies are gone",
            replay.skipped
        );
    }
    text
}

fn name(state: ReplayState) -> &'static str {
    match state {
        ReplayState::Planned => "planned",
        ReplayState::Running => "running",
        ReplayState::Paused => "paused",
        ReplayState::Done => "done",
        ReplayState::Cancelled => "cancelled",
        ReplayState::Stopped => "stopped",
    }
}

async fn ls(arguments: &ListArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let mut answer = data.get(&format!("/v1/replays?limit={}", arguments.limit)).await?;
    let replays = shown::list(&mut answer, "replays")?;
    let shape = Shape {
        empty: "there are no replays",
        heads: ["id", "state", "sent", "recovered", "failed", "begun", "by", "why"],
        flexible: &[6, 7],
        row: |replay: &Replay| {
            [
                replay.id.to_string(),
                name(replay.state).to_owned(),
                format!("{} of {}", replay.sent, replay.total),
                replay.recovered.to_string(),
                replay.failed.to_string(),
                local(replay.created_at),
                plain(&replay.by),
                brief(&replay.reason),
            ]
        },
    };
    list::print(&replays, arguments.common.json, &shape)
}

fn path(id: &str) -> String {
    format!("/v1/replays/{}", encoded(id))
}

/// The API's help names a call; here it is a command.
fn known_here(problem: Problem) -> Problem {
    if problem.exit == MISSING { problem.with_help("`redrive replay ls` lists them") } else { problem }
}

async fn show(arguments: &ShowReplayArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let path = path(&arguments.id);
    let mut answer = data.get(&path).await.map_err(known_here)?;
    let (mut items, mut after) = (Vec::new(), 0);
    loop {
        let page = (arguments.limit - after).min(PAGE);
        let mut answer = data.get(&format!("{path}/items?after={after}&limit={page}")).await?;
        let found = shown::list(&mut answer, "items")?;
        after += found.len() as u64;
        items.extend(found);
        if after >= arguments.limit || answer.get("next").is_none_or(Value::is_null) {
            break;
        }
    }
    if arguments.common.json {
        answer["items"] = items.into();
        return terminal::print(&format!("{answer}\n"));
    }
    let replay: Replay = shown::typed(&answer)?;
    terminal::print(&described(&replay, &shown::all_typed(&items)?))?;
    if replay.total > after {
        terminal::say(&format!("{} more; --limit {} shows all", replay.total - after, replay.total));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(replay: &Replay, items: &[ReplayItem]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {}", plain(value));
    };
    line("id", &replay.id.to_string());
    line("state", &summary(replay));
    line("by", &replay.by);
    line("why", &replay.reason);
    line("begun", &local(replay.created_at));
    if let Some(ended) = replay.ended_at {
        line("ended", &local(ended));
    }
    if let Some(rate) = &replay.rate {
        line("rate", &rate.to_string());
    }
    if let Some(canary) = replay.canary {
        line("canary", &canary.to_string());
    }
    if let Ok(filter) = serde_json::to_string(&replay.filter)
        && filter != "{}"
    {
        line("filter", &filter);
    }
    let shape = Shape {
        empty: "no message",
        heads: ["message", "was", "outcome"],
        flexible: &[],
        row: |item: &ReplayItem| {
            let outcome = format!("{:?}", item.outcome).to_lowercase();
            [item.entry.to_string(), item.was.to_string(), outcome]
        },
    };
    let _ = write!(text, "\n{}", list::text(items, &shape));
    text
}

async fn steer(verb: &str, arguments: &SteerArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(&arguments.common, Absent::Refuse).await?;
    let request = json!({ "reason": arguments.reason, "by": who::name() });
    let answer = data.post(&format!("{}/{verb}", path(&arguments.id)), &request).await.map_err(known_here)?;
    if arguments.common.json {
        return terminal::print(&format!("{answer}\n"));
    }
    terminal::print(&format!("{}\n", summary(&shown::typed(&answer)?)))
}
