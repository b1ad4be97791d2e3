//! Where things are: the workspace, its target folder, and what xtask keeps in there.

use std::path::{Path, PathBuf};

/// The root of the workspace that this xtask was built from.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// The target folder, found from the running program, so that a configured one is used too.
pub(crate) fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program
        .ancestors()
        // Cargo marks it for backup programs.
        .find(|folder| folder.join("CACHEDIR.TAG").exists())
        .map_or_else(|| root().join("target"), Path::to_path_buf)
}

/// What the servers leave for a later run: downloaded jars, logs of failed runs, the state of `services up`.
pub(crate) fn services() -> PathBuf {
    target().join("services")
}

/// Where the output of failed steps stays.
pub(crate) fn logs() -> PathBuf {
    target().join("xtask")
}

/// Whether a program of this name is on the search path.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// The last folder in `parent` whose name starts with `prefix`, by version number: where Debian keeps servers
/// that come in several versions.
pub(crate) fn newest(parent: &Path, prefix: &str) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(parent)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?;
            let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
            Some((numbers?, entry.path()))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_by_number_not_by_letter() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["server-3.9.1", "server-3.10.8", "server-x", "other-9"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(newest(folder.path(), "server-"), Some(folder.path().join("server-3.10.8")));
        assert_eq!(newest(folder.path(), "absent-"), None);
    }

    #[test]
    fn the_target_folder_holds_the_running_test() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(own.strip_prefix(target()).unwrap().components().count(), 3);
    }
}
