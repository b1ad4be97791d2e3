//! Running other programs: tied to this process, with their output in a log that is shown when they fail.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use crate::error::{Context, Result, failed};
use crate::interrupt::{self, Watched};
use crate::place;

/// How much of a log is read back to show its end.
const TAIL_BYTES: u64 = 16 * 1024;
const TAIL_LINES: usize = 40;

/// A command that receives `signal` when this process dies, however it dies.
///
/// The wrapper is `setpriv` of util-linux, which saves an unsafe call between fork and exec. The kernel ties the
/// child to the *thread* that started it, so only a thread that lives long enough may spawn this.
pub(crate) fn tied(signal: &str, program: impl AsRef<OsStr>) -> Command {
    if place::on_path("setpriv") {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", signal, "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// `cargo` in the workspace's root, tied to this process.
pub(crate) fn cargo() -> Command {
    let mut command = tied("TERM", std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(place::root());
    command
}

/// Runs a command whose output goes where ours goes.
pub(crate) fn show(command: &mut Command) -> Result<ExitStatus> {
    interrupt::check()?;
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .context(format_args!("cannot run {}", command.get_program().display()))?;
    let watched = i32::try_from(child.id()).ok().and_then(Pid::from_raw).map(Watched::new);
    let status = child.wait().context("cannot wait for a child process")?;
    drop(watched);
    interrupt::check()?;
    Ok(status)
}

/// Runs a command that must succeed, with its output in a log. The log is removed on success; on failure it stays
/// and the error carries its end.
pub(crate) fn quiet(name: &str, command: &mut Command) -> Result<()> {
    let path = log_path(name)?;
    let log = File::create(&path).context(format_args!("cannot write {}", path.display()))?;
    let second = log.try_clone().context("cannot share a log file")?;
    let status = show(command.stdout(log).stderr(second));
    match status {
        Ok(status) if status.success() => {
            let _ = std::fs::remove_file(&path);
            Ok(())
        }
        Ok(status) => {
            Err(failed(format!("{name} failed ({status})\n{}\nwhole log: {}", tail(&path), path.display())))
        }
        Err(error) => {
            // It was not run to its end: nothing to learn from.
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Tries again after a failure, for what depends on the network.
pub(crate) fn with_retries<T>(times: u32, mut action: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match action() {
            Err(crate::error::Error::Failed(_)) if attempt < times => {
                std::thread::sleep(Duration::from_secs(2 * u64::from(attempt)));
                attempt += 1;
                interrupt::check()?;
            }
            outcome => return outcome,
        }
    }
}

/// The last lines of a log, so that a long one does not bury its end.
pub(crate) fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
        }
        Err(error) => format!("(no log: {error})"),
    }
}

fn log_path(name: &str) -> Result<PathBuf> {
    let folder = place::logs();
    std::fs::create_dir_all(&folder).context(format_args!("cannot create {}", folder.display()))?;
    let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(folder.join(format!("{file}-{}.log", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_to_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text = (0..100_000).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        std::fs::write(&path, text).unwrap();
        let end = tail(&path);
        assert_eq!(end.lines().count(), TAIL_LINES);
        assert!(end.ends_with("line 99999"));
    }

    #[test]
    fn a_failing_command_keeps_its_log_and_shows_its_end() {
        let error = quiet("unit test", Command::new("sh").args(["-c", "echo to see; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("to see") && text.contains("exit status: 3"), "{text}");
        let path = text.lines().last().unwrap().strip_prefix("whole log: ").unwrap();
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_failures_are_tried_again() {
        let mut calls = 0;
        let outcome = with_retries(3, || {
            calls += 1;
            if calls == 1 { Err(failed("first")) } else { Ok(calls) }
        });
        assert_eq!(outcome.unwrap(), 2);
    }
}
