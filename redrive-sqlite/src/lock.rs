//! One process a file.
//!
//! Claims live in memory, so two processes on one file would hand a message out twice. The lock is the system's: it
//! goes with its process, however that ends.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The lock of a file, held as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Unlocks, rather than only closing: a program that another thread is just starting has a copy of the open file
    /// until it begins to run, and a lock stays as long as one copy is open. Unlocking one unlocks them all.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// The folder that lives beside a data file.
pub(crate) fn folder(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

impl Lock {
    pub(crate) fn take(data: &Path) -> Result<Self, OpenError> {
        let beside = folder(data);
        let system = |error: std::io::Error| refused(data, &error);
        make_private(&beside).map_err(system)?;
        let path = beside.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(system)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.take(32).read_to_string(&mut text);
                let holder = match text.trim().parse::<u32>() {
                    Ok(pid) => format!("process {pid}"),
                    Err(_) => "another process".to_owned(),
                };
                return Err(OpenError::InUse { file: data.to_owned(), folder: beside, holder });
            }
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        file.set_len(0).map_err(system)?;
        file.rewind().map_err(system)?;
        writeln!(file, "{}", std::process::id()).map_err(system)?;
        Ok(Self { file })
    }
}

/// Refuses a file that may only be read. SQLite would open it, and leave files beside it that can only be read either.
pub(crate) fn check_rights(data: &Path) -> Result<(), OpenError> {
    match OpenOptions::new().write(true).open(data) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(refused(data, &error)),
        _ => Ok(()),
    }
}

fn refused(data: &Path, error: &std::io::Error) -> OpenError {
    let (file, why) = (data.to_owned(), error.to_string());
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { file, why }
        }
        _ => OpenError::System { file, why },
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
