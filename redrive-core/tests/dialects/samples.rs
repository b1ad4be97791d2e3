//! What the real writers wrote, as `cargo xtask samples` captured it.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redrive_core::classify::{Classifier, Subject};
use redrive_core::dialect::{ForeignFailure, Writer};
use redrive_core::{Class, Headers, Reason, Timestamp};
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    how: String,
    record: Record,
}

#[derive(Deserialize)]
struct Record {
    timestamp: i64,
    value: Value,
    headers: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    value: Value,
}

/// Text where the bytes are text, so that a person can read a sample.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    Text(String),
    Base64(String),
    Null(#[allow(dead_code, reason = "the name says it")] bool),
}

impl Value {
    fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(Bytes::from(text.clone())),
            Self::Base64(text) => Some(Bytes::from(STANDARD.decode(text).expect("base64"))),
            Self::Null(_) => None,
        }
    }
}

impl Sample {
    fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        for header in &self.record.headers {
            headers.push_header(header.name.as_str(), header.value.bytes());
        }
        headers
    }
}

fn samples() -> BTreeMap<String, Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects/samples");
    let files = std::fs::read_dir(folder).expect("the samples");
    files
        .map(|file| {
            let path = file.expect("a sample").path();
            let text = std::fs::read_to_string(&path).expect("a sample");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("a sample"))
        })
        .collect()
}

/// What a sample has to be read as.
struct Expected {
    name: &'static str,
    writer: Writer,
    origin: (&'static str, i32, i64),
    group: Option<&'static str>,
    attempts: Option<u32>,
    /// The last part of each error's type.
    chain: &'static [&'static str],
    message: &'static str,
    class: Class,
    reason: Reason,
}

const WAREHOUSE: &[&str] = &["ListenerExecutionFailedException", "IllegalStateException", "RuntimeException"];
/// Between a retry topic's listener and its handler Spring has two more wrappers.
const RETRIED: &[&str] = &[
    "ListenerExecutionFailedException",
    "TimestampedException",
    "ListenerExecutionFailedException",
    "IllegalStateException",
    "RuntimeException",
];
const UNREADABLE: &[&str] = &["DeserializationException", "SerializationException"];

const EXPECTED: &[Expected] = &[
    Expected {
        name: "kafka-connect-converter",
        writer: Writer::KafkaConnect,
        origin: ("sunk", 0, 0),
        group: None,
        attempts: None,
        chain: &["DataException", "SerializationException", "JsonParseException"],
        message: "Converting byte[] to Kafka Connect data failed due to serialization error: ",
        class: Class::PermanentTechnical,
        reason: Reason::DESERIALIZATION_FAILED,
    },
    Expected {
        name: "kafka-connect-transformation",
        writer: Writer::KafkaConnect,
        origin: ("sunk", 0, 1),
        group: None,
        attempts: None,
        chain: &["DataException", "NumberFormatException"],
        message: "Value (no number) was out of range for requested data type",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "kafka-share-group",
        writer: Writer::KafkaShareGroup,
        origin: ("picked", 0, 7),
        group: Some("pickers"),
        attempts: Some(5),
        chain: &[""],
        message: "The record has reached the maximum number of deliveries.",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "kafka-streams-deserialization",
        writer: Writer::KafkaStreams,
        origin: ("divided", 0, 0),
        group: None,
        attempts: None,
        chain: &["SerializationException"],
        message: "Size of data received by IntegerDeserializer is not 4",
        class: Class::PermanentTechnical,
        reason: Reason::DESERIALIZATION_FAILED,
    },
    Expected {
        name: "kafka-streams-processing",
        writer: Writer::KafkaStreams,
        origin: ("divided", 0, 1),
        group: None,
        attempts: None,
        chain: &["ArithmeticException"],
        message: "/ by zero",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "spring-deserializer-key",
        writer: Writer::SpringKafka,
        origin: ("numbers", 0, 1),
        group: Some("workers"),
        attempts: None,
        chain: UNREADABLE,
        message: "failed to deserialize",
        class: Class::PermanentTechnical,
        reason: Reason::DESERIALIZATION_FAILED,
    },
    Expected {
        name: "spring-deserializer-value",
        writer: Writer::SpringKafka,
        origin: ("numbers", 0, 0),
        group: Some("workers"),
        attempts: None,
        chain: UNREADABLE,
        message: "failed to deserialize",
        class: Class::PermanentTechnical,
        reason: Reason::DESERIALIZATION_FAILED,
    },
    Expected {
        name: "spring-kafka-dead-letter",
        writer: Writer::SpringKafka,
        origin: ("orders", 0, 0),
        group: Some("workers"),
        attempts: None,
        chain: WAREHOUSE,
        message: "Listener method 'void redrive.Failing.on(org.apache.kafka.clients.consumer.ConsumerRecord<byte[], \
                  byte[]>)' threw exception; the warehouse is closed",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "spring-kafka-retry-dead-letter",
        writer: Writer::SpringKafkaRetry,
        origin: ("returns", 0, 0),
        group: Some("workers"),
        attempts: Some(3),
        chain: RETRIED,
        message: "Listener failed; the warehouse is closed",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "spring-kafka-retry-first",
        writer: Writer::SpringKafkaRetry,
        origin: ("returns", 0, 0),
        group: Some("workers"),
        attempts: Some(1),
        chain: RETRIED,
        message: "Listener failed; the warehouse is closed",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
    Expected {
        name: "spring-kafka-retry-second",
        writer: Writer::SpringKafkaRetry,
        origin: ("returns", 0, 0),
        group: Some("workers"),
        attempts: Some(2),
        chain: RETRIED,
        message: "Listener failed; the warehouse is closed",
        class: Class::Unknown,
        reason: Reason::FOREIGN_FAILURE,
    },
];

#[test]
fn every_sample_is_read_as_what_its_writer_meant() {
    let samples = samples();
    let names: Vec<&str> = EXPECTED.iter().map(|expected| expected.name).collect();
    assert_eq!(samples.keys().map(String::as_str).collect::<Vec<_>>(), names);
    for expected in EXPECTED {
        let sample = &samples[expected.name];
        let name = expected.name;
        assert!(!sample.how.is_empty(), "{name}");
        let failure = ForeignFailure::read(&sample.headers()).expect(name);
        assert_eq!(failure.writer, expected.writer, "{name}");
        let origin = &failure.origin;
        assert_eq!(
            (origin.name.as_deref(), origin.partition, origin.offset),
            (Some(expected.origin.0), Some(expected.origin.1), Some(expected.origin.2)),
            "{name}"
        );
        assert_eq!(origin.group.as_deref(), expected.group, "{name}");
        assert_eq!(failure.attempts, expected.attempts, "{name}");
        let chain: Vec<&str> =
            failure.chain.iter().map(|link| link.kind.rsplit('.').next().unwrap_or_default()).collect();
        assert_eq!(chain, expected.chain, "{name}");
        assert_eq!(failure.chain[0].message, expected.message, "{name}");
        assert_eq!(failure.stack_trace.is_some(), expected.writer != Writer::KafkaShareGroup, "{name}");

        let recorded = Timestamp::from_millis(sample.record.timestamp);
        let found = failure.finding(&Classifier::default(), &Subject::default(), recorded);
        let classification = &found.classification;
        assert_eq!(
            (classification.class, &classification.reason),
            (expected.class, &expected.reason),
            "{name}"
        );
        let failed = failure.failed_at.unwrap_or(recorded);
        assert_eq!((found.first_failed_at, found.last_failed_at), (failed, failed), "{name}");
        assert_eq!(found.attempts, expected.attempts.unwrap_or(1), "{name}");
    }
}

#[test]
fn spring_times_are_those_of_the_original_record() {
    let samples = samples();
    for (name, sample) in samples.iter().filter(|(name, _)| name.starts_with("spring-")) {
        let failure = ForeignFailure::read(&sample.headers()).expect(name);
        let published = failure.origin.timestamp.expect(name).as_millis();
        // All of it happened within the minutes of one capture.
        let passed = sample.record.timestamp - published;
        assert!((0..600_000).contains(&passed), "{name}: {passed}");
        let due = failure.due_at.map(Timestamp::as_millis);
        assert_eq!(due.is_some(), name.starts_with("spring-kafka-retry"), "{name}");
        assert!(due.is_none_or(|due| (0..600_000).contains(&(due - published))), "{name}");
        let failed = failure.failed_at.map(Timestamp::as_millis);
        assert_eq!(failed.is_some(), due.is_some(), "{name}");
        assert!(
            failed.is_none_or(|failed| published <= failed && failed <= sample.record.timestamp),
            "{name}"
        );
    }
}

#[test]
fn the_serialized_error_is_shown_and_not_decoded() {
    let samples = samples();
    let serialized = |name: &str| ForeignFailure::read(&samples[name].headers()).expect(name).serialized;
    let (key, value) = (serialized("spring-deserializer-key"), serialized("spring-deserializer-value"));
    assert!(key.value.is_none() && key.key.is_some_and(|object| object.java && object.bytes > 100));
    assert!(value.key.is_none() && value.value.is_some_and(|object| object.java && object.bytes > 100));
    assert!(serialized("spring-kafka-dead-letter").is_empty());
}

#[test]
fn a_share_groups_body_is_where_its_headers_say() {
    let samples = samples();
    let sample = &samples["kafka-share-group"];
    assert_eq!(sample.record.value.bytes(), None);
    let failure = ForeignFailure::read(&sample.headers()).expect("a share group's");
    assert_eq!(failure.body_at(), Some(("picked", 0, 7)));
}
