//! The other side of the supervisor: starting one, and talking to it.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Context, Result, failed};

use super::protocol::{Answer, Kind, Request, Status};
use super::supervisor::Ready;

/// The environment variable that tells tests where the socket is.
pub(crate) const VARIABLE: &str = "REDRIVE_SERVICES";

/// Servers stop within half a minute or are killed; the supervisor needs little more.
const END_PATIENCE: Duration = Duration::from_mins(1);

/// A supervisor that ends with this value, and with this process however that ends.
pub(crate) struct Supervisor {
    child: Child,
    ready: Ready,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts one, tied to this process by a pipe.
    pub(crate) fn start(quick: bool) -> Result<Self> {
        let mut command = program();
        command.args(["services", "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if quick {
            command.arg("--quick");
        }
        let (child, ready) = launch(&mut command)?;
        Ok(Self { child, ready })
    }

    /// Where its socket is.
    pub(crate) fn socket(&self) -> &str {
        &self.ready.socket
    }

    /// The folder that everything is in.
    pub(crate) fn folder(&self) -> &str {
        &self.ready.folder
    }

    /// Asks for a server and returns its address.
    pub(crate) fn need(&self, kind: Kind) -> Result<String> {
        need(Path::new(&self.ready.socket), kind)
    }

    /// What runs and what was skipped.
    pub(crate) fn status(&self) -> Result<Status> {
        status(Path::new(&self.ready.socket))
    }

    /// Says that something failed, so that the logs are kept.
    pub(crate) fn mark_failed(&self) -> Result<()> {
        let request = Request { failed: true, ..Request::default() };
        ask(Path::new(&self.ready.socket), &request).map(drop)
    }

    /// Stops all servers and waits for that.
    pub(crate) fn end(mut self) -> Result<()> {
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        // The end of the pipe is the order to end.
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            match self.child.try_wait().context("cannot wait for the supervisor")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(failed(format!("the supervisor of the servers failed ({status})")));
                }
                None if Instant::now() > deadline => {
                    let _ = self.child.kill();
                    return Err(failed("the servers did not stop in time and were killed"));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.child.stdin.is_some()
            && let Err(error) = self.wait()
        {
            eprintln!("{error}");
        }
    }
}

/// This program again. The link works even when a build has replaced the file meanwhile.
pub(super) fn program() -> Command {
    let own = Path::new("/proc/self/exe");
    if own.exists() {
        return Command::new(own);
    }
    Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into()))
}

/// Starts a supervisor and waits until it says where its socket is.
pub(super) fn launch(command: &mut Command) -> Result<(Child, Ready)> {
    let mut child = command.spawn().context("cannot start the supervisor of the servers")?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).context("cannot read from the supervisor")?;
    }
    if let Ok(ready) = serde_json::from_str(&line) {
        Ok((child, ready))
    } else {
        let _ = child.kill();
        let _ = child.wait();
        Err(failed("the supervisor of the servers did not start"))
    }
}

/// Asks a supervisor one thing.
pub(super) fn ask(socket: &Path, request: &Request) -> Result<Answer> {
    let doing = format!("cannot talk to {}", socket.display());
    let mut stream = UnixStream::connect(socket).context(&doing)?;
    let mut text = serde_json::to_string(request).context(&doing)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).context(&doing)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context(&doing)?;
    serde_json::from_str(&line).context(&doing)
}

/// What runs and what was skipped.
pub(super) fn status(socket: &Path) -> Result<Status> {
    match ask(socket, &Request { status: true, ..Request::default() })? {
        Answer::Status { status } => Ok(status),
        other => Err(failed(format!("unexpected answer: {other:?}"))),
    }
}

/// Asks for a server and returns its address.
pub(super) fn need(socket: &Path, kind: Kind) -> Result<String> {
    match ask(socket, &Request { need: Some(kind), ..Request::default() })? {
        Answer::Server { address, .. } => Ok(address),
        Answer::Unavailable { unavailable } => Err(failed(unavailable)),
        Answer::LeftOut { left_out } => Err(failed(left_out)),
        Answer::Error { error } => Err(failed(error)),
        other => Err(failed(format!("unexpected answer: {other:?}"))),
    }
}
