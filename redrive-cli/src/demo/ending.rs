//! The end of the minute: a group of parked orders, the fix, and one command that sends them back.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive::Reason;
use redrive::engine::port::{EntryState, Group, Ledger as _, Replay};
use tokio::process::Command;

use super::script::NEW_SCHEMA;
use super::stage::{FLOW, Stage, failed};
use super::view::View;
use crate::problem::Problem;
use crate::terminal;

/// How long the demo waits for a person to type the command.
const WAIT: Duration = Duration::from_secs(60);
/// How long a replay that was begun may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A command that somebody typed still asks how its replay ended, several times a second.
const GRACE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);
const WHY: &str = "schema version 3 is understood now";

/// The group that the new schema left behind, if that is what happened.
pub(crate) async fn parked_group(stage: &Stage) -> Result<Option<Group>, Problem> {
    let groups = groups(stage).await?;
    Ok(groups.into_iter().find(|group| group.reason == Reason::UNSUPPORTED_SCHEMA_VERSION))
}

async fn groups(stage: &Stage) -> Result<Vec<Group>, Problem> {
    stage.store().groups(Some(FLOW), 10).await.map_err(|error| failed("the demo's ledger", error))
}

/// How many of a group are parked.
pub(crate) fn parked(group: &Group) -> u64 {
    group.counts.get(EntryState::Parked.as_str()).copied().unwrap_or(0)
}

fn listed(groups: &[Group]) -> String {
    let mut text = String::from("The minute is over. Parked, by what they have in common:\n");
    for group in groups {
        let _ = writeln!(text, "  {:>4}  {:<28}{}", parked(group), group.reason.as_str(), group.example);
    }
    text
}

/// The command that sends a group back: its words, without the program.
fn words(data: &Path, group: &str) -> Vec<String> {
    let data = data.display().to_string();
    ["replay", "run", "--data", &data, "--group", group, "--reason", WHY].map(str::to_owned).to_vec()
}

/// The command as one types it, in whatever folder: `redrive` where that is this very program, its path otherwise.
fn spelled(program: &Path, words: &[String]) -> String {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        let mut places = std::env::split_paths(&path).map(|folder| folder.join("redrive"));
        places.any(|place| place.canonicalize().is_ok_and(|place| place == program))
    });
    let name = if found { "redrive".to_owned() } else { program.display().to_string() };
    shell_words::join(std::iter::once(name.as_str()).chain(words.iter().map(String::as_str)))
}

/// Fixes the downstream, says how to send the group back, waits for that, and does it itself when nobody does.
/// What came of it, or nothing when nobody sent anything.
pub(crate) async fn replayed(
    stage: &Stage,
    view: &mut View,
    group: &Group,
    waits: bool,
) -> Result<Option<Replay>, Problem> {
    stage.downstream.fix();
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let program: PathBuf = program.map_err(|error| failed("this program cannot be found", error))?;
    let words = words(stage.data(), &group.id);
    let command = spelled(&program, &words);
    terminal::print(&format!(
        "\n{}\nThe fix is out: the downstream understands schema version {NEW_SCHEMA}. One command sends those {} orders back:\n\n  {command}\n\n",
        listed(&groups(stage).await?),
        parked(group),
    ))?;
    let began = Instant::now();
    while waits && begun(stage).await?.is_none() {
        let left = WAIT.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        view.count_down(format!("Type it in another terminal; in {} s the demo does.", left.as_secs() + 1));
        tokio::time::sleep(LOOK).await;
    }
    view.count_down(String::new());
    let typed = begun(stage).await?.is_some();
    if !typed {
        terminal::say(&format!("$ {command}"));
        let ran = Command::new(&program).args(&words).output().await;
        let ran = ran.map_err(|error| failed("the replay cannot be run", error))?;
        for text in [&ran.stderr, &ran.stdout] {
            terminal::say(String::from_utf8_lossy(text).trim_end());
        }
    }
    let replay = finished(stage).await?;
    if typed {
        tokio::time::sleep(GRACE).await;
    }
    Ok(replay)
}

async fn begun(stage: &Stage) -> Result<Option<Replay>, Problem> {
    let replays = stage.store().replays(1).await.map_err(|error| failed("the demo's ledger", error))?;
    Ok(replays.into_iter().next())
}

/// The replay, once it has ended, or has had all the time that it should need.
async fn finished(stage: &Stage) -> Result<Option<Replay>, Problem> {
    let began = Instant::now();
    loop {
        let replay = begun(stage).await?;
        let open = replay.as_ref().is_some_and(|replay| replay.ended_at.is_none());
        if (!open && stage.look().await?.is_quiet()) || began.elapsed() > PATIENCE {
            return Ok(replay);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        let words = words(Path::new("/tmp/my data/orders.db"), "abc");
        let text = spelled(Path::new("/opt/redrive"), &words);
        assert_eq!(
            text,
            "/opt/redrive replay run --data '/tmp/my data/orders.db' --group abc --reason 'schema version 3 is understood now'"
        );
        let read = shell_words::split(&text).unwrap();
        assert_eq!(read[1..], words);
    }
}
