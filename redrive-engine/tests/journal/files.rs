//! Files of every kind where the journal should be.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use proptest::prelude::*;
use redrive_engine::journal::{Journal, JournalError};

use crate::{at, crashes, open};

/// The journal as it stands after these calls, and no process any more.
fn died_with(file: &Path, ids: &[&str]) {
    let journal = open(file, at(0));
    for id in ids {
        std::mem::forget(journal.begin(journal.name("orders", id)));
    }
}

#[test]
fn the_file_is_its_owners_alone_and_stays_as_long_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    died_with(&file, &["a"]);
    let first = file.metadata().unwrap();
    assert_eq!(first.permissions().mode() & 0o777, 0o600);
    let journal = open(&file, at(0));
    for n in 0..10_000 {
        drop(journal.begin(journal.name("orders", &n.to_string())));
    }
    assert_eq!(file.metadata().unwrap().len(), first.len());
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["inflight"]);
}

#[test]
fn what_is_no_journal_is_moved_aside() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    let aside = folder.path().join("inflight.damaged");
    std::fs::write(&file, "somebody's notes").unwrap();
    assert_eq!(open(&file, at(0)).suspects(), 0);
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "somebody's notes");

    // One that was cut short, and then one that is not even a file.
    died_with(&file, &["a"]);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(crashes(&open(&file, at(0)), ["a"]), [0]);
    assert_eq!(std::fs::read(&aside).unwrap(), &whole[..whole.len() / 2]);
    std::fs::remove_file(&aside).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(open(&file, at(0)).suspects(), 0);
    assert!(aside.is_dir());
    assert!(file.is_file());
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing/inflight");
    let error = Journal::open(&file, 16, at(0)).unwrap_err();
    assert!(matches!(&error, JournalError::File { path, .. } if *path == file), "{error}");
    assert!(error.to_string().contains("missing/inflight"), "{error}");
}

#[test]
fn another_number_of_calls_keeps_the_suspects() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inflight");
    died_with(&file, &["a", "b"]);
    let journal = Journal::open(&file, 4_096, at(0)).unwrap();
    assert_eq!(crashes(&journal, ["a", "b", "c"]), [1, 1, 0]);
    std::mem::forget(journal.begin(journal.name("orders", "b")));
    drop(journal);
    let journal = Journal::open(&file, 1, at(0)).unwrap();
    assert_eq!(crashes(&journal, ["a", "b", "c"]), [1, 2, 0]);
}

#[test]
fn names_stay_the_same_in_one_file_and_differ_between_two() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("inflight"), folder.path().join("other"));
    let name = open(&file, at(0)).name("orders", "a");
    assert_eq!(open(&file, at(0)).name("orders", "a"), name);
    assert_ne!(open(&other, at(0)).name("orders", "a"), name);
    let journal = open(&file, at(0));
    assert_ne!(journal.name("ab", "c"), journal.name("a", "bc"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_file_is_opened(bytes in proptest::collection::vec(any::<u8>(), 0..4_096)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inflight");
        std::fs::write(&file, &bytes).unwrap();
        let journal = open(&file, at(0));
        prop_assert_eq!(journal.suspects(), 0);
        drop(journal.begin(journal.name("orders", "a")));
        prop_assert_eq!(std::fs::read(folder.path().join("inflight.damaged")).unwrap(), bytes);
    }

    #[test]
    fn any_change_to_a_file_is_survived(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inflight");
        died_with(&file, &["a", "b"]);
        let mut bytes = std::fs::read(&file).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        std::fs::write(&file, &bytes).unwrap();
        let journal = open(&file, at(0));
        // However it looked, it can be worked with, and the next one finds it in order.
        let name = journal.name("orders", "a");
        journal.cleared(name);
        prop_assert_eq!(journal.crashes(name), 0);
        let suspects = journal.suspects();
        std::mem::forget(journal.begin(name));
        drop(journal);
        let journal = open(&file, at(0));
        prop_assert_eq!(journal.suspects(), suspects + 1);
        prop_assert_eq!(journal.crashes(name), 1);
    }
}
