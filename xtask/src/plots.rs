//! `cargo xtask plots`: draws the plots of the documentation again.

use crate::command::{cargo, quiet};
use crate::error::Result;
use crate::install;
use crate::place;
use crate::progress::Steps;

/// A plot: the package and the example that draw it, and the file in `docs`.
const PLOTS: [(&str, &str, &str); 1] = [("testkit", "outage", "outage.svg")];

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::new(2 + PLOTS.len());
    steps.run("install what is missing", || install::ensure(&[install::BUILD, install::BUILD_CLIENTS]))?;
    for (package, example, file) in PLOTS {
        steps.run(file, || {
            let path = place::root().join("docs").join(file);
            let mut command = cargo();
            command.args(["run", "--quiet", "--locked", "--package", package, "--example", example, "--"]);
            quiet("cargo run", command.arg(path))
        })?;
    }
    // The storms draw several, and know their places.
    steps.run("storms", || {
        let mut command = cargo();
        command.args(["run", "--quiet", "--locked", "--package", "redrive-retry", "--example", "storm"]);
        quiet("cargo run", &mut command)
    })
}
