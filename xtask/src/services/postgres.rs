//! PostgreSQL from Debian's package: a cluster of its own, run by an unprivileged user, since it refuses to be root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::command::tied;
use crate::error::{Context, Result, failed};
use crate::place;

use super::ports;
use super::process::{Process, finish};
use super::service::{Service, Site, Trouble};

/// One server.
pub(super) struct Postgres {
    programs: PathBuf,
    version: String,
    user: Option<User>,
    site: Site,
    port: u16,
}

/// Who runs it when we are root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

impl Postgres {
    pub(super) fn prepare(site: Site) -> std::result::Result<Self, Trouble> {
        let programs = place::newest(Path::new("/usr/lib/postgresql"), "")
            .map(|folder| folder.join("bin"))
            .filter(|folder| folder.join("postgres").exists());
        let Some(programs) = programs else {
            return Err(Trouble::Unavailable("the PostgreSQL server is not installed".to_owned()));
        };
        let user = if rustix::process::geteuid().is_root() { Some(unprivileged()?) } else { None };
        if let Some(user) = user {
            chown(&site.folder, Some(user.id), Some(user.group))
                .context(format_args!("cannot hand over {}", site.folder.display()))?;
        }
        let postgres = Self { version: version(&programs), programs, user, site, port: ports::free()? };
        postgres.create_cluster()?;
        Ok(postgres)
    }

    fn create_cluster(&self) -> Result<()> {
        let mut command = self.program("KILL", "initdb");
        command
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
            .arg("--pgdata")
            .arg(self.data());
        finish(&mut command, &self.site.log("initdb"), Duration::from_mins(2), &self.site.ending)
    }

    /// One of its programs, run by the right user.
    fn program(&self, signal: &str, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = match self.user {
            // Changing the user clears the tie to the parent, so both have to be done by one call of setpriv.
            Some(user) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={}", user.id))
                    .arg(format!("--regid={}", user.group))
                    .args(["--clear-groups", "--pdeathsig", signal, "--"])
                    .arg(program);
                command
            }
            None => tied(signal, program),
        };
        command.current_dir(&self.site.folder).env("HOME", &self.site.folder);
        for variable in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(variable);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.site.folder.join("data")
    }
}

impl Service for Postgres {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn nodes(&self) -> usize {
        1
    }

    fn spawn(&mut self, _node: usize) -> Result<Process> {
        // Quit, not kill: it then takes its children and its shared memory along.
        let mut command = self.program("QUIT", "postgres");
        command.arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            "unix_socket_directories=".to_owned(),
            "max_connections=200".to_owned(),
            "logging_collector=off".to_owned(),
        ] {
            command.arg("-c").arg(setting);
        }
        Process::spawn(&mut command, &self.site.log("server"))
    }

    fn healthy(&self, nodes: &[usize]) -> std::result::Result<(), String> {
        if nodes.is_empty() {
            return Ok(());
        }
        let answer = Command::new(self.programs.join("pg_isready"))
            .args(["--host=127.0.0.1", "--username=postgres", "--timeout=5", "--quiet", "--port"])
            .arg(self.port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match answer {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("pg_isready: {status}")),
            Err(error) => Err(format!("pg_isready: {error}")),
        }
    }

    fn stop_signal(&self) -> (Signal, Duration) {
        // Fast shutdown: open transactions are rolled back, everything is written.
        (Signal::INT, Duration::from_secs(30))
    }

    fn clean(&self) {
        // A killed server leaves a small segment of shared memory, whose id stands in the file that it leaves too.
        if let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid"))
            && let Some(segment) = segment(&text)
        {
            let _ = Command::new("ipcrm")
                .args([OsStr::new("-m"), OsStr::new(segment)])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// The id of the shared memory segment in `postmaster.pid`: the second word of its seventh line.
fn segment(text: &str) -> Option<&str> {
    let id = text.lines().nth(6)?.split_whitespace().nth(1)?;
    id.chars().all(|c| c.is_ascii_digit()).then_some(id)
}

fn version(programs: &Path) -> String {
    let output = Command::new(programs.join("postgres")).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or("?")
        .to_owned()
}

fn unprivileged() -> Result<User> {
    let accounts = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| account(&accounts, name))
        .ok_or_else(|| failed("there is neither a user `postgres` nor a user `nobody` to run PostgreSQL as"))
}

fn account(accounts: &str, name: &str) -> Option<User> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let user = User { id: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? };
    (user.id != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name_and_is_never_root() {
        let accounts =
            "root:x:0:0::/:/bin/sh\nxpostgres:x:7:7::/:/x\npostgres:x:104:112:,,,:/home:/bin/bash\n";
        assert_eq!(account(accounts, "postgres"), Some(User { id: 104, group: 112 }));
        assert_eq!(account(accounts, "root"), None);
        assert_eq!(account(accounts, "nobody"), None);
    }

    #[test]
    fn the_segment_is_read_from_a_pid_file() {
        let text = "4711\n/data\n1700000000\n20000\n\n127.0.0.1\n  9273604     32769\nready   \n";
        assert_eq!(segment(text), Some("32769"));
        assert_eq!(segment("4711\n"), None);
    }
}
