//! Code as text, for tests that hold it against what is written about it.

use std::path::{Path, PathBuf};

/// Every file below a folder, with its text.
///
/// # Panics
/// When a file cannot be read.
pub fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("a text");
                found.push((path, text));
            }
        }
    }
    found
}
