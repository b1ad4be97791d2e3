//! The whole file of the documentation is understood.

use redrive::config::{self, Severity};

const SURFACE: &[u8] = include_bytes!("files/surface.yaml");

#[test]
fn the_documented_file_passes() {
    let report = config::check(SURFACE, &|_| None);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(found.join("\n"));
    assert_eq!(report.count(Severity::Error), 0);
    let config = report.value.unwrap();
    let policy = config.flow_policy("orders", None).unwrap().build().unwrap();
    assert_eq!(policy.attempts(), Some(12));
}
