//! Retry settings in milliseconds: `MaxRetryAttempts`, `RetryDelayMs` and their companions.

use std::time::Duration;

use redrive_core::duration::{MAX, print};

use super::writer::Writer;
use super::{Entry, Node, left_out, number, tree::Kind};
use crate::codes;
use crate::config::finding::Findings;

const DEFAULT_DELAY_MS: u64 = 5_000;

/// The settings that are carried over.
const KNOWN: [&str; 8] = [
    "MaxRetryAttempts",
    "RetryDelayMs",
    "MaxRetryDelayMs",
    "MinRetryDelayMs",
    "UseExponentialBackoff",
    "BackoffMultiplier",
    "RetryTopicSuffix",
    "DeadLetterTopicSuffix",
];

pub(super) fn write(settings: &Node, writer: &mut Writer, findings: &mut Findings<'_>) {
    writer.from(settings);
    // The first call has to be counted too.
    let most = u64::from(u32::MAX) - 1;
    let retries = settings.entry("MaxRetryAttempts").and_then(|entry| number(entry, most, findings));
    let retries = retries.unwrap_or(3);
    let millis = |key: &str, findings: &mut Findings<'_>| {
        let entry = settings.entry(key)?;
        let most = u64::try_from(MAX.as_millis()).unwrap_or(u64::MAX);
        number(entry, most, findings).map(Duration::from_millis)
    };
    let delay = millis("RetryDelayMs", findings).unwrap_or(Duration::from_millis(DEFAULT_DELAY_MS));
    let longest = millis("MaxRetryDelayMs", findings);
    let shortest = millis("MinRetryDelayMs", findings);

    write_suffixes(settings, writer);
    writer.blank();
    writer.comment("Imported from retry settings in milliseconds.");
    writer.open("policies");
    writer.open("default");
    if retries > 0 {
        write_schedule(settings, retries, delay, longest, writer, findings);
    }
    if let Some(shortest) = shortest {
        writer.comment("MinRetryDelayMs");
        writer.line(&format!("floor: {}", print(shortest)));
    }
    if let Some((longest, node)) = longest.zip(settings.get("MaxRetryDelayMs")) {
        writer.from(node);
        writer.comment("MaxRetryDelayMs: no wait is longer, with jitter either.");
        writer.line(&format!("cap: {}", print(longest)));
    }
    writer.from(settings.get("MaxRetryAttempts").unwrap_or(settings));
    writer.comment(&format!(
        "MaxRetryAttempts: {retries} counts retries; with the first call that is one more."
    ));
    writer.line(&format!("budgets: {{ attempts: {} }}", retries.saturating_add(1)));
    for entry in settings.entries().iter().filter(|entry| !KNOWN.contains(&entry.key.as_str())) {
        let why = match entry.key.as_str() {
            "RetryConsumerPollingIntervalMs" => {
                "waiting messages are due at their time, nothing polls for them"
            }
            _ => "the key is not known",
        };
        left_out(entry, why, writer, findings);
    }
    writer.close();
    writer.close();
    writer.example_flow(&["delay: single   # one retry topic, the due time in x-process-after, as before"]);
}

fn write_suffixes(settings: &Node, writer: &mut Writer) {
    let text = |key: &str| settings.get(key).and_then(Node::text);
    let (retry, dead_letter) = (text("RetryTopicSuffix"), text("DeadLetterTopicSuffix"));
    if retry.is_none() && dead_letter.is_none() {
        return;
    }
    writer.blank();
    writer.comment(
        "RetryTopicSuffix and DeadLetterTopicSuffix are kept, so that the topics there are stay in use.",
    );
    writer.open("suffixes");
    for (key, value) in [("retry", retry), ("dead_letter", dead_letter)] {
        if let Some(value) = value {
            writer.text(key, value);
        }
    }
    writer.close();
}

fn write_schedule(
    settings: &Node,
    retries: u64,
    delay: Duration,
    longest: Option<Duration>,
    writer: &mut Writer,
    findings: &mut Findings<'_>,
) {
    let exponential = settings.entry("UseExponentialBackoff").is_none_or(|entry| is_true(entry, findings));
    if !exponential {
        writer.comment("UseExponentialBackoff: false, so every wait is RetryDelayMs.");
        let times = if retries == 1 { String::new() } else { format!(" x{retries}") };
        writer.text("retry", &format!("{}{times}", print(delay)));
        return;
    }
    let factor = settings.entry("BackoffMultiplier").map_or(Some(2.0), |entry| match &entry.value.kind {
        Kind::Scalar(scalar) => scalar.as_number(),
        _ => None,
    });
    let Some(factor) = factor.filter(|factor| (1.0..=1000.0).contains(factor)) else {
        let place = settings.get("BackoffMultiplier").map_or(0..0, |node| node.span.clone());
        findings.error(codes::OUT_OF_RANGE, place, "BackoffMultiplier has to be a number from 1 on", None);
        return;
    };
    let max = longest.map_or_else(String::new, |longest| format!(", max {}", print(longest.max(delay))));
    writer.comment("RetryDelayMs, BackoffMultiplier and MaxRetryDelayMs; the jitter was ±10 %.");
    let schedule = format!("exponential({}, factor {factor}{max}, times {retries}) jitter 10%", print(delay));
    match schedule.parse::<redrive_core::Schedule>() {
        Ok(schedule) => writer.text("retry", &schedule.to_string()),
        Err(error) => {
            let message = format!("the delays do not make a schedule: {error}");
            findings.error(codes::WRONG_TEXT, settings.span.clone(), message, None);
        }
    }
}

fn is_true(entry: &Entry, findings: &mut Findings<'_>) -> bool {
    let value = match &entry.value.kind {
        Kind::Scalar(scalar) => scalar.as_bool(),
        _ => None,
    };
    if value.is_none() {
        let message = format!("`{}` has to be true or false, found {}", entry.key, entry.value.what());
        findings.error(codes::WRONG_TYPE, entry.value.span.clone(), message, None);
    }
    value.unwrap_or(true)
}
