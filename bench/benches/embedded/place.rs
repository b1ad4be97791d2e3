//! Where the files of a benchmark lie: beside the build, on a disk, and not in a temporary folder that may be memory.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::Measured;

/// A folder that is removed when it is dropped, and the data file in it.
pub(crate) struct Place {
    _folder: TempDir,
    pub(crate) data: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Measured<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        Ok(Self { data: folder.path().join("bench.db"), _folder: folder })
    }
}
