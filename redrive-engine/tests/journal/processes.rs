//! Real processes that die with calls in flight.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{at, crashes, open};

const FILE: &str = "JOURNAL_TEST_FILE";
const CALLS: &str = "JOURNAL_TEST_CALLS";
const END: &str = "JOURNAL_TEST_END";
const ALL: [&str; 5] = ["a", "b", "c", "d", "e"];

/// This very test, as another process: opens the journal, begins a call for each id, ends those with a `-`, and
/// comes to its own end.
fn other_process(test: &str, file: &Path, calls: &str, end: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    command.env(FILE, file).env(CALLS, calls).env(END, end).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("in flight")), "the other process did not begin");
    if end == "kill" {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), end == "return", "{status}");
}

/// What the other process does; nothing in the test's own process.
fn play() -> bool {
    let Some(file) = std::env::var_os(FILE) else { return false };
    let (calls, end) = (std::env::var(CALLS).unwrap(), std::env::var(END).unwrap());
    let journal = open(Path::new(&file), at(0));
    let running: Vec<_> = calls
        .split(' ')
        .filter_map(|call| {
            let running = journal.begin(journal.name("orders", call.trim_end_matches('-')));
            (!call.ends_with('-')).then_some(running)
        })
        .collect();
    assert!(running.iter().all(redrive_engine::journal::Running::is_named));
    println!("in flight");
    std::io::stdout().flush().unwrap();
    match end.as_str() {
        "abort" => std::process::abort(),
        // The parent ends it.
        "kill" => loop {
            std::thread::park();
        },
        _ => {}
    }
    true
}

#[test]
fn exactly_what_ran_in_a_process_that_aborts_is_suspected() {
    if play() {
        return;
    }
    let test = "processes::exactly_what_ran_in_a_process_that_aborts_is_suspected";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    other_process(test, &file, "a b- c d-", "abort");
    {
        let journal = open(&file, at(0));
        assert_eq!(journal.suspects(), 2);
        assert_eq!(crashes(&journal, ALL), [1, 0, 1, 0, 0]);
        assert_eq!(journal.crashes(journal.name("returns", "a")), 0, "another flow's message");
    }
    // Opening it again without a crash between charges nobody.
    other_process(test, &file, "a e", "abort");
    let journal = open(&file, at(0));
    assert_eq!(crashes(&journal, ALL), [2, 0, 1, 0, 1]);
    assert_eq!(journal.found().crashed, 2);
}

#[test]
fn what_ran_when_the_process_was_killed_is_suspected() {
    if play() {
        return;
    }
    let test = "processes::what_ran_when_the_process_was_killed_is_suspected";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    for expected in [1, 2, 3] {
        other_process(test, &file, "a- b", "kill");
        assert_eq!(crashes(&open(&file, at(0)), ALL), [0, expected, 0, 0, 0]);
    }
}

#[test]
fn a_process_that_returns_leaves_no_suspects() {
    if play() {
        return;
    }
    let test = "processes::a_process_that_returns_leaves_no_suspects";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    other_process(test, &file, "a b c", "return");
    let journal = open(&file, at(0));
    assert_eq!(journal.suspects(), 0);
    assert_eq!(journal.found().crashed, 0);
}
