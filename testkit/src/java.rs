//! A running Java program that writes one JSON object a line.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;

/// How long a line may take. A busy machine starts a Java program slowly.
const PATIENCE: Duration = Duration::from_mins(3);
/// How much of its standard error is kept, in lines.
const MAX_ERRORS: usize = 200;

/// The program. It ends when dropped, and with this process however that ends.
#[derive(Debug)]
pub(crate) struct Java {
    name: &'static str,
    child: Child,
    /// Its end is the order to end.
    _stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Java {
    /// Starts it with a small JVM that is up quickly, and waits until it is ready.
    pub(crate) fn start(class_path: &str, name: &'static str, arguments: &[&str]) -> Self {
        let quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];
        Self::start_with(&quick, class_path, name, arguments)
    }

    /// Starts it with these settings of the JVM, and waits until it is ready.
    pub(crate) fn start_with(
        settings: &[&str],
        class_path: &str,
        name: &'static str,
        arguments: &[&str],
    ) -> Self {
        let child = Command::new("java")
            // A person's own JVM settings must not reach the program.
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("_JAVA_OPTIONS")
            .args(settings)
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", class_path, name])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => panic!("cannot run java: {error}"),
        };
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&errors);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    if kept.len() < MAX_ERRORS {
                        kept.push(line);
                    }
                }
            });
        }
        let stdin = child.stdin.take();
        let java = Self { name, child, _stdin: stdin, lines, errors };
        let first = java.line();
        assert!(first.contains("\"ready\""), "{name} began with {first}");
        java
    }

    /// The next thing that the program wrote; waits for it.
    pub(crate) fn next<T: DeserializeOwned>(&self) -> T {
        let line = self.line();
        match serde_json::from_str(&line) {
            Ok(thing) => thing,
            Err(error) => panic!("{} wrote {line}: {error}", self.name),
        }
    }

    fn line(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(why) => {
                let why = match why {
                    RecvTimeoutError::Timeout => "has not written a line in time",
                    RecvTimeoutError::Disconnected => "has ended",
                };
                let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
                panic!("{} {why}; it says:\n{errors}", self.name);
            }
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
