//! The real binary as a process, and what the system knows of one.

use std::path::PathBuf;

use crate::Measured;

/// The variable that names the binary; without it the one beside the benchmark is taken.
const VARIABLE: &str = "REDRIVE_BIN";

/// Where the binary `redrive` lies.
pub fn binary() -> Measured<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("redrive"));
    let path = std::env::var_os(VARIABLE).map(PathBuf::from).or_else(beside).unwrap_or_default();
    if path.is_file() {
        return Ok(path);
    }
    let text = format!(
        "there is no binary at `{}`: build it with `cargo build --profile bench -p redrive-cli`, or name it in \
         {VARIABLE}",
        path.display()
    );
    Err(text.into())
}

/// The most memory that a process has had resident, in megabytes; nothing where the system does not tell.
pub fn peak_megabytes(process: u32) -> Option<f64> {
    megabytes(process, "VmHWM:")
}

/// The memory that a process has resident now, in megabytes; nothing where the system does not tell.
pub fn resident_megabytes(process: u32) -> Option<f64> {
    megabytes(process, "VmRSS:")
}

fn megabytes(process: u32, key: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1_024.0)
}

/// The processor time that this process has used, in seconds; nothing where the system does not tell.
pub fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may have anything in it, and ends with the last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // Linux tells it in hundredths, whatever its own clock does.
    Some(ticks as f64 / 100.0)
}
