//! `policy rules`: the rules that come with Redrive, and the catalogue of reasons.

use std::fmt::Write;
use std::process::ExitCode;

use redrive::core::CATALOGUE;
use redrive::core::classify::{CodeRange, Fault, Rule, When, default_rules};
use serde_json::{Value, json};

use crate::arguments::RulesArguments;
use crate::problem::Problem;
use crate::terminal::{BOLD, DIM};
use crate::{table, terminal};

pub(crate) fn run(arguments: &RulesArguments) -> Result<ExitCode, Problem> {
    let rules = default_rules();
    let text = if arguments.json {
        lines(&rules)
    } else if arguments.markdown {
        markdown(&rules)
    } else {
        tables(&rules)
    };
    terminal::print(&text)
}

fn lines(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let mut line = serde_json::to_value(rule).unwrap_or_default();
        if let Some(line) = line.as_object_mut() {
            line.insert("kind".to_owned(), "rule".into());
        }
        let _ = writeln!(text, "{line}");
    }
    for entry in CATALOGUE {
        let line = json!({ "kind": "reason", "reason": entry.reason, "class": entry.class, "meaning": entry.meaning });
        let _ = writeln!(text, "{line}");
    }
    text
}

const RULE_HEADS: [&str; 5] = ["rule", "when", "class", "reason", "special"];
const REASON_HEADS: [&str; 3] = ["reason", "class", "meaning"];

fn tables(rules: &[Rule]) -> String {
    let width = terminal::width();
    let rules: Vec<_> = rules.iter().map(cells).collect();
    let reasons: Vec<_> = CATALOGUE
        .iter()
        .map(|entry| [entry.reason.to_string(), entry.class.to_string(), entry.meaning.to_owned()])
        .collect();
    format!(
        "{BOLD}Default rules{BOLD:#}, in the order in which they are asked; the first match wins\n\n{}\n\
         {DIM}  endpoint: the breaker counts it; while no call has succeeded lately, the message is not charged\n  \
         unproven: the endpoint's while no call has succeeded lately, and the message's after\n  \
         not_asked: a limit of the handler's own refused the call, and the breaker is told nothing{DIM:#}\n\n\
         {BOLD}Reason codes{BOLD:#}\n\n{}",
        table::laid_out(RULE_HEADS, &rules, &[1], width),
        table::laid_out(REASON_HEADS, &reasons, &[2], width),
    )
}

fn cells(rule: &Rule) -> [String; 5] {
    let fault = rule.fault.map(|fault| fault_name(fault).to_owned());
    let special =
        [fault, rule.handling.map(|handling| handling.to_string()), rule.then.map(|exit| exit.to_string())];
    [
        rule.name.clone().unwrap_or_default(),
        conditions(&rule.when),
        rule.class.to_string(),
        rule.reason().to_string(),
        special.into_iter().flatten().collect::<Vec<_>>().join(", "),
    ]
}

/// The conditions in the words of the configuration file.
fn conditions(when: &When) -> String {
    let json = serde_json::to_value(when).unwrap_or_default();
    let all = json.as_object().into_iter().flatten();
    let parts: Vec<_> = all.map(|(key, value)| format!("{key}: {}", words(value))).collect();
    if parts.is_empty() { "everything".to_owned() } else { parts.join("; ") }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) if *text == every_code() => "any".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", words(value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// How a range of codes that leaves none out is written.
fn every_code() -> String {
    CodeRange::new(i32::MIN, i32::MAX).to_string()
}

fn markdown(rules: &[Rule]) -> String {
    let mut text = String::from(
        "# Default rules and reason codes\n\n\
         Printed by `redrive policy rules --markdown`. The rules of a flow's policy are asked first, then the `rules:` \
         of the\nconfiguration file, then these; the first match wins. What none of them knows is UNKNOWN.\n\
         A fault of the endpoint is not charged to the message while no call has succeeded lately. Where it was not asked, \
         its\nbreaker is told nothing.\n\n\
         ## Rules\n\n",
    );
    text.push_str(&markdown_table(&RULE_HEADS, rules.iter().map(cells)));
    text.push_str("\n## Reason codes\n\n");
    text.push_str(&markdown_table(
        &REASON_HEADS,
        CATALOGUE
            .iter()
            .map(|entry| [format!("`{}`", entry.reason), entry.class.to_string(), entry.meaning.to_owned()]),
    ));
    text
}

fn markdown_table<const N: usize>(heads: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Whose fault it is, as it is written in a rule.
const fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Endpoint => "endpoint",
        Fault::Unproven => "unproven",
        Fault::NotAsked => "not_asked",
    }
}
