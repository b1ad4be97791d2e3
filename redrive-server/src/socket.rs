//! The path of `cli.sock`, however deep its folder lies.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The name of the socket in the data folder.
pub(crate) const NAME: &str = "cli.sock";

/// The longest path that a socket address holds on every system.
const LONGEST: usize = 100;

/// A path under which the socket can be bound and reached.
///
/// A socket address holds about a hundred bytes, a path of a data file may be longer. Linux gives an open folder a
/// short name of its own, which stays valid as long as this value does.
#[derive(Debug)]
pub(crate) struct SocketPath {
    short: PathBuf,
    _folder: Option<File>,
}

impl SocketPath {
    pub(crate) fn of_folder(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        if path.as_os_str().len() <= LONGEST || !cfg!(target_os = "linux") {
            return Ok(Self { short: path, _folder: None });
        }
        let open = File::open(folder)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", open.as_raw_fd()));
        Ok(Self { short, _folder: Some(open) })
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.short
    }
}
