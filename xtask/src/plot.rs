//! `cargo xtask plot`: the plots of the documentation, rebuilt from what they show.

use crate::command::{cargo, quiet, show};
use crate::error::{Result, failed};
use crate::install;
use crate::progress::Steps;

/// The simulation: an example of the package that it shows.
const STORM: [&str; 5] = ["--locked", "--package", "redrive-retry", "--example", "storm"];

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::new(3);
    steps.run("install what is missing", || install::ensure(&[install::BUILD]))?;
    steps.run("build", || quiet("cargo build", cargo().arg("build").args(STORM)))?;
    steps.run_shown("simulate and draw", || {
        let status = show(cargo().args(["run", "--quiet"]).args(STORM))?;
        if status.success() { Ok(()) } else { Err(failed("the simulation failed")) }
    })
}
