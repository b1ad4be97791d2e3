//! `cargo xtask samples`: the dead letters that the tests of the dialects read, captured from their real writers.
//!
//! Each writer fails on purpose on a real broker; what it leaves there is written down byte by byte.

mod kafka;
mod rabbitmq;

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::command::tied;
use crate::error::{Context, Result, failed};
use crate::install;
use crate::place;
use crate::progress::Steps;
use crate::services::{self, Kind, Supervisor, Workshop};

/// Captures those of one broker, or of all that have any.
pub(crate) fn run(only: Option<Kind>) -> Result<()> {
    let kinds: Vec<Kind> = [Kind::Kafka, Kind::Rabbitmq]
        .into_iter()
        .filter(|kind| only.is_none_or(|only| only == *kind))
        .collect();
    if kinds.is_empty() {
        return Err(failed("there are samples of kafka and of rabbitmq"));
    }
    let of = |kind: Kind| if kind == Kind::Kafka { kafka::STEPS } else { rabbitmq::STEPS };
    let mut steps = Steps::new(1 + kinds.iter().copied().map(of).sum::<usize>());
    let installed = steps.run("install what is missing", || install::ensure(&services::needs(&kinds)))?;
    steps.note_installed(&installed);
    let (workshop, supervisor) = (Workshop::new()?, Supervisor::start(false)?);
    for kind in kinds {
        if kind == Kind::Kafka {
            kafka::sample(&mut steps, &workshop, &supervisor)?;
        } else {
            rabbitmq::sample(&mut steps, &workshop, &supervisor)?;
        }
    }
    steps.clear();
    supervisor.end()?;
    println!("written to {}", folder().display());
    Ok(())
}

/// A program that runs until it is no longer needed.
struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Running {
    /// Starts it and waits until it is ready.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run java")?;
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let mut running = Self { child, lines };
        if running.line()?.contains("ready") { Ok(running) } else { Err(failed("a writer did not start")) }
    }

    /// The next line that it wrote; waits for it.
    fn line(&mut self) -> Result<String> {
        let line = self.lines.as_mut().and_then(Iterator::next);
        line.ok_or_else(|| failed("a writer has ended"))?.context("a writer wrote no text")
    }

    /// Reads the rest and lets it go, so that the program is never kept waiting.
    fn unheard(mut self) -> Self {
        if let Some(lines) = self.lines.take() {
            std::thread::spawn(move || lines.map_while(std::result::Result::ok).for_each(drop));
        }
        self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn java(class_path: &str, main: &str) -> Command {
    let mut command = tied("KILL", "java");
    command
        .env_remove("JAVA_TOOL_OPTIONS")
        .env_remove("_JAVA_OPTIONS")
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        .args(["-cp", class_path, main]);
    command
}

fn write(folder: &str, name: &str, sample: &Value) -> Result<()> {
    let path = self::folder().join(folder).join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(sample).context("a sample is no JSON")?;
    text.push('\n');
    std::fs::write(&path, text).context(format_args!("cannot write {}", path.display()))
}

fn folder() -> PathBuf {
    place::root().join("redrive-core/tests/dialects")
}
