//! A disk that is full, and has room again.

use std::collections::BTreeSet;

use redrive::engine::port::EntryState;

use crate::http::Journal;
use crate::process::{Process, entries_of, until};

fn handled(journal: &Journal) -> BTreeSet<String> {
    journal.calls().into_keys().collect()
}

/// Nothing can be written at all, not even what has been done already. The same process goes on when there is room.
#[test]
fn a_disk_that_takes_nothing_holds_the_flow_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("full.db");
    let journal = Journal::start();
    let process = Process::start(&data, &journal, &[]);
    assert_eq!(process.publish("before", "ok").0, 201);
    assert_eq!(process.publish("in-hand", "held").0, 201);
    assert_eq!(process.publish("bad", "refused").0, 201);
    until("both to be in hand", || (process.flow()["in_hand"] == 2).then_some(()));
    assert_eq!(process.get("/readyz").0, 200);

    process.limit_files(Some(1_024));
    let (status, said) = process.publish("during", "ok");
    assert_eq!(status, 503, "{said}");
    assert!(said.contains("RD-API-19") && said.contains("could not be read or written"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    let (status, said) = process.get("/readyz");
    assert_eq!(status, 503);
    assert_eq!(said["message"], "the data cannot be written; messages are held");

    journal.fix();
    let why = until("an alarm", || process.alarms().remove("broker_away"));
    assert!(why.contains("full.db") && why.contains("messages are held"), "{why}");
    assert_eq!(process.flow()["state"], "holding");
    until("a line in the log", || process.log().contains("no call begins until it does").then_some(()));
    assert_eq!(process.publish("during", "ok").0, 503);

    process.limit_files(None);
    until("it to be ready again", || (process.get("/readyz").0 == 200).then_some(()));
    until("the flow to run again", || (process.flow()["state"] == "running").then_some(()));
    assert!(process.alarms().is_empty());
    assert_eq!(process.publish("during", "ok").0, 201, "what was refused had not been taken");
    assert_eq!(process.publish("after", "ok").0, 201);
    let all = ["after", "bad", "before", "during", "in-hand"].map(str::to_owned).into();
    until("everything to be handled", || (handled(&journal) == all).then_some(()));
    until("nothing to be in hand", || (process.flow()["in_hand"] == 0).then_some(()));
    assert!(process.log().contains("broker settles again"), "{}", process.log());
    assert!(process.stop().success());
    assert_eq!(entries_of(&data), [("bad".to_owned(), EntryState::Parked)].into());
    let calls = journal.calls();
    assert!(calls.values().all(|answers| answers.len() == 1), "handled twice: {calls:?}");
}

/// The file has reached its limit: what does not fit is refused, what makes room goes on.
#[test]
fn a_file_at_its_limit_refuses_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("limit.db");
    let journal = Journal::start();
    let process = Process::start(&data, &journal, &[("REDRIVE_FILE_LIMIT", "600000")]);
    assert_eq!(process.publish("first", "held").0, 201);
    let large = "x".repeat(20_000);
    let mut accepted = vec!["first".to_owned()];
    let said = loop {
        // They wait behind the calls that are held.
        let id = format!("large-{}", accepted.len());
        let (status, said) = process.publish(&id, if accepted.len() < 5 { "held" } else { &large });
        if status != 201 {
            assert_eq!(status, 503, "{said}");
            break said;
        }
        accepted.push(id);
        assert!(accepted.len() < 1_000, "the limit does not hold");
    };
    assert!(said.contains("RD-API-19") && said.contains("is full"), "{said}");
    assert!(said.contains("make room and it goes on"), "{said}");

    journal.fix();
    let all: BTreeSet<String> = accepted.into_iter().collect();
    until("everything to be handled", || (handled(&journal) == all).then_some(()));
    until("room for another", || (process.publish("after", &large).0 == 201).then_some(()));
    until("the last one to be handled", || handled(&journal).contains("after").then_some(()));
    until("nothing to be in hand", || (process.flow()["in_hand"] == 0).then_some(()));
    assert!(process.stop().success());
    assert_eq!(entries_of(&data), [].into());
}
