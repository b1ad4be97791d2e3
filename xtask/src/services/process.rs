//! One process of a server, tied to the supervisor.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::tail;
use crate::error::{Context, Error, Result, failed};

use super::service::Ending;

/// How often a waiting thread looks again.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A running process. It is killed when dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command with its output at the end of `log`. The command should be a tied one.
    pub(super) fn spawn(command: &mut Command, log: &Path) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(append(log)?)
            .stderr(append(log)?)
            .process_group(0)
            .spawn()
            .context(format_args!("cannot run {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of its log.
    pub(super) fn tail(&self) -> String {
        tail(&self.log)
    }

    /// Asks it to stop, and kills it when it takes too long.
    pub(super) fn stop(mut self, signal: Signal, patience: Duration) {
        let family = family(self.child.id());
        if let Some(pid) = pid(self.child.id())
            && self.ended().is_none()
        {
            let _ = kill_process(pid, signal);
        }
        let deadline = Instant::now() + patience;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        if self.ended().is_none() {
            self.kill();
        } else {
            // What it started has no business without it.
            kill_all(&family);
        }
    }

    /// kill -9, with everything that it started.
    pub(super) fn kill(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let family = family(self.child.id());
        let _ = self.child.kill();
        kill_all(&family);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a short command to its end, and gives up when the supervisor is told to end.
pub(super) fn finish(command: &mut Command, log: &Path, patience: Duration, ending: &Ending) -> Result<()> {
    let what = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned())
        .find(|argument| argument.contains('/') && !argument.starts_with('-'))
        .unwrap_or_else(|| command.get_program().to_string_lossy().into_owned());
    let mut process = Process::spawn(command, log)?;
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = process.ended() {
            if status.success() {
                return Ok(());
            }
            return Err(failed(format!("{what} failed ({status})\n{}", process.tail())));
        }
        if ending.is_asked() {
            return Err(Error::Interrupted);
        }
        if Instant::now() > deadline {
            return Err(failed(format!(
                "{what} took longer than {} s\n{}",
                patience.as_secs(),
                process.tail()
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

fn append(log: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .context(format_args!("cannot write {}", log.display()))
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// A process and when it was started, which together never name another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    id: u32,
    started: u64,
}

/// All descendants of a process. Servers put some of theirs into groups and sessions of their own, so a process
/// group would not do.
fn family(ancestor: u32) -> Vec<Identity> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let all: Vec<(Identity, u32)> =
        entries.flatten().filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect();
    let mut found: Vec<Identity> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for (identity, _) in all.iter().filter(|(_, its_parent)| *its_parent == parent) {
            found.push(*identity);
            parents.push(identity.id);
        }
    }
    found
}

fn kill_all(processes: &[Identity]) {
    for process in processes {
        if stat(process.id).is_some_and(|(now, _)| now == *process)
            && let Some(pid) = pid(process.id)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A process's identity and its parent, from `/proc`.
fn stat(id: u32) -> Option<(Identity, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name stands in parentheses and may contain anything.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let mut fields = rest.split(' ');
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some((Identity { id, started }, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(id: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|text| !text.contains(") Z "))
    }

    fn shell(folder: &Path, script: &str) -> Process {
        Process::spawn(Command::new("sh").args(["-c", script]), &folder.join("log")).unwrap()
    }

    fn wait_for_line(path: &Path) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            assert!(Instant::now() < deadline, "nothing was written to {}", path.display());
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn a_dropped_process_is_gone_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let process = shell(folder.path(), "setsid sleep 600 & echo $!; wait");
        let child: u32 = wait_for_line(&folder.path().join("log")).parse().unwrap();
        let id = process.id();
        assert!(alive(id) && alive(child));
        drop(process);
        assert!(!alive(id));
        let deadline = Instant::now() + Duration::from_secs(20);
        while alive(child) {
            assert!(Instant::now() < deadline, "the child outlived its parent");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn one_that_will_not_stop_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let process = shell(folder.path(), "trap '' TERM; echo ready; while :; do sleep 1; done");
        wait_for_line(&folder.path().join("log"));
        let id = process.id();
        process.stop(Signal::TERM, Duration::from_millis(200));
        assert!(!alive(id));
    }

    #[test]
    fn a_short_command_fails_with_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let error = finish(
            Command::new("sh").args(["-c", "echo why; exit 1"]),
            &folder.path().join("log"),
            Duration::from_secs(20),
            &Ending::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn the_end_of_the_supervisor_ends_a_short_command() {
        let folder = tempfile::tempdir().unwrap();
        let ending = Ending::default();
        ending.ask();
        let outcome = finish(
            Command::new("sleep").arg("600"),
            &folder.path().join("log"),
            Duration::from_mins(10),
            &ending,
        );
        assert!(matches!(outcome, Err(Error::Interrupted)));
    }
}
