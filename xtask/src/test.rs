//! `cargo xtask test`: every check that a change has to pass, in one command.
//!
//! All steps share the target folder and the compiler's flags, so nothing is compiled twice for the same purpose.

use std::time::Instant;

use crate::command::{cargo, quiet, show};
use crate::error::{Error, Result, failed};
use crate::install;
use crate::licences;
use crate::metadata::Metadata;
use crate::progress::Steps;
use crate::services::{self, Kind, Status, Supervisor, VARIABLE};
use crate::summary::Summary;

const WHOLE: [&str; 3] = ["--workspace", "--all-features", "--locked"];
/// The crates that people use by themselves. `default` is a feature too: of these, without anything else.
const ALONE: [&str; 1] = ["redrive-retry"];
/// Tells the tests that the run is a quick one.
const QUICK: &str = "REDRIVE_QUICK";
/// How many tests of one binary run at once. Those on real servers wait more than they work, so there are more of them
/// than cores.
const THREADS: &str = "RUST_TEST_THREADS";
const THREADS_A_CORE: usize = 4;

pub(crate) fn run(quick: bool) -> Result<()> {
    let began = Instant::now();
    let nextest = cargo().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    let mut steps = Steps::new(if nextest { 9 } else { 8 });
    let mut status = None;
    let outcome = check(&mut steps, quick, nextest, &mut status);
    steps.clear();

    let strict = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    let summary = Summary {
        steps: steps.done(),
        status: status.as_ref(),
        strict,
        took: began.elapsed(),
        error: match &outcome {
            Err(Error::Failed(text)) => Some(text.clone()),
            Ok(()) | Err(Error::Interrupted | Error::Reported) => None,
        },
        interrupted: matches!(outcome, Err(Error::Interrupted)),
    };
    println!("{}", summary.text().trim_end());
    match outcome {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        _ if summary.passed() => Ok(()),
        _ => Err(Error::Reported),
    }
}

fn check(steps: &mut Steps, quick: bool, nextest: bool, status: &mut Option<Status>) -> Result<()> {
    let installed = steps.run("install what is missing", || {
        let kinds: Vec<Kind> =
            Kind::ALL.into_iter().filter(|kind| !(quick && *kind == Kind::Kafka)).collect();
        let mut needs = vec![install::BUILD, install::BUILD_CLIENTS];
        needs.extend(services::needs(&kinds));
        install::ensure(&needs)
    })?;
    steps.note_installed(&installed);
    steps.run("format", || quiet("cargo fmt", cargo().args(["fmt", "--all", "--check"])))?;
    steps.run("licences and sources", licences::check)?;
    steps.run("lints", || {
        quiet(
            "cargo clippy",
            cargo().arg("clippy").args(WHOLE).args(["--all-targets", "--", "-D", "warnings"]),
        )
    })?;
    steps.run("features alone", features_alone)?;
    steps.run("documentation", || {
        let mut command = cargo();
        command.arg("doc").args(WHOLE).arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings");
        quiet("cargo doc", &mut command)
    })?;
    steps.run("build the tests", || quiet("cargo test", cargo().arg("test").args(WHOLE).arg("--no-run")))?;

    let supervisor = Supervisor::start(quick)?;
    steps.note(&format!("servers, once asked for, are in {}", supervisor.folder()));
    let outcome = tests(steps, &supervisor, quick, nextest);
    if matches!(outcome, Err(Error::Failed(_))) {
        supervisor.mark_failed()?;
    }
    *status = supervisor.status().ok();
    let ended = supervisor.end();
    outcome.and(ended)
}

/// A crate that people use by itself has to build with each of its features and no other, which the other steps never
/// do: all features of all crates are on there.
fn features_alone() -> Result<()> {
    let metadata = Metadata::workspace()?;
    for name in ALONE {
        let package = metadata.package(name).ok_or_else(|| failed(format!("there is no crate {name}")))?;
        for feature in package.features.keys() {
            let mut command = cargo();
            command.args(["clippy", "--locked", "-p", name, "--no-default-features", "--features", feature]);
            quiet("cargo clippy", command.args(["--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

fn tests(steps: &mut Steps, supervisor: &Supervisor, quick: bool, nextest: bool) -> Result<()> {
    let run = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(arguments).args(WHOLE).env(VARIABLE, supervisor.socket());
        if quick {
            command.env(QUICK, "1");
        }
        if std::env::var_os(THREADS).is_none() {
            let cores = std::thread::available_parallelism().map_or(2, usize::from);
            command.env(THREADS, (cores * THREADS_A_CORE).to_string());
        }
        let tested = show(&mut command)?;
        if tested.success() { Ok(()) } else { Err(failed("a test failed")) }
    };
    if nextest {
        steps.run_shown("tests", || run(&["nextest", "run"]))?;
        steps.run_shown("doctests", || run(&["test", "--doc"]))
    } else {
        steps.run_shown("tests", || run(&["test", "--no-fail-fast"]))
    }
}
