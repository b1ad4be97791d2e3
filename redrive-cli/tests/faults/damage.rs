//! Files that are damaged: before they are opened, and while they are in use.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::http::Journal;
use crate::process::{BINARY, Process, Ran, ran, run_arguments, until};

/// What `run` and a command say about a file, which is left as it is.
fn refused(data: &Path) -> String {
    let before = fs::read(data).unwrap();
    let mut said = String::new();
    let arguments = run_arguments(data, "http://127.0.0.1:1/orders");
    let mut publish = Command::new(BINARY);
    publish.args(["publish", "queue:orders", "hello", "--data"]).arg(data);
    for command in [Command::new(BINARY).args(arguments), &mut publish] {
        let Ran { code, said: text } = ran(command);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.starts_with("RD-"), "{text}");
        assert_eq!(fs::read(data).unwrap(), before, "it was changed: {text}");
        said = text;
    }
    said
}

fn with_a_message(data: &Path) {
    let published = ran(Command::new(BINARY).args(["publish", "queue:orders", "hello", "--data"]).arg(data));
    assert_eq!(published.code, Some(0), "{published:?}");
}

#[test]
fn a_first_page_that_was_overwritten_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("header.db");
    with_a_message(&data);
    let whole = fs::read(&data).unwrap();
    for garbage in [0x00, 0xa5, 0xff] {
        let mut bytes = whole.clone();
        bytes[..4_096].fill(garbage);
        fs::write(&data, bytes).unwrap();
        let said = refused(&data);
        assert!(said.contains("header.db is damaged or no SQLite file"), "{garbage}: {said}");
        assert!(said.contains("put a backup in its place"), "{garbage}: {said}");
    }
    // The backup in its place.
    fs::write(&data, whole).unwrap();
    let queues = ran(Command::new(BINARY).args(["queues", "--json", "--data"]).arg(&data));
    assert!(queues.said.contains("\"ready\":1"), "{queues:?}");
}

#[test]
fn what_is_no_database_and_what_is_somebody_elses_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("letter.db");
    fs::write(&data, "Dear customer,\n".repeat(1_000)).unwrap();
    let said = refused(&data);
    assert!(said.contains("letter.db is damaged or no SQLite file"), "{said}");
    assert!(said.contains("or move it aside to begin empty"), "{said}");

    let folder_in_its_place = folder.path().join("folder.db");
    fs::create_dir(&folder_in_its_place).unwrap();
    let publish = ["publish", "queue:orders", "hello", "--data"];
    let said = ran(Command::new(BINARY).args(publish).arg(&folder_in_its_place));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.said.contains("folder.db"), "{said:?}");
}

/// A file that is destroyed under a running instance: it says so, stays, asks with pauses and can be stopped.
#[test]
fn damage_while_it_runs_is_named_and_survived() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("damaged.db");
    let journal = Journal::start();
    let process = Process::start(&data, &journal, &[]);
    assert_eq!(process.publish("before", "ok").0, 201);
    until("the message to be handled", || journal.calls().contains_key("before").then_some(()));
    for name in ["damaged.db", "damaged.db-wal"] {
        let file = fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
        let size = file.metadata().unwrap().len();
        // Behind the head, so that only what is read shows it.
        for at in (100..size).step_by(100) {
            file.write_all_at(&[0xa5; 100], at).unwrap();
        }
    }
    let why = until("an alarm", || {
        // What is written makes the reader look again.
        let _ = process.publish("during", "ok");
        process.alarms().remove("broker_away")
    });
    assert!(why.contains("damaged.db is damaged") && why.contains("restore it from a backup"), "{why}");
    until("a line in the log", || process.log().contains("damaged.db is damaged").then_some(()));
    assert_eq!(process.get("/healthz").0, 200);
    assert_eq!(process.get("/readyz").0, 503);
    assert!(process.stop().success(), "it cannot be stopped");
}
