//! `cargo xtask demo`: builds the binary and runs its demo.

use crate::command::{cargo, quiet, show, tied};
use crate::error::{Result, failed};
use crate::install;
use crate::metadata::Metadata;
use crate::place;
use crate::progress::Steps;

const PACKAGE: &str = "redrive-cli";
const PROGRAM: &str = "redrive";

/// Runs the demo with what is passed on to it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("install what is missing", || install::ensure(&[install::BUILD, install::BUILD_CLIENTS]))?;
    steps.run("build redrive", || {
        if Metadata::workspace()?.package(PACKAGE).is_none() {
            return Err(failed(format!("there is no package {PACKAGE} in this workspace to show")));
        }
        quiet("cargo build", cargo().args(["build", "--locked", "--package", PACKAGE, "--bin", PROGRAM]))
    })?;
    steps.clear();
    drop(steps);

    let program = place::target().join("debug").join(PROGRAM);
    let status = show(tied("TERM", &program).arg("demo").args(arguments).current_dir(place::root()))?;
    if status.success() { Ok(()) } else { Err(failed(format!("`redrive demo` failed ({status})"))) }
}
