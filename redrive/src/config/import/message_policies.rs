//! `messagePolicies`: what a message of each type may use up.

use redrive_core::{Reason, Schedule, duration};

use super::writer::Writer;
use super::{Entry, Node, left_out, number};
use crate::codes;
use crate::config::finding::Findings;

/// The settings that are carried over.
const KNOWN: [&str; 5] = ["localAttempts", "brokerAttempts", "maxRetryAge", "retryBackoff", "parkOn"];

/// The waits of `exponential-jitter`: 2 s doubling up to 64 s, and up to a third more.
fn backoff(times: u64) -> String {
    format!("exponential(2s, factor 2, max 1m4s, times {times}) jitter +33%")
}

pub(super) fn write(settings: &Node, writer: &mut Writer, findings: &mut Findings<'_>) {
    writer.from(settings);
    writer.blank();
    writer.comment("Imported from messagePolicies: a policy for each message type.");
    writer.open("policies");
    let mut types = vec!["types:".to_owned()];
    for entry in settings.entries() {
        let name = super::writer::quoted_key(&entry.key);
        types.push(format!("  {name}: {name}"));
        writer.from(&entry.value);
        writer.open(&entry.key);
        write_policy(&entry.value, writer, findings);
        writer.close();
    }
    if settings.entries().is_empty() {
        let message = "messagePolicies names no message type";
        findings.error(codes::UNREADABLE_IMPORT, settings.span.clone(), message, None);
    }
    writer.close();
    writer.example_flow(&types.iter().map(String::as_str).collect::<Vec<_>>());
}

fn write_policy(policy: &Node, writer: &mut Writer, findings: &mut Findings<'_>) {
    let most = u64::from(u32::MAX);
    let mut local = policy.entry("localAttempts").and_then(|entry| number(entry, most, findings));
    let delayed = policy.entry("brokerAttempts").and_then(|entry| number(entry, most, findings));
    if local == Some(0) {
        writer.comment("localAttempts: 0 would leave out the first call, so it is 1.");
        local = Some(1);
    }
    if let Some(retries) = local.and_then(|calls| calls.checked_sub(2)) {
        let times = retries + 1;
        writer.comment(&format!(
            "localAttempts: {} includes the first call. No wait was given; 100ms is what Redrive takes in place.",
            times + 1
        ));
        writer.text("local", &if times == 1 { "100ms".to_owned() } else { format!("100ms x{times}") });
    }
    if let Some(times) = delayed.filter(|times| *times > 0) {
        write_backoff(policy.entry("retryBackoff"), times, writer, findings);
    }
    let age = policy.entry("maxRetryAge").and_then(|entry| age(entry, findings));
    let budgets: Vec<_> = [
        local.map(|calls| format!("local_attempts: {calls}")),
        delayed.map(|steps| format!("broker_attempts: {steps}")),
        age.map(|age| format!("age: {age}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !budgets.is_empty() {
        writer.comment("brokerAttempts are delayed steps; maxRetryAge counts from the first failure.");
        writer.line(&format!("budgets: {{ {} }}", budgets.join(", ")));
    }
    if let Some(entry) = policy.entry("parkOn") {
        write_park_on(entry, writer, findings);
    }
    for entry in policy.entries().iter().filter(|entry| !KNOWN.contains(&entry.key.as_str())) {
        left_out(entry, "the key is not known", writer, findings);
    }
}

fn write_backoff(entry: Option<&Entry>, times: u64, writer: &mut Writer, findings: &mut Findings<'_>) {
    let text = entry.and_then(|entry| entry.value.text()).unwrap_or("exponential-jitter");
    if text == "exponential-jitter" {
        let given = if entry.is_some() { "retryBackoff: " } else { "No retryBackoff was given: " };
        writer.comment(&format!(
            "{given}exponential-jitter, 2 s doubling up to 64 s and up to a third more; brokerAttempts: {times}."
        ));
        writer.text("retry", &backoff(times));
        return;
    }
    match (text.parse::<Schedule>(), entry) {
        (Ok(schedule), entry) => {
            if let Some(entry) = entry {
                writer.from(&entry.value);
            }
            writer.comment(&format!("retryBackoff: {text}"));
            writer.text("retry", &schedule.to_string());
        }
        (Err(error), Some(entry)) => {
            let help = "known are exponential-jitter and schedules such as 10s, 1m x3".to_owned();
            findings.error(codes::WRONG_TEXT, entry.value.place_in(error.at()), error.to_string(), help);
        }
        (Err(_), None) => {}
    }
}

fn age(entry: &Entry, findings: &mut Findings<'_>) -> Option<String> {
    match duration::parse(entry.value.text().unwrap_or_default()) {
        Ok(age) => Some(duration::print(age).to_string()),
        Err(error) => {
            findings.error(codes::WRONG_TEXT, entry.value.place_in(error.at()), error.to_string(), None);
            None
        }
    }
}

fn write_park_on(entry: &Entry, writer: &mut Writer, findings: &mut Findings<'_>) {
    let mut reasons = Vec::new();
    for item in entry.value.items() {
        match Reason::new(item.text().unwrap_or_default()) {
            Ok(reason) => reasons.push(reason.to_string()),
            Err(error) => findings.error(codes::WRONG_TEXT, item.span.clone(), error.to_string(), None),
        }
    }
    writer.comment("parkOn");
    writer.line(&format!("park_on: [{}]", reasons.join(", ")));
}
