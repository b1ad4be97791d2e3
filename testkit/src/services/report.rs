//! Tests that did not run: said on stderr, and to the supervisor for the closing summary.

use super::launch;
use super::wire::{Connection, Request, Skip};

/// The server cannot be had. Nobody reads a log that is green, so with CI=true this fails the test.
pub(super) fn skipped(connection: &Connection, reason: &str) {
    report(connection, "skipped", reason);
    let strict = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!strict, "skipped is failed with CI=true: {reason}");
}

/// The test would have to break a server that was given.
pub(super) fn not_applicable(connection: &Connection, reason: &str) {
    report(connection, "not_applicable", reason);
}

/// The run was asked to be quick.
pub(super) fn left_out(connection: &Connection, reason: &str) {
    report(connection, "left_out", reason);
}

/// Something failed, so the servers' logs are worth keeping.
pub(super) fn failed(connection: &Connection) {
    // The test fails already; this could only add noise.
    let _ = connection.ask(&Request { failed: true, ..Request::default() });
}

/// A scenario of the contract, or a part of it, does not apply to an adapter. It needs no server, so the supervisor is told
/// only where the run has one.
pub(super) fn does_not_apply(scenario: &str, reason: &str) {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| program());
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main").unwrap_or(scenario);
    let skip = Skip { test: format!("{package}::{name}"), kind: "scenario", reason: reason.to_owned() };
    eprintln!("{}: does not apply: {reason}", skip.test);
    let Some(socket) = launch::named() else { return };
    let told = Connection::open(&socket)
        .and_then(|connection| connection.ask(&Request { skip: Some(skip), ..Request::default() }));
    if let Err(error) = told {
        panic!("a scenario that does not apply could not be reported: {error}");
    }
}

fn report(connection: &Connection, kind: &'static str, reason: &str) {
    let test = test_name();
    eprintln!("{test}: {}: {reason}", kind.replace('_', " "));
    let skip = Skip { test, kind, reason: reason.to_owned() };
    if let Err(error) = connection.ask(&Request { skip: Some(skip), ..Request::default() }) {
        panic!("a test that did not run could not be reported: {error}");
    }
}

/// The test's program and its own name, which is the name of its thread.
fn test_name() -> String {
    let program = program();
    match std::thread::current().name() {
        Some(test) => format!("{program}::{test}"),
        None => program,
    }
}

fn program() -> String {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    // Cargo adds a hash.
    program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name).to_owned()
}
