//! The in-flight journal: what it tells of a process that died, and that no file is too strange for it.

mod files;
mod histories;
mod processes;

use std::path::Path;

use redrive_core::Timestamp;
use redrive_engine::Journal;

/// A morning, and so many hours after it.
fn at(hours: i64) -> Timestamp {
    Timestamp::from_millis(1_782_896_400_000 + hours * 3_600_000)
}

fn open(file: &Path, now: Timestamp) -> Journal {
    Journal::open(file, 16, now).unwrap()
}

/// How often each of these messages of flow `orders` has crashed.
fn crashes<const N: usize>(journal: &Journal, ids: [&str; N]) -> [u32; N] {
    ids.map(|id| journal.crashes(journal.name("orders", id)))
}
