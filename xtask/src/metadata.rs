//! What cargo knows about the workspace and everything it depends on.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::command::cargo;
use crate::error::{Context, Result, failed};

/// The part of `cargo metadata` that is read here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// The workspace's packages, and with dependencies everything else.
    pub(crate) packages: Vec<Package>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression.
    pub(crate) license: Option<String>,
    /// Where it came from; none for a package of this workspace.
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
    /// The features, and what each of them asks for.
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// What a package asks for.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The version requirement.
    pub(crate) req: String,
    /// The folder, for a dependency inside the workspace.
    pub(crate) path: Option<String>,
}

/// A library, a binary, a test, a benchmark.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Metadata {
    /// The workspace's own packages.
    pub(crate) fn workspace() -> Result<Self> {
        Self::read(&["--no-deps"])
    }

    /// Everything that a build with all features can use, on every platform.
    pub(crate) fn whole() -> Result<Self> {
        Self::read(&["--all-features"])
    }

    /// The package of this name.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    fn read(options: &[&str]) -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(options)
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            return Err(failed(format!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata gave unexpected output")
    }
}
