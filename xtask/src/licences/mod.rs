//! Licences, bans and sources of everything we build on.
//!
//! `deny.toml` is written for cargo-deny, which people may run too. Building that tool costs minutes, so the test
//! command reads the same file and checks the part that it uses over `cargo metadata`.

mod expression;
mod rules;

use std::path::Path;

use crate::error::{Context, Result, failed};
use crate::metadata::{Metadata, Package};
use crate::place;

use expression::Expression;
use rules::Rules;

/// How cargo names the registry of crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the whole dependency tree against `deny.toml`.
pub(crate) fn check() -> Result<()> {
    let rules = read(&place::root().join("deny.toml"))?;
    let findings = findings(&rules, &Metadata::whole()?);
    if findings.is_empty() { Ok(()) } else { Err(failed(findings.join("\n"))) }
}

fn read(path: &Path) -> Result<Rules> {
    let text = std::fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))?;
    toml::from_str(&text).context("deny.toml")
}

fn findings(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let mut findings: Vec<String> =
        metadata.packages.iter().flat_map(|package| findings_of(rules, package)).collect();
    findings.sort();
    findings
}

fn findings_of(rules: &Rules, package: &Package) -> Vec<String> {
    let title = format!("{} {}", package.name, package.version);
    let mut findings = Vec::new();

    match package.license.as_deref().map(Expression::parse) {
        None => findings.push(format!("{title}: names no licence")),
        Some(Err(error)) => findings.push(format!("{title}: licence cannot be read: {error}")),
        Some(Ok(expression)) => {
            if !expression.holds(&|licence| rules.licenses.allows(&package.name, licence)) {
                let licence = package.license.as_deref().unwrap_or_default();
                findings.push(format!("{title}: licence {licence} is not on the list"));
            }
        }
    }

    if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.krate == package.name) {
        findings.push(format!("{title}: banned: {}", ban.reason));
    }

    match package.source.as_deref() {
        // A package of the workspace: the only place where we could write a wildcard ourselves.
        None => {
            for dependency in &package.dependencies {
                if dependency.req == "*" && dependency.path.is_none() {
                    findings.push(format!("{title}: any version of {} would do", dependency.name));
                }
            }
        }
        Some(source) if source == CRATES_IO => {}
        Some(source) => findings.push(format!("{title}: comes from {source}, not from crates.io")),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0", "Unicode-3.0"]
        exceptions = [{ crate = "special", allow = ["MPL-2.0"] }]
        [bans]
        wildcards = "deny"
        deny = [{ crate = "curl-sys", reason = "wants headers" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn check(package: &str) -> Vec<String> {
        let rules: Rules = toml::from_str(RULES).unwrap();
        let package: Package = serde_json::from_str(package).unwrap();
        findings_of(&rules, &package)
    }

    #[test]
    fn an_allowed_package_of_crates_io_passes() {
        let found = check(
            r#"{"name":"a","version":"1.0.0","license":"MIT OR GPL-3.0",
                "source":"registry+https://github.com/rust-lang/crates.io-index"}"#,
        );
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_licence_off_the_list_is_found_unless_excepted() {
        let found = check(r#"{"name":"a","version":"1.0.0","license":"MPL-2.0","source":null}"#);
        assert_eq!(found, ["a 1.0.0: licence MPL-2.0 is not on the list"]);
        let found = check(r#"{"name":"special","version":"1.0.0","license":"MPL-2.0","source":null}"#);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_package_without_a_licence_is_found() {
        let found = check(r#"{"name":"a","version":"1.0.0","license":null,"source":null}"#);
        assert_eq!(found, ["a 1.0.0: names no licence"]);
    }

    #[test]
    fn bans_other_sources_and_wildcards_are_found() {
        let found = check(
            r#"{"name":"curl-sys","version":"0.4.0","license":"MIT",
                "source":"git+https://example.invalid/curl"}"#,
        );
        assert_eq!(
            found,
            [
                "curl-sys 0.4.0: banned: wants headers",
                "curl-sys 0.4.0: comes from git+https://example.invalid/curl, not from crates.io"
            ]
        );
        let found = check(
            r#"{"name":"ours","version":"0.1.0","license":"MIT","source":null,
                "dependencies":[{"name":"x","req":"*","path":null},{"name":"y","req":"*","path":"/y"}]}"#,
        );
        assert_eq!(found, ["ours 0.1.0: any version of x would do"]);
    }

    #[test]
    fn the_workspaces_own_file_can_be_read() {
        let rules = read(&place::root().join("deny.toml")).unwrap();
        assert!(rules.licenses.allows("any", "MIT") && rules.licenses.allows("any", "Apache-2.0"));
    }
}
