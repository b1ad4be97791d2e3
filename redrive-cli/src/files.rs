//! Files from the command line, and where a configuration is looked for.

use std::path::{Path, PathBuf};

use redrive::codes;

use crate::problem::{MISSING, Problem, USAGE};

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    std::fs::read(path).map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { MISSING } else { USAGE };
        Problem::new(codes::NO_FILE, exit, format!("cannot read {}: {}", path.display(), plain(&error)))
    })
}

/// The message without the number that the operating system knows it by.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// The configuration file: the one that was named, else `$REDRIVE_CONFIG`, else `./redrive.yaml` if it is there.
pub(crate) fn config(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    if let Some(path) = std::env::var_os("REDRIVE_CONFIG").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    Some(PathBuf::from("redrive.yaml")).filter(|path| path.exists())
}

/// That there is no configuration file.
pub(crate) fn no_config() -> Problem {
    Problem::new(codes::NO_CONFIG, USAGE, "there is no configuration file")
        .with_help("name one with -c FILE or $REDRIVE_CONFIG, or put a redrive.yaml here")
}

/// An environment variable, for `${NAME}` in values.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
