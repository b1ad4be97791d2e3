//! One side of a comparison in a process of its own, so that its memory and its processor time are its own.
//!
//! A benchmark starts itself again with `--side` and some words. The process does its work and [says](said) on standard
//! output what it was.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Measured, process};

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What a side says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// Messages a second.
    pub rate: f64,
    /// The most memory that was resident, in megabytes.
    pub peak: Option<f64>,
    /// Microseconds of processor time a message.
    pub cost: Option<f64>,
    /// What was resident at three quarters against a quarter.
    pub growth: Option<f64>,
}

/// Runs a side that is described by these words, and waits for it.
pub fn in_process(words: &[String]) -> Measured<Ran> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--side").args(words).stdout(Stdio::piped());
    let output = command.spawn()?.wait_with_output()?;
    if !output.status.success() {
        return Err("a side failed".into());
    }
    let said: Value = serde_json::from_slice(&output.stdout)?;
    let rate = said["rate"].as_f64().ok_or("a side said no rate")?;
    let figure = |name: &str| said[name].as_f64();
    Ok(Ran { rate, peak: figure("peak"), cost: figure("cost"), growth: figure("growth") })
}

/// The whole of a side's process: does the work of so many messages, which says how long it took, and prints what it was.
pub fn said(messages: u64, work: impl FnOnce() -> Measured<Duration>) -> ExitCode {
    let ended = Arc::new(AtomicBool::new(false));
    let looking = std::thread::spawn({
        let ended = Arc::clone(&ended);
        move || look(&ended)
    });
    let took = work();
    ended.store(true, Ordering::Relaxed);
    let looked = looking.join().unwrap_or_default();
    let took = match took {
        Ok(took) => took,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let at = |share: usize| looked.get(looked.len() * share / 4).copied();
    let growth = at(1).zip(at(3)).map(|(early, late)| late / early);
    let peak = process::peak_megabytes(std::process::id());
    let cost = process::processor_seconds().map(|seconds| seconds * 1e6 / messages as f64);
    let rate = messages as f64 / took.as_secs_f64();
    println!("{}", json!({ "rate": rate, "peak": peak, "cost": cost, "growth": growth }));
    ExitCode::SUCCESS
}

fn look(ended: &AtomicBool) -> Vec<f64> {
    let mut looked = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        looked.extend(process::resident_megabytes(std::process::id()));
        std::thread::sleep(LOOK);
    }
    looked
}
