//! Spring Kafka's retry topics and the dead-letter topic at their end: `kafka_…` without `dlt-`, and `retry_topic-…`.

use super::spring_kafka::{ErrorNames, Names, read_names};
use super::{ForeignFailure, Writer, values};
use crate::{ErrorLink, Headers, Timestamp};

const ATTEMPTS: &str = "retry_topic-attempts";
const ORIGINAL_TIMESTAMP: &str = "retry_topic-original-timestamp";
const BACKOFF_TIMESTAMP: &str = "retry_topic-backoff-timestamp";

const NAMES: Names = Names {
    topic: "kafka_original-topic",
    partition: "kafka_original-partition",
    offset: "kafka_original-offset",
    timestamp: "kafka_original-timestamp",
    cause: "kafka_exception-cause-fqcn",
    value: ErrorNames {
        kind: "kafka_exception-fqcn",
        message: "kafka_exception-message",
        trace: "kafka_exception-stacktrace",
    },
    key: ErrorNames {
        kind: "kafka_key-exception-fqcn",
        message: "kafka_key-exception-message",
        trace: "kafka_key-exception-stacktrace",
    },
};

pub(super) fn owns(name: &str) -> bool {
    ["retry_topic-", "kafka_original-", "kafka_exception-", "kafka_key-exception-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let attempts = attempts(headers);
    let mut failure = read_names(headers, &NAMES, Writer::SpringKafkaRetry)
        .or_else(|| attempts.map(|_| ForeignFailure::of(Writer::SpringKafkaRetry)))?;
    failure.attempts = attempts;
    failure.failed_at = failed_at(&failure.chain);
    failure.due_at = values::short_time(headers, BACKOFF_TIMESTAMP);
    failure.origin.timestamp = values::short_time(headers, ORIGINAL_TIMESTAMP).or(failure.origin.timestamp);
    Some(failure)
}

/// When it failed stands in a wrapper around the error: `Exception thrown at 2026-07-01T09:00:00.123Z`.
fn failed_at(chain: &[ErrorLink]) -> Option<Timestamp> {
    let wrapper =
        chain.iter().find(|link| link.kind == "org.springframework.kafka.listener.TimestampedException")?;
    let time: Timestamp = wrapper.message.strip_prefix("Exception thrown at ")?.parse().ok()?;
    (time.as_millis() >= 0).then_some(time)
}

/// The number of the attempt that was to come: a big-endian integer, in old versions one unsigned byte.
fn attempts(headers: &Headers) -> Option<u32> {
    let next = match headers.get(ATTEMPTS)?[..] {
        [byte] => u32::from(byte),
        _ => values::binary_partition(headers, ATTEMPTS)?.cast_unsigned(),
    };
    next.checked_sub(1).filter(|made| *made > 0)
}
