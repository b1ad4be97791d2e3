//! The real binary as a member of a flow on a broker, with a data file of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// A process that runs the flow.
pub(crate) struct Member {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

/// Where a member keeps its data, over as many processes as it takes.
pub(crate) struct Seat<'a> {
    /// The configuration file's text.
    pub(crate) config: &'a str,
    pub(crate) data: PathBuf,
}

impl Seat<'_> {
    /// Starts a process and waits until it is ready; nothing when it died before that. It ends by itself when there is
    /// nothing left to do and it was told to.
    pub(crate) fn start(&self, ends: bool, fail: Option<&str>) -> Option<Member> {
        self.begin("off", ends, fail)
    }

    /// The same with an API that others can ask, until it is told to stop.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn start_listening(&self, fail: Option<&str>) -> Option<Member> {
        self.begin("127.0.0.1:0", false, fail)
    }

    fn begin(&self, listen: &str, ends: bool, fail: Option<&str>) -> Option<Member> {
        let config = self.data.with_extension("yaml");
        std::fs::write(&config, self.config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.args(["run", "--listen", listen, "--log-level", "warn", "-c"]).arg(config);
        command.arg("--data").arg(&self.data);
        if ends {
            command.args(["--exit-when-idle", "1s"]);
        }
        command.env_remove("REDRIVE_FAIL").env_remove("REDRIVE_DATA").env_remove("REDRIVE_CONFIG");
        if let Some(point) = fail {
            command.env("REDRIVE_FAIL", point);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let told = Arc::clone(&said);
        // Read to its end, so that it never waits for a reader.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                told.lock().unwrap().push(line);
            }
        });
        let mut member = Member { child, said };
        let ready = eventually("a member is ready or dead", || match member.child.try_wait().unwrap() {
            Some(status) => Ok(Err(status)),
            None if member.said().lines().any(|line| line.starts_with("redrive ready")) => Ok(Ok(())),
            None => Err(member.said()),
        });
        match ready {
            Ok(()) => Some(member),
            Err(status) => {
                assert!(
                    was_killed(status),
                    "it ended by itself before it was ready: {status}\n{}",
                    member.said()
                );
                None
            }
        }
    }
}

impl Member {
    /// What it has said so far.
    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Where its API listens.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn address(&self) -> String {
        let said = self.said();
        let ready = said.lines().find_map(|line| line.strip_prefix("redrive ready http://"));
        ready.expect("an address").to_owned()
    }

    #[allow(dead_code, reason = "not every broker's tests need it")]
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its process stands still, as that of a machine that is suspended.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn stand_still(&self) {
        self.signal(Signal::STOP);
    }

    /// Its process goes on.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Tells it to stop, and waits until it has.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn stop(self) {
        self.signal(Signal::TERM);
        assert!(self.ended(), "it was killed by nobody");
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has been killed by now.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn is_dead(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some_and(was_killed)
    }

    /// Waits until it has ended. Yes when it did so because nothing was left to do, no when it was killed.
    pub(crate) fn ended(mut self) -> bool {
        let status =
            eventually("a member ends", || self.child.try_wait().unwrap().ok_or_else(|| self.said()));
        assert!(status.success() || was_killed(status), "it failed with {status}:\n{}", self.said());
        status.success()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether it was ended by a signal, as an aborted or killed process is.
fn was_killed(status: ExitStatus) -> bool {
    status.signal().is_some()
}
