//! Debian's package manager.

use std::path::Path;
use std::process::Command;

use crate::command::{quiet, with_retries};
use crate::error::Result;

use super::guard::{NoMainCluster, NoServiceStart};

/// Whether packages are managed by apt here, on Debian or on what is derived from it.
pub(super) fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && Path::new("/usr/bin/apt-get").exists()
}

/// Installs packages without starting any service of theirs and without creating a database cluster.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    if !all_known(packages) {
        update()?;
    }
    let _guard = NoServiceStart::put()?;
    let _cluster = if packages.contains(&"postgresql") {
        // Its settings file says whether a first cluster is made, and comes with this package.
        get(&["postgresql-common"])?;
        Some(NoMainCluster::put()?)
    } else {
        None
    };
    get(packages)
}

fn get(packages: &[&str]) -> Result<()> {
    let mut stale = false;
    with_retries(3, || {
        // A mirror drops old versions: the lists may name what is no longer there.
        if std::mem::replace(&mut stale, true) {
            update()?;
        }
        let mut command = apt_get();
        command.args(["install", "-y", "--no-install-recommends"]).args(packages);
        quiet("apt-get install", &mut command)
    })
}

fn update() -> Result<()> {
    with_retries(3, || quiet("apt-get update", apt_get().arg("update")))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether the package lists know a version of each.
fn all_known(packages: &[&str]) -> bool {
    Command::new("apt-cache")
        .args(["show", "--no-all-versions", "--quiet"])
        .args(packages)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
