//! Settings of other retry layers, read and written down again as a `redrive.yaml`.
//!
//! Moving over begins with the settings there are. What is printed is meant to be read: a comment says what each
//! choice stands for and why it was made, and what had no counterpart is named.

mod failed_messages;
mod message_policies;
mod retry_settings;
mod writer;

use std::ops::Range;

use super::finding::{Findings, Severity};
use super::tree::{self, Entry, Node};
use super::{Report, text};
use crate::codes;
use writer::Writer;

/// How deep the settings may stand in the file.
const DEEPEST: usize = 4;

/// Reads settings in one of three formats and prints a `redrive.yaml`:
///
/// - `failedMessagesRetryConfiguration`, classes of exceptions with a retry policy each;
/// - `messagePolicies`, a budget for each message type;
/// - retry settings with `MaxRetryAttempts` and delays in milliseconds, as JSON.
///
/// Each may stand at the root or under the keys it usually stands under.
///
/// ```
/// let settings = br#"{ "MaxRetryAttempts": 3, "RetryDelayMs": 5000, "UseExponentialBackoff": false }"#;
/// let report = redrive::config::import::import(settings);
/// assert!(report.value.is_some_and(|yaml| yaml.contains(r#"retry: "5s x3""#)));
/// ```
pub fn import(bytes: &[u8]) -> Report<String> {
    let source = match text(bytes) {
        Ok(source) => source,
        Err(report) => return report,
    };
    let mut findings = Findings::new(&source);
    let mut yaml = None;
    if let Some(tree) = tree::read(&mut findings) {
        yaml = written(&tree, &mut findings).map(|(yaml, places)| {
            check_written(&yaml, &places, &mut findings);
            yaml
        });
    }
    if yaml.is_none() && findings.len() == 0 {
        let help =
            "known are failedMessagesRetryConfiguration, messagePolicies, and MaxRetryAttempts with its \
                    companions"
                .to_owned();
        findings.error(codes::UNREADABLE_IMPORT, 0..0, "no known settings were found in the file", help);
    }
    let findings = findings.into_sorted();
    let value = yaml.filter(|_| findings.iter().all(|finding| finding.severity < Severity::Error));
    Report { source, value, findings }
}

/// A file that does not load is no use to anybody: what is wrong with it is told where the settings ask for it.
fn check_written(yaml: &str, places: &[Range<usize>], findings: &mut Findings<'_>) {
    if findings.has_errors() {
        return;
    }
    let report = super::check(yaml.as_bytes(), &|_| None);
    for finding in report.findings.into_iter().filter(|finding| finding.severity == Severity::Error) {
        let place = places.get(finding.line - 1).cloned().unwrap_or(0..0);
        let message = format!("the file to be written could not be used: {}", finding.message);
        findings.error(finding.code, place, message, finding.help);
    }
}

/// The file, and what of the settings each of its lines was written from.
fn written(tree: &Node, findings: &mut Findings<'_>) -> Option<(String, Vec<Range<usize>>)> {
    let mut writer = Writer::new();
    if let Some((parent, entry)) = find(tree, &|entry| entry.key == "failedMessagesRetryConfiguration", 0) {
        failed_messages::write(&entry.value, parent, &mut writer, findings);
    } else if let Some((_, entry)) = find(tree, &|entry| entry.key == "messagePolicies", 0) {
        message_policies::write(&entry.value, &mut writer, findings);
    } else if let Some((settings, _)) = find(tree, &|entry| entry.key == "MaxRetryAttempts", 0) {
        retry_settings::write(settings, &mut writer, findings);
    } else {
        return None;
    }
    Some(writer.finish())
}

/// The first entry that fits, and the map that it stands in.
fn find<'t>(node: &'t Node, fits: &dyn Fn(&Entry) -> bool, depth: usize) -> Option<(&'t Node, &'t Entry)> {
    if depth > DEEPEST {
        return None;
    }
    let here = node.entries().iter().find(|entry| fits(entry)).map(|entry| (node, entry));
    here.or_else(|| node.entries().iter().find_map(|entry| find(&entry.value, fits, depth + 1)))
}

/// Names a setting that has no counterpart.
fn left_out(entry: &Entry, why: &str, writer: &mut Writer, findings: &mut Findings<'_>) {
    let message = format!("`{}` was not carried over: {why}", super::structure::shown(&entry.key));
    writer.comment(&message);
    findings.add(Severity::Warning, codes::NOT_CARRIED_OVER, entry.key_span.clone(), message, None);
}

/// A value that has to be a whole number from 0 to `most`.
fn number(entry: &Entry, most: u64, findings: &mut Findings<'_>) -> Option<u64> {
    let place = entry.value.span.clone();
    let number = match &entry.value.kind {
        tree::Kind::Scalar(scalar) => scalar.as_integer(),
        _ => None,
    };
    let Some(number) = number else {
        let message = format!("`{}` has to be a whole number, found {}", entry.key, entry.value.what());
        findings.error(codes::WRONG_TYPE, place, message, None);
        return None;
    };
    let fits = u64::try_from(number).ok().filter(|number| *number <= most);
    if fits.is_none() {
        let help = format!("expected a whole number from 0 to {most}");
        findings.error(codes::OUT_OF_RANGE, place, format!("{number} is out of range"), help);
    }
    fits
}
