//! Where the files of a benchmark lie: beside the build, on a disk, and not in a temporary folder that may be memory.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Measured;

/// A folder that is removed when it is dropped, and the data file in it.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    /// The data file.
    pub data: PathBuf,
}

impl Place {
    /// A new one in a folder of the build: `env!("CARGO_TARGET_TMPDIR")`.
    pub fn new(build: &str) -> Measured<Self> {
        let folder = tempfile::tempdir_in(build)?;
        Ok(Self { data: folder.path().join("bench.db"), folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
