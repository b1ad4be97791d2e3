//! The real binary, as a person starts it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::process;

use crate::Measured;

/// The binary `redrive`.
pub(crate) struct Binary {
    path: PathBuf,
}

/// A running instance; it is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    /// From its start to the line that says it is ready.
    pub(crate) took: Duration,
}

impl Binary {
    pub(crate) fn find() -> Measured<Self> {
        Ok(Self { path: process::binary()? })
    }

    /// Starts a flow from `orders` to an endpoint and waits until it is ready.
    pub(crate) fn run(&self, data: &Path, endpoint: &str) -> Measured<Running> {
        let mut command = Command::new(&self.path);
        command.args([
            "run",
            "--from",
            "queue:orders",
            "--to",
            endpoint,
            "--listen",
            "127.0.0.1:0",
            "--data",
        ]);
        command.arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or("the binary has no stderr")?;
        let mut running = Running { child, took: Duration::ZERO };
        let mut lines = BufReader::new(stderr).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("redrive ready"));
        running.took = began.elapsed();
        if !ready {
            return Err("the binary ended before it was ready".into());
        }
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(running)
    }

    /// Publishes one message a line of a file, through the running instance.
    pub(crate) fn publish(&self, data: &Path, lines: &Path) -> Measured<()> {
        let mut command = Command::new(&self.path);
        command.args(["publish", "queue:orders", "--lines"]).arg(lines).arg("--data").arg(data);
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("publishing failed: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

impl Running {
    /// The most memory it has had resident, in megabytes; nothing where the system does not tell.
    pub(crate) fn peak_megabytes(&self) -> Option<f64> {
        process::peak_megabytes(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
