//! The built command while it runs flows on a broker, and the handler that it calls.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::desk::BINARY;

/// The limit of every wait: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The handler of these tests: what has no fridge fails and is tried again, what is no order is bad data.
pub(crate) const HANDLER: &str = "order=$(cat)
case $order in
  *fridge*) test -e fridges || { echo 'no fridge in stock' >&2; exit 75; } ;;
  '{'*) ;;
  *) echo 'not an order' >&2; exit 65 ;;
esac
echo \"$order\" >> shipped
";

/// A process that runs flows.
pub(crate) struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::begin(&mut Command::new(BINARY), folder, arguments)
    }

    /// The same, and it dies when it passes this point.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn start_failing(folder: &Path, arguments: &[&str], point: &str) -> Self {
        Self::begin(Command::new(BINARY).env("REDRIVE_FAIL", point), folder, arguments)
    }

    fn begin(command: &mut Command, folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command
            .args(arguments)
            .current_dir(folder)
            .env_remove("REDRIVE_DATA")
            .env_remove("REDRIVE_CONFIG")
            .env_remove("REDRIVE_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let told = Arc::clone(&said);
        // Read to its end, so that it never waits for a reader.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("redrive: {line}");
                told.lock().unwrap().push(line);
            }
        });
        let mut running = Self { child, said };
        eventually("it is ready", || match running.child.try_wait().unwrap() {
            Some(status) => panic!("it ended with {status}: {:?}", running.said()),
            None if running.said().iter().any(|line| line.starts_with("redrive ready")) => Ok(()),
            None => Err(running.said().join("\n")),
        });
        running
    }

    /// The lines that it has written so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it has died, by a signal.
    #[allow(dead_code, reason = "not every broker's tests need it")]
    pub(crate) fn dies(mut self) {
        let status =
            eventually("it dies", || self.child.try_wait().unwrap().ok_or_else(|| self.said().join("\n")));
        assert!(status.signal().is_some(), "it ended with {status}");
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let status = eventually("it has stopped", || {
            self.child.try_wait().unwrap().ok_or_else(|| self.said().join("\n"))
        });
        assert!(status.success(), "it ended with {status}: {:?}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(found) if Instant::now() >= until => panic!("waited in vain for {what}; found {found}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
