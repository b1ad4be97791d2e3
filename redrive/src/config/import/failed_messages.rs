//! `failedMessagesRetryConfiguration`: lists of exceptions, one for each way to handle them.

use std::collections::BTreeMap;

use redrive_core::{Handling, Schedule};

use super::writer::{Writer, quoted};
use super::{Entry, Node, left_out};
use crate::codes;
use crate::config::finding::Findings;

/// The headings, the handling each stands for and the layer whose schedule it sets.
const HEADINGS: [(&str, Handling, Option<&str>); 4] = [
    ("notRetryableExceptions", Handling::Never, None),
    ("statelessRetryableExceptions", Handling::InPlace, Some("local")),
    ("statefulBlockingRetryableExceptions", Handling::Blocking, Some("blocking")),
    ("statefulNotBlockingRetryableExceptions", Handling::Delayed, Some("retry")),
];

const OTHERS: &str = "allOtherExceptions";

/// What stands in the lists, in their order.
struct Listed {
    handling: Handling,
    heading: &'static str,
    exceptions: Vec<String>,
    /// Exceptions that another heading has already, with that heading.
    again: Vec<(String, &'static str)>,
}

pub(super) fn write(settings: &Node, parent: &Node, writer: &mut Writer, findings: &mut Findings<'_>) {
    writer.from(settings);
    writer.blank();
    writer.comment("Imported from failedMessagesRetryConfiguration.");
    writer.open("policies");
    writer.comment("The configuration was a default for all topics, so this is the default policy.");
    writer.open("default");
    for (heading, handling, layer) in HEADINGS {
        if let Some((entry, layer)) = settings.entry(heading).zip(layer) {
            write_schedule(&entry.value, heading, handling, layer, writer, findings);
        }
    }
    writer.from(settings);
    let others = settings.entry(OTHERS).or_else(|| parent.entry(OTHERS));
    write_rules(&listed(settings), others, writer, findings);
    for entry in settings.entries() {
        let known = HEADINGS.iter().any(|(heading, ..)| *heading == entry.key) || entry.key == OTHERS;
        if !known {
            left_out(entry, "the key is not known", writer, findings);
        }
    }
    writer.close();
    writer.close();
    writer.example_flow(&["order_by: none"]);
}

fn write_schedule(
    heading: &Node,
    name: &str,
    handling: Handling,
    layer: &str,
    writer: &mut Writer,
    findings: &mut Findings<'_>,
) {
    for entry in heading.entries() {
        if !matches!(entry.key.as_str(), "list" | "retryPolicy") {
            left_out(entry, "the key is not known", writer, findings);
        }
    }
    let Some(policy) = heading.get("retryPolicy") else {
        if handling == Handling::InPlace {
            writer.comment(&format!(
                "{name} left the wait to the consumer's own back-off; 100ms x2 is what Redrive does in place."
            ));
            writer.text(layer, "100ms x2");
        }
        return;
    };
    let text = policy.text().unwrap_or_default();
    match text.parse::<Schedule>() {
        Ok(schedule) => {
            writer.from(policy);
            writer.comment(&format!("{name}: {text}"));
            writer.text(layer, &schedule.to_string());
        }
        Err(error) => {
            findings.error(codes::WRONG_TEXT, policy.place_in(error.at()), error.to_string(), None);
        }
    }
}

fn listed(settings: &Node) -> Vec<Listed> {
    let mut seen: BTreeMap<String, &'static str> = BTreeMap::new();
    let mut all = Vec::new();
    for (heading, handling, _) in HEADINGS {
        let mut listed = Listed { handling, heading, exceptions: Vec::new(), again: Vec::new() };
        let list = settings.find([heading, "list"]).map_or(&[][..], Node::items);
        for name in list.iter().filter_map(Node::text) {
            if let Some(first) = seen.get(name) {
                listed.again.push((name.to_owned(), first));
            } else {
                seen.insert(name.to_owned(), heading);
                listed.exceptions.push(name.to_owned());
            }
        }
        all.push(listed);
    }
    all
}

fn write_rules(all: &[Listed], others: Option<&Entry>, writer: &mut Writer, findings: &mut Findings<'_>) {
    let any = all.iter().any(|listed| !listed.exceptions.is_empty());
    if !any && others.is_none() {
        return;
    }
    writer.comment("The first rule that matches wins. A name is found anywhere in the chain of causes.");
    writer.open("rules");
    for Listed { handling, heading, exceptions, again } in all {
        for (name, first) in again {
            writer.comment(&format!(
                "{name} stands under {heading} too, but the first match wins: it is handled as {first} says."
            ));
        }
        if exceptions.is_empty() {
            continue;
        }
        let names: Vec<_> = exceptions.iter().map(|name| quoted(name)).collect();
        let class = if *handling == Handling::Never { "PERMANENT_TECHNICAL" } else { "TRANSIENT" };
        let reason = if *handling == Handling::Never { "NOT_RETRYABLE" } else { "RETRY_REQUESTED" };
        writer.line(&format!(
            "- {{ name: {heading}, when: {{ error: [{}] }}, class: {class}, reason: {reason}, handling: {handling} }}",
            names.join(", ")
        ));
    }
    if let Some(entry) = others {
        let text = entry.value.text().unwrap_or_default();
        match text.parse::<Handling>() {
            Ok(handling) => {
                writer.comment(&format!(
                    "{OTHERS}: {text}. It matches everything, so no default rule is asked."
                ));
                writer.line(&format!(
                    "- {{ name: {OTHERS}, when: {{}}, class: UNKNOWN, reason: UNKNOWN_FAILURE, handling: {handling} }}"
                ));
            }
            Err(error) => {
                findings.error(codes::WRONG_NAME, entry.value.span.clone(), error.to_string(), None);
            }
        }
    }
    writer.close();
}
