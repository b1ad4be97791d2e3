//! The one folder that everything of a supervisor is in.
//!
//! A lock in it says that its supervisor lives. A later supervisor removes the folders of those that were killed
//! before they could clean up.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Context, Result};
use crate::place;

const PREFIX: &str = "redrive-services-";
const LOCK: &str = "lock";
/// What a dead supervisor's folder is called while it is being removed: anybody may go on with that.
const GONE: &str = "redrive-gone-";
/// How many failed runs keep their logs.
const KEPT: usize = 10;

/// A supervisor's folder; removed at the end.
pub(super) struct Folder {
    path: PathBuf,
    kept: PathBuf,
    /// Held while the supervisor lives.
    _lock: File,
}

impl Folder {
    /// A fresh folder among the temporary files.
    pub(super) fn create() -> Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&parent)
            .context(format_args!("cannot create a folder in {}", parent.display()))?;
        let path = folder.keep();
        let doing = format!("cannot prepare {}", path.display());
        // A database runs as another user, who has to get in but not to look around.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o711)).context(&doing)?;
        // It gets its name when it is held: whoever sweeps in between would take the folder for a dead one's.
        let unnamed = path.join("lock.new");
        let lock = File::create(&unnamed).context(&doing)?;
        lock.try_lock().context(&doing)?;
        fs::rename(&unnamed, path.join(LOCK)).context(&doing)?;
        fs::create_dir(path.join("logs")).context(&doing)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let kept = place::services().join("logs").join(format!("{seconds}-{}", std::process::id()));
        Ok(Self { path, kept, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Where the logs are kept when something fails.
    pub(super) fn kept_logs(&self) -> &Path {
        &self.kept
    }

    /// Removes the folder, after saving the logs if they are worth it.
    pub(super) fn remove(self, keep_logs: bool) -> Result<()> {
        if keep_logs {
            copy_tree(&self.logs(), &self.kept).context("cannot keep the logs")?;
            if let Some(parent) = self.kept.parent() {
                thin_out(parent);
            }
        }
        fs::remove_dir_all(&self.path).context(format_args!("cannot remove {}", self.path.display()))
    }
}

/// Removes what killed supervisors left.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(GONE) {
            let _ = fs::remove_dir_all(entry.path());
            continue;
        }
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        // A folder without its lock is being created or removed right now.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            // Renamed first: whoever is killed in the middle leaves something that the next one knows as rubbish.
            let gone = parent.join(format!("{GONE}{rest}"));
            // Somebody else's may not be ours to remove.
            if fs::rename(entry.path(), &gone).is_ok() {
                let _ = fs::remove_dir_all(gone);
            }
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Keeps the logs of the last failed runs only. Their names begin with the time.
fn thin_out(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for old in folders.iter().rev().skip(KEPT) {
        let _ = fs::remove_dir_all(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_the_dead_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            (File::create(path.join(LOCK)).unwrap(), path)
        };
        let (lock, living) = make("redrive-services-living");
        lock.try_lock().unwrap();
        let (_, dead) = make("redrive-services-dead");
        let (_, other) = make("something-else");
        let half_removed = parent.path().join("redrive-gone-half");
        fs::create_dir(&half_removed).unwrap();
        sweep(parent.path());
        assert!(living.exists() && other.exists());
        assert!(!dead.exists() && !half_removed.exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_oldest_kept_logs_go_first() {
        let parent = tempfile::tempdir().unwrap();
        for run in 0..KEPT + 3 {
            fs::create_dir(parent.path().join(format!("{:03}-1", 100 + run))).unwrap();
        }
        thin_out(parent.path());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), KEPT);
        assert!(!parent.path().join("100-1").exists());
    }
}
