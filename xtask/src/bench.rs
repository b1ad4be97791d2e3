//! `cargo xtask bench [NAME]`: the benchmarks of the package `bench`.

use crate::command::{cargo, quiet, show};
use crate::error::{Result, failed};
use crate::install;
use crate::metadata::Metadata;
use crate::progress::Steps;

const PACKAGE: &str = "bench";

pub(crate) fn run(name: Option<&str>) -> Result<()> {
    let mut steps = Steps::new(3);
    steps.run("install what is missing", || install::ensure(&[install::BUILD]))?;
    let selection = steps.run("build", || {
        let selection = selection(&Metadata::workspace()?, name)?;
        quiet(
            "cargo bench",
            cargo().args(["bench", "--locked", "--no-run", "--package", PACKAGE]).args(&selection),
        )?;
        Ok(selection)
    })?;
    steps.run_shown("run", || {
        let status =
            show(cargo().args(["bench", "--quiet", "--locked", "--package", PACKAGE]).args(&selection))?;
        if status.success() { Ok(()) } else { Err(failed("a benchmark failed")) }
    })
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
        None => Ok(vec!["--benches".to_owned()]),
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
                "targets":[{"name":"bench","kind":["lib"]},{"name":"core","kind":["bench"]}]}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_benchmark_is_selected_by_its_name() {
        assert_eq!(selection(&workspace(), Some("core")).unwrap(), ["--bench", "core"]);
        assert_eq!(selection(&workspace(), None).unwrap(), ["--benches"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = selection(&workspace(), Some("cor")).unwrap_err().to_string();
        assert_eq!(error, "there is no benchmark `cor`; there are: core");
    }
}
