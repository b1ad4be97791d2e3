//! A clock that is set back an hour while messages wait.

use std::fs;

use redrive::engine::port::EntryState;

use crate::http::Journal;
use crate::process::{Process, entries_of, until};

const HOUR: i64 = 3_600_000;

#[test]
fn a_clock_set_back_an_hour_loses_nothing_and_hurries_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("clock.db");
    let clock = folder.path().join("off-by");
    let set = |by: i64| {
        // Put in place at once, so that nobody reads half a number.
        fs::write(clock.with_extension("new"), by.to_string()).unwrap();
        fs::rename(clock.with_extension("new"), &clock).unwrap();
    };
    set(0);
    let journal = Journal::start();
    let process = Process::start(&data, &journal, &[("REDRIVE_CLOCK", clock.to_str().unwrap())]);
    let calls = |id: &str| journal.calls().get(id).map_or(0, Vec::len);
    // It fails twice and is due a second after each.
    assert_eq!(process.publish("waits", "flaky").0, 201);
    until("the first failure", || (calls("waits") == 1).then_some(()));
    until("it to wait", || (process.flow()["in_hand"] == 0).then_some(()));

    set(-HOUR);
    // What comes now runs now, and its own retries come in their own time, while the other still waits.
    assert_eq!(process.publish("fresh", "flaky").0, 201);
    until("the retries of what came later", || (calls("fresh") == 3).then_some(()));
    assert_eq!(calls("waits"), 1, "it waits by the clock on the wall");
    let (_, waiting) = process.get("/v1/messages?state=waiting");
    assert_eq!(waiting["entries"][0]["message"]["id"], "waits", "{waiting}");

    // An hour later, and no later than that.
    set(0);
    until("the rest of its retries", || (calls("waits") == 3).then_some(()));
    until("nothing to be in hand", || (process.flow()["in_hand"] == 0).then_some(()));
    assert!(process.stop().success());
    let recovered = |id: &str| (id.to_owned(), EntryState::Recovered);
    assert_eq!(entries_of(&data), [recovered("fresh"), recovered("waits")].into());
    assert_eq!((calls("fresh"), calls("waits")), (3, 3));
}
