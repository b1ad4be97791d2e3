//! Tests that did not run: said on stderr, and to the supervisor for the closing summary.

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
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    // Cargo adds a hash.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name).to_owned();
    match std::thread::current().name() {
        Some(test) => format!("{program}::{test}"),
        None => program,
    }
}
