//! How a file is opened.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_engine::port::{Clock, SystemClock};

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the disk has confirmed it: survives a power cut.
    #[default]
    Full,
    /// After the operating system has it: survives a killed process, not a power cut. The file stays sound.
    Relaxed,
}

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// When a write counts as done. Default: full.
    pub durability: Durability,
    /// The most messages that wait in a queue which has no limit of its own. Default: 10 million.
    pub queue_limit: u64,
    /// The largest body, in bytes. Default: 256 MiB.
    pub message_limit: usize,
    /// Connections for reading. Default: 3.
    pub readers: usize,
    /// The largest the file may grow, in bytes; nothing leaves it to the disk. Default: nothing.
    pub file_limit: Option<u64>,
    /// What time it is. Default: the system's clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            queue_limit: 10_000_000,
            message_limit: 256 << 20,
            readers: 3,
            file_limit: None,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works with it.
    #[error(
        "{} is in use by {holder}: give commands to that process (they find it through {}), or stop it first",
        file.display(), folder.display()
    )]
    InUse {
        /// The file.
        file: PathBuf,
        /// The folder beside it.
        folder: PathBuf,
        /// Who holds it: `process 4711`.
        holder: String,
    },
    /// A later version of Redrive wrote it.
    #[error(
        "{} was written by a newer redrive: schema {found}, this one knows {known}; use the newer redrive",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The file's schema.
        found: u32,
        /// The newest schema that is known here.
        known: u32,
    },
    /// It is somebody else's database.
    #[error("{} is an SQLite file, but not one of redrive's: choose another file", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// It cannot be read as a database.
    #[error(
        "{} is damaged or no SQLite file ({why}): put a backup in its place, or move it aside to begin empty",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// A step to a newer layout could not be taken; the file is as it was before the step.
    #[error(
        "{} could not be brought to schema {to} ({brings}): {why}; nothing of that step was kept",
        file.display()
    )]
    Migration {
        /// The file.
        file: PathBuf,
        /// The schema that the step leads to.
        to: u32,
        /// What the step brings.
        brings: &'static str,
        /// What SQLite said.
        why: String,
    },
    /// It may only be read.
    #[error("{} cannot be written ({why}): check the rights of the file and of its folder", file.display())]
    ReadOnly {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The system did not let it.
    #[error("{} cannot be opened: {why}", file.display())]
    System {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
}
