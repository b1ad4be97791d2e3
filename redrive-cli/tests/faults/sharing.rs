//! Two processes on one file.

use std::process::Command;

use crate::http::Journal;
use crate::process::{BINARY, Process, entries_of, ran, run_arguments, until};

#[test]
fn a_second_process_refuses_by_name_and_commands_reach_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("shared.db");
    let journal = Journal::start();
    let first = Process::start(&data, &journal, &[]);
    let arguments = run_arguments(&data, &format!("http://{}/orders", journal.address));
    let second = ran(Command::new(BINARY).args(arguments));
    assert_ne!(second.code, Some(0));
    assert!(second.said.starts_with("RD-"), "{}", second.said);
    assert!(
        second.said.contains(&format!("shared.db is in use by process {}", first.id())),
        "{}",
        second.said
    );
    assert!(second.said.contains("or stop it first"), "{}", second.said);

    // The first one is not disturbed, and a command goes to it.
    let publish = ["publish", "queue:orders", "ok", "--id", "order-1", "--data"];
    let published = ran(Command::new(BINARY).args(publish).arg(&data));
    assert_eq!(published.code, Some(0), "{published:?}");
    assert!(published.said.contains("on the running instance"), "{published:?}");
    until("the message to be handled", || journal.calls().contains_key("order-1").then_some(()));
    assert!(first.stop().success());
    assert_eq!(entries_of(&data), [].into());
}
