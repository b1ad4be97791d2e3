//! `services up`, `down`, `status` and `logs`: servers that stay between two commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::tail;
use crate::error::{Context, Result, failed};
use crate::install;
use crate::place;
use crate::progress::{Steps, human};

use super::client::{self, ask, launch, program};
use super::protocol::{Kind, Request};
use super::supervisor::Ready;

/// Starts the servers, or those that are not up yet.
pub(super) fn up(names: &[Kind]) -> Result<()> {
    let kinds = if names.is_empty() { &Kind::ALL[..] } else { names };
    let mut steps = Steps::new(2 + kinds.len());
    let installed = steps.run("install what is missing", || install::ensure(&super::needs(kinds)))?;
    steps.note_installed(&installed);
    let ready = steps.run("supervisor", find_or_start)?;
    let mut addresses = Vec::new();
    for kind in kinds {
        let address = steps.run(kind.name(), || client::need(Path::new(&ready.socket), *kind))?;
        addresses.push((*kind, address));
    }
    steps.clear();
    for (kind, address) in addresses {
        println!("{:<9} {address}", kind.name());
    }
    println!("folder    {}", ready.folder);
    println!("tests find them by themselves; `cargo xtask services down` stops them");
    Ok(())
}

/// Stops them.
pub(super) fn down() -> Result<()> {
    let Some(ready) = running() else {
        println!("no servers are up");
        return Ok(());
    };
    ask(Path::new(&ready.socket), &Request { shutdown: true, ..Request::default() })?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while Path::new(&ready.folder).exists() {
        if Instant::now() > deadline {
            return Err(failed(format!("the servers in {} do not stop", ready.folder)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = fs::remove_file(state_file());
    println!("stopped");
    Ok(())
}

/// Shows what runs.
pub(super) fn status() -> Result<()> {
    let Some(ready) = running() else {
        println!("no servers are up");
        return Ok(());
    };
    let status = client::status(Path::new(&ready.socket))?;
    for server in &status.servers {
        println!(
            "{:<9} {:<10} {:<12} {:<8} {}{}",
            server.kind.name(),
            server.instance,
            server.state,
            server.version.as_deref().unwrap_or("-"),
            server.address.as_deref().unwrap_or("-"),
            server
                .started_in_ms
                .map(|millis| format!("  (started in {})", human(Duration::from_millis(millis))))
                .unwrap_or_default(),
        );
    }
    println!("folder    {}", status.folder);
    println!("process   {}", ready.pid);
    Ok(())
}

/// Shows the ends of the logs: of the servers that are up, or else of the last run that failed.
pub(super) fn logs(name: Option<Kind>) -> Result<()> {
    let folder = match running() {
        Some(ready) => PathBuf::from(ready.folder).join("logs"),
        None => last_kept().ok_or_else(|| failed("no servers are up, and no failed run has left logs"))?,
    };
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .context(format_args!("cannot read {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            path.is_file() && name.is_none_or(|kind| file.starts_with(kind.name()))
        })
        .collect();
    files.sort();
    for file in files {
        println!("== {}\n{}", file.display(), tail(&file));
    }
    Ok(())
}

fn last_kept() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(place::services().join("logs")).ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.pop()
}

fn find_or_start() -> Result<Ready> {
    if let Some(ready) = running() {
        return Ok(ready);
    }
    let mut command = program();
    command.args(["services", "serve", "--detached"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (_child, ready) = launch(&mut command)?;
    let file = state_file();
    let text = serde_json::to_string(&ready).context("cannot describe the supervisor")?;
    fs::create_dir_all(place::services())
        .and_then(|()| fs::write(&file, text))
        .context(format_args!("cannot write {}", file.display()))?;
    Ok(ready)
}

/// The supervisor of `services up`, if it lives. The file of one that was killed is removed.
fn running() -> Option<Ready> {
    let text = fs::read_to_string(state_file()).ok()?;
    let ready: Option<Ready> = serde_json::from_str(&text).ok();
    let alive = ready.filter(|ready| client::status(Path::new(&ready.socket)).is_ok());
    if alive.is_none() {
        let _ = fs::remove_file(state_file());
    }
    alive
}

fn state_file() -> PathBuf {
    place::services().join("up.json")
}
