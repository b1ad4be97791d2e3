//! The real binary, started as often as it takes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running `redrive run`.
pub(crate) struct Process {
    child: Child,
    data: PathBuf,
}

impl Process {
    /// Starts it on a data file and waits until it is ready; nothing when it died before that.
    pub(crate) fn start(data: &Path, handler: &str, order_by: &str, fail: Option<&str>) -> Option<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        // A process that is killed is no message's fault here, so crashes are not held against any. And without its breaker, since a handler that is down would hold the flow instead of using the attempts up.
        let config = data.with_extension("yaml");
        let text = format!(
            "version: 1
flows:
  orders:
    from: queue:orders
    to: {handler}
    retry: 20ms x3
    concurrency: 4
    order_by: {order_by}
    crash_limit: 100
    breaker: {{ consecutive: 0, min_calls: 100000 }}
"
        );
        std::fs::write(&config, text).unwrap();
        command.args(["run", "-c"]).arg(config);
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--exit-when-idle",
            "500ms",
            "--log-level",
            "error",
            "--data",
        ]);
        command.arg(data).env_remove("REDRIVE_FAIL").stderr(Stdio::piped()).stdout(Stdio::null());
        if let Some(point) = fail {
            command.env("REDRIVE_FAIL", point);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("redrive ready"));
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let process = Self { child, data: data.to_owned() };
        if ready {
            return Some(process);
        }
        let status = process.end();
        assert!(was_killed(status), "it ended by itself before it was ready: {status}");
        None
    }

    pub(crate) fn file(&self, name: &str) -> String {
        let mut folder = self.data.as_os_str().to_owned();
        folder.push(".d");
        std::fs::read_to_string(Path::new(&folder).join(name)).unwrap().trim().to_owned()
    }

    pub(crate) fn address(&self) -> String {
        self.file("address").trim_start_matches("http://").to_owned()
    }

    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

/// Whether it was ended by a signal, as an aborted or killed process is.
pub(crate) fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some()
}
