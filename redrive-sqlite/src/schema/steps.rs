//! The steps by which a file's layout has grown.
//!
//! To change the layout, add a file of statements and its step at the end of [`STEPS`]; before a release, put a file of
//! the version it brings into `tests/files/schema-<n>.sql`. A step that was ever part of a release is not edited: files
//! that it made are out there, and a test compares them with what the steps make today.

/// One step from a version to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// What it brings, for the error when it cannot be taken.
    pub(crate) brings: &'static str,
    /// The statements. They run in one transaction.
    pub(crate) sql: &'static str,
}

/// The steps, oldest first: the first makes version 1 of an empty file.
pub(crate) const STEPS: &[Step] = &[
    Step { brings: "queues and ledger", sql: include_str!("v1.sql") },
    Step { brings: "lanes that let followers go in windows", sql: include_str!("lanes.sql") },
    Step { brings: "marks that have expired", sql: include_str!("expired_marks.sql") },
    Step { brings: "brokers that stand apart", sql: include_str!("apart.sql") },
    Step { brings: "what is only presumed of a broker apart", sql: include_str!("presumed.sql") },
    Step { brings: "bodies that are left to a broker apart", sql: include_str!("pointers.sql") },
];
