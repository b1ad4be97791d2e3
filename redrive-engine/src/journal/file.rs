//! The file: read when the instance starts, and replaced as a whole before anything runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::layout::{Image, LONGEST};

/// What the last process left. A file that cannot be read as a journal is moved aside, so that somebody can look at
/// it, and counts as none.
pub(super) fn left_behind(path: &Path) -> Result<Option<Image>, JournalError> {
    let cannot = |source| JournalError::File { path: path.to_owned(), source };
    let kind = match fs::symlink_metadata(path) {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let why = if kind.is_file() {
        let bytes = read(path).map_err(cannot)?;
        match Image::decode(&bytes) {
            Ok(image) => return Ok(Some(image)),
            Err(damage) => damage.to_string(),
        }
    } else {
        "it is not a plain file".to_owned()
    };
    let aside = beside(path, "damaged");
    fs::rename(path, &aside).map_err(cannot)?;
    tracing::warn!(
        file = %path.display(),
        moved_to = %aside.display(),
        why,
        "the in-flight journal cannot be read; crashes before now are not counted"
    );
    Ok(None)
}

/// The whole file, or a little more than the longest one.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a new file in the place of the old one. Whenever the process dies meanwhile, one of the two is there whole.
pub(super) fn replace(path: &Path, image: &Image) -> Result<File, JournalError> {
    let new = beside(path, "new");
    let written = (|| {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        // Written, not only made longer: the disk has to have room for each page before it is mapped.
        file.write_all(&image.encode())?;
        file.sync_data()?;
        fs::rename(&new, path)?;
        Ok(file)
    })();
    written.map_err(|source| JournalError::File { path: path.to_owned(), source })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
