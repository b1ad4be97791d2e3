//! Finding the supervisor: the one that the environment names, the one of `services up`, or one of our own.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;

/// What a supervisor says about itself.
#[derive(Deserialize)]
struct Ready {
    socket: PathBuf,
}

/// One per test process. The pipe in the child is never closed by us: its end is the end of this process.
static OWN: OnceLock<Result<(Child, PathBuf), String>> = OnceLock::new();

/// The socket that the environment names.
pub(super) fn named() -> Option<PathBuf> {
    std::env::var_os("REDRIVE_SERVICES").map(PathBuf::from)
}

/// The socket to use.
pub(super) fn socket() -> Result<PathBuf, String> {
    if let Some(named) = named() {
        return Ok(named);
    }
    if let Some(up) = of_services_up() {
        return Ok(up);
    }
    match OWN.get_or_init(start) {
        Ok((_, socket)) => Ok(socket.clone()),
        Err(error) => Err(error.clone()),
    }
}

/// The supervisor of `cargo xtask services up`, whose file lies in the target folder that this test is built in.
fn of_services_up() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let file =
        program.ancestors().map(|folder| folder.join("services/up.json")).find(|file| file.exists())?;
    let ready: Ready = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    // The file of one that was killed is still there.
    UnixStream::connect(&ready.socket).ok()?;
    Some(ready.socket)
}

fn start() -> Result<(Child, PathBuf), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut child = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "services", "serve"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run cargo xtask: {error}"))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| format!("cannot read from cargo xtask: {error}"))?;
    }
    let ready: Ready = serde_json::from_str(&line)
        .map_err(|_| "cargo xtask did not start a supervisor of the servers".to_owned())?;
    Ok((child, ready.socket))
}
