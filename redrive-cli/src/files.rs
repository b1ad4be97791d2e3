//! Files from the command line, and where a configuration is looked for.

use std::path::{Path, PathBuf};

use redrive::codes;
use redrive::config;

use crate::problem::{MISSING, Problem, USAGE};
use crate::report;

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

/// The data file, by one rule for every command, so that they all find the same: the one that was named, else
/// `$REDRIVE_DATA`, else the configuration's, else `./redrive.db`.
pub(crate) fn data(named: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Problem> {
    let data = match named_data(named) {
        Some(data) => data,
        None => data_of_config(config)?.unwrap_or_else(|| "./redrive.db".into()),
    };
    if data.to_string_lossy().starts_with("postgres://") {
        let text = "the data is in PostgreSQL, which is not in this build";
        return Err(Problem::new(codes::NOT_BUILT_IN, USAGE, text).with_help("give a file with --data"));
    }
    Ok(data)
}

/// The data that was named beside the configuration: by an argument, else by `$REDRIVE_DATA`.
pub(crate) fn named_data(named: Option<&Path>) -> Option<PathBuf> {
    let from_env = || std::env::var_os("REDRIVE_DATA").filter(|data| !data.is_empty()).map(PathBuf::from);
    named.map(Path::to_owned).or_else(from_env)
}

/// What the configuration file says of the data. A file that cannot be used is no reason to guess.
fn data_of_config(named: Option<&Path>) -> Result<Option<PathBuf>, Problem> {
    let Some(path) = self::config(named) else { return Ok(None) };
    let report = config::check(&read(&path)?, &env);
    let Some(config) = report.value else {
        let counted = report::counted(&report.findings);
        let text = format!("{}: {counted}; it cannot be told where the data is", path.display());
        return Err(Problem::new(codes::NO_DATA, USAGE, text)
            .with_help("`redrive config check` shows them; --data FILE does without the file"));
    };
    Ok(config.data.map(|data| PathBuf::from(&*data)))
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
