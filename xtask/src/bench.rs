//! `cargo xtask bench [NAME]`: the benchmarks of the package `bench`.

use crate::command::{cargo, quiet, show};
use crate::error::{Result, failed};
use crate::install;
use crate::metadata::Metadata;
use crate::progress::Steps;
use crate::services::{self, Kind, Supervisor, VARIABLE};

const PACKAGE: &str = "bench";
/// What cargo is told in every call, so that both calls build the same thing: the figures of a process are those of
/// the real binary.
const PACKAGES: [&str; 5] = ["--locked", "--package", PACKAGE, "--package", "redrive-cli"];
/// The benchmarks that need a server.
const ON_SERVERS: [(&str, Kind); 2] = [("kafka", Kind::Kafka), ("rabbitmq", Kind::Rabbitmq)];

pub(crate) fn run(name: Option<&str>, arguments: &[String]) -> Result<()> {
    let kinds: Vec<Kind> = ON_SERVERS
        .into_iter()
        .filter_map(|(known, kind)| name.is_none_or(|name| name == known).then_some(kind))
        .collect();
    let mut steps = Steps::new(3);
    steps.run("install what is missing", || {
        let mut needs = vec![install::BUILD, install::BUILD_CLIENTS];
        needs.extend(services::needs(&kinds));
        install::ensure(&needs)
    })?;
    let selection = steps.run("build", || {
        let selection = selection(&Metadata::workspace()?, name)?;
        let mut command = cargo();
        command.args(["build", "--profile", "bench"]).args(PACKAGES).args(["--bin", "redrive"]);
        quiet("cargo build", command.args(&selection))?;
        Ok(selection)
    })?;
    let supervisor = if kinds.is_empty() { None } else { Some(Supervisor::start(false)?) };
    let outcome = steps.run_shown("run", || {
        let mut command = cargo();
        command.args(["bench", "--quiet"]).args(PACKAGES).args(&selection).arg("--").args(arguments);
        if let Some(supervisor) = &supervisor {
            command.env(VARIABLE, supervisor.socket());
        }
        let status = show(&mut command)?;
        if status.success() { Ok(()) } else { Err(failed("a benchmark failed")) }
    });
    let ended = supervisor.map_or(Ok(()), Supervisor::end);
    outcome.and(ended)
}

/// Which benchmarks to run, as arguments of cargo.
fn selection(workspace: &Metadata, name: Option<&str>) -> Result<Vec<String>> {
    let Some(package) = workspace.package(PACKAGE) else {
        return Err(failed(format!("there is no package `{PACKAGE}` in this workspace yet")));
    };
    let known: Vec<&str> = package
        .targets
        .iter()
        .filter(|target| target.kind.iter().any(|kind| kind == "bench"))
        .map(|target| target.name.as_str())
        .collect();
    match name {
        None => Ok(known.iter().flat_map(|name| ["--bench".to_owned(), (*name).to_owned()]).collect()),
        Some(name) if known.contains(&name) => Ok(vec!["--bench".to_owned(), name.to_owned()]),
        Some(name) => Err(failed(format!("there is no benchmark `{name}`; there are: {}", known.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Metadata {
        serde_json::from_str(
            r#"{"packages":[{"name":"bench","version":"0.1.0","license":null,"source":null,
                "targets":[{"name":"bench","kind":["lib"]},{"name":"core","kind":["bench"]},
                    {"name":"embedded","kind":["bench"]}]}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_benchmark_is_selected_by_its_name() {
        assert_eq!(selection(&workspace(), Some("core")).unwrap(), ["--bench", "core"]);
        assert_eq!(selection(&workspace(), None).unwrap(), ["--bench", "core", "--bench", "embedded"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = selection(&workspace(), Some("cor")).unwrap_err().to_string();
        assert_eq!(error, "there is no benchmark `cor`; there are: core, embedded");
    }
}
