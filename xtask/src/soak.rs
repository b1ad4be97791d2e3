//! `cargo xtask soak`: the property tests and the kill tests, for much longer than a person would wait for.

use crate::command::{cargo, quiet, show};
use crate::error::{Result, failed};
use crate::install;
use crate::metadata::Metadata;
use crate::progress::Steps;
use crate::services::{self, Kind};

/// How many cases proptest runs when nobody says anything.
const ORDINARY_CASES: u32 = 256;

/// The tests that kill the real binary, as arguments of cargo, and how they learn their rounds.
const KILL: [&str; 8] =
    ["--package", "redrive-cli", "--test", "kill", "--test", "kafka_kill", "--test", "rabbitmq_kill"];
const KILL_ROUNDS: &str = "REDRIVE_KILL_ROUNDS";

pub(crate) fn run(times: u32, kills: u32) -> Result<()> {
    let mut steps = Steps::new(4);
    steps.run("install what is missing", || {
        let mut needs = vec![install::BUILD, install::BUILD_CLIENTS];
        needs.extend(services::needs(&[Kind::Kafka, Kind::Rabbitmq]));
        install::ensure(&needs)
    })?;
    let packages = steps.run("build the tests", || {
        let packages = with_properties(&Metadata::workspace()?);
        if packages.is_empty() {
            return Err(failed("no package of this workspace has property tests"));
        }
        quiet(
            "cargo test",
            cargo().args(["test", "--locked", "--all-features", "--no-run"]).args(&packages),
        )?;
        quiet("cargo test", cargo().args(["test", "--locked", "--all-features", "--no-run"]).args(KILL))?;
        Ok(packages)
    })?;
    let cases = ORDINARY_CASES.saturating_mul(times);
    eprintln!("{cases} cases of each property");
    steps.run_shown("property tests", || {
        let mut command = cargo();
        command.args(["test", "--locked", "--all-features", "--lib", "--bins", "--tests"]).args(&packages);
        let status = show(command.env("PROPTEST_CASES", cases.to_string()))?;
        if status.success() { Ok(()) } else { Err(failed("a property does not hold")) }
    })?;
    eprintln!("{kills} rounds of kills at random moments");
    steps.run_shown("kill tests", || {
        let mut command = cargo();
        command.args(["test", "--locked", "--all-features"]).args(KILL);
        let status = show(command.env(KILL_ROUNDS, kills.to_string()))?;
        if status.success() { Ok(()) } else { Err(failed("something is lost when it is killed")) }
    })
}

/// The packages that use proptest, as arguments of cargo.
fn with_properties(workspace: &Metadata) -> Vec<String> {
    workspace
        .packages
        .iter()
        .filter(|package| package.dependencies.iter().any(|dependency| dependency.name == "proptest"))
        .flat_map(|package| ["--package".to_owned(), package.name.clone()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_with_property_tests_are_soaked() {
        let workspace: Metadata = serde_json::from_str(
            r#"{"packages":[
                {"name":"a","version":"0.1.0","license":null,"source":null,
                 "dependencies":[{"name":"proptest","req":"^1","path":null}]},
                {"name":"b","version":"0.1.0","license":null,"source":null,"dependencies":[]}]}"#,
        )
        .unwrap();
        assert_eq!(with_properties(&workspace), ["--package", "a"]);
    }
}
