//! What keeps an installation from changing more than it should. Both guards undo themselves, and the next run
//! undoes what a killed one left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Result};

const POLICY: &str = "/usr/sbin/policy-rc.d";
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.conf";
const MARK: &str = "# put here by `cargo xtask` for the time of an installation";
const SAVED: &str = "redrive-saved";

/// While it lives, packages start no service: Debian's packages ask `policy-rc.d` first.
pub(super) struct NoServiceStart(#[allow(dead_code, reason = "undoes itself when dropped")] Option<Replaced>);

impl NoServiceStart {
    pub(super) fn put() -> Result<Self> {
        let path = Path::new(POLICY);
        restore_leftover(path);
        if path.exists() && refuses(path) {
            return Ok(Self(None));
        }
        let text = format!("#!/bin/sh\n{MARK}\nexit 101\n");
        let replaced = Replaced::put(path, &text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .context(format_args!("cannot make {POLICY} executable"))?;
        Ok(Self(Some(replaced)))
    }
}

fn refuses(policy: &Path) -> bool {
    Command::new(policy)
        .args(["rabbitmq-server", "start"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.code() == Some(101))
}

/// While it lives, installing PostgreSQL creates no cluster.
pub(super) struct NoMainCluster(#[allow(dead_code, reason = "undoes itself when dropped")] Replaced);

impl NoMainCluster {
    pub(super) fn put() -> Result<Self> {
        let path = Path::new(CLUSTER_SETTINGS);
        restore_leftover(path);
        let before = fs::read_to_string(path).unwrap_or_default();
        Ok(Self(Replaced::put(path, &format!("{before}\n{MARK}\ncreate_main_cluster = false\n"))?))
    }
}

/// A file whose content is another one for a while.
struct Replaced {
    path: PathBuf,
    saved: Option<PathBuf>,
}

impl Replaced {
    fn put(path: &Path, text: &str) -> Result<Self> {
        let saved = saved_name(path);
        let doing = format!("cannot replace {}", path.display());
        let kept = path.exists();
        if kept {
            fs::copy(path, &saved).context(&doing)?;
        }
        let replaced = Self { path: path.to_path_buf(), saved: kept.then_some(saved) };
        fs::write(path, text).context(&doing)?;
        Ok(replaced)
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let undone = match &self.saved {
            Some(saved) => fs::rename(saved, &self.path),
            None => fs::remove_file(&self.path),
        };
        if let Err(error) = undone {
            eprintln!("cannot restore {}: {error}", self.path.display());
        }
    }
}

/// Undoes what a killed installation left.
fn restore_leftover(path: &Path) {
    let ours = fs::read_to_string(path).is_ok_and(|text| text.contains(MARK));
    let saved = saved_name(path);
    let undone = match (ours, saved.exists()) {
        (true, true) => fs::rename(&saved, path),
        (true, false) => fs::remove_file(path),
        (false, true) => fs::remove_file(&saved),
        (false, false) => return,
    };
    if let Err(error) = undone {
        eprintln!("cannot restore {}: {error}", path.display());
    }
}

fn saved_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(SAVED);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_as_before_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        fs::write(&path, "before").unwrap();
        let replaced = Replaced::put(&path, "meanwhile").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "meanwhile");
        drop(replaced);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_not_there_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        drop(Replaced::put(&path, "meanwhile").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_killed_installation_is_undone_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        fs::write(&path, "before").unwrap();
        std::mem::forget(Replaced::put(&path, MARK).unwrap());
        restore_leftover(&path);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");

        fs::remove_file(&path).unwrap();
        std::mem::forget(Replaced::put(&path, MARK).unwrap());
        restore_leftover(&path);
        assert!(!path.exists());
    }
}
