//! Headers that anybody may have written: nothing panics, and everything read is within its bounds.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use redrive_core::dialect::{Death, ForeignFailure};
use redrive_core::headers::{MAX_ATTEMPT, MAX_ERROR_TYPE, MAX_ID, MAX_TOPIC, Spelling, encode};
use redrive_core::{Headers, MAX_CHAIN, MAX_TEXT, Text, Timestamp};

use crate::trails::{full, spelling, trail};

const NAMES: &[&str] = &[
    "kafka_dlt-original-topic",
    "kafka_dlt-original-partition",
    "kafka_dlt-original-offset",
    "kafka_dlt-original-timestamp",
    "kafka_dlt-original-consumer-group",
    "kafka_dlt-exception-fqcn",
    "kafka_dlt-exception-cause-fqcn",
    "kafka_dlt-exception-message",
    "kafka_dlt-exception-stacktrace",
    "kafka_dlt-key-exception-stacktrace",
    "kafka_deliveryAttempt",
    "kafka_original-partition",
    "kafka_exception-fqcn",
    "retry_topic-attempts",
    "retry_topic-original-timestamp",
    "retry_topic-backoff-timestamp",
    "springDeserializerExceptionKey",
    "springDeserializerExceptionValue",
    "x-original-topic",
    "x-original-partition",
    "x-original-offset",
    "x-original-timestamp",
    "x-exception-fqcn",
    "x-exception-message",
    "x-exception-stacktrace",
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.connector.name",
    "__connect.errors.task.id",
    "__connect.errors.exception.class.name",
    "__connect.errors.exception.stacktrace",
    "__streams.errors.offset",
    "__streams.errors.exception",
    "__dlq.errors.topic",
    "__dlq.errors.partition",
    "__dlq.errors.offset",
    "__dlq.errors.delivery.count",
    "x-death",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-delivery-count",
    "x-original-exchange",
    "x-original-routingKey",
    "retry-count",
    "NServiceBus.FailedQ",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.ExceptionInfo.StackTrace",
    "NServiceBus.EnclosedMessageTypes",
    "NServiceBus.ProcessingEndpoint",
    "NServiceBus.ProcessingMachine",
    "MT-Reason",
    "MT-Fault-InputAddress",
    "MT-Fault-Timestamp",
    "MT-Fault-RetryCount",
    "MT-Redelivery-Count",
    "exception-type",
    "exception-stack",
    "failed-at",
    "original-destination",
    "attempts",
];

/// Compiled once, unlike a text that is used as a strategy.
fn regex(pattern: &str) -> impl Strategy<Value = String> + use<> {
    proptest::string::string_regex(pattern).expect("a pattern")
}

fn value() -> impl Strategy<Value = Option<Bytes>> {
    let bytes = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let text = any::<String>().prop_map(Bytes::from);
    let digits = regex("-?[0-9]{1,25}").prop_map(Bytes::from);
    let long = (any::<char>(), 0_usize..20_000).prop_map(|(c, n)| Bytes::from(c.to_string().repeat(n)));
    let trace = vec(regex("(Caused by: | ---> |\tat )?[a-zA-Z.:$ é]{0,40}\r?\n"), 0..20)
        .prop_map(|lines| Bytes::from(lines.concat()));
    let time = regex("[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:]{8}[:.][0-9]{0,9} ?Z?").prop_map(Bytes::from);
    let address = regex("[a-z]{0,8}:?/?/?[a-z/?#]{0,300}").prop_map(Bytes::from);
    let json =
        regex(r#"\[(\{"(queue|reason|time|count|routing-keys)":("[a-z]*"|[0-9]{1,25}|null|\[\])\},?)*\]"#)
            .prop_map(Bytes::from);
    prop_oneof![
        1 => Just(None),
        3 => bytes.prop_map(Some),
        2 => text.prop_map(Some),
        2 => digits.prop_map(Some),
        1 => long.prop_map(Some),
        2 => trace.prop_map(Some),
        1 => time.prop_map(Some),
        1 => address.prop_map(Some),
        1 => json.prop_map(Some),
        2 => any::<i32>().prop_map(|n| Some(Bytes::copy_from_slice(&n.to_be_bytes()))),
        2 => any::<i64>().prop_map(|n| Some(Bytes::copy_from_slice(&n.to_be_bytes()))),
        1 => any::<u16>().prop_map(|n| Some(Bytes::copy_from_slice(&i64::from(n).to_be_bytes()))),
        1 => any::<u16>().prop_map(|n| Some(Bytes::copy_from_slice(&i32::from(n).to_be_bytes()))),
    ]
}

fn hostile() -> impl Strategy<Value = Headers> {
    let name = prop_oneof![
        20 => proptest::sample::select(NAMES).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    vec((name, value()), 0..16).prop_map(|pairs| {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.push_header(name, value);
        }
        headers
    })
}

fn deaths() -> impl Strategy<Value = Vec<Death>> {
    let reason =
        proptest::sample::select(&["rejected", "expired", "maxlen", "delivery_limit", "", "\u{7}"][..]);
    let one = (any::<String>(), reason, any::<Option<i64>>(), any::<Vec<String>>(), any::<u64>()).prop_map(
        |(queue, reason, time, routing_keys, count)| Death {
            exchange: routing_keys.first().cloned(),
            queue,
            reason: reason.to_owned(),
            time: time.map(Timestamp::from_millis),
            routing_keys,
            count,
        },
    );
    vec(one, 0..5)
}

fn check(failure: &ForeignFailure) {
    let short = |text: &Option<Text>, max: usize| {
        text.as_ref().is_none_or(|text| !text.is_empty() && text.chars().count() <= max)
    };
    let origin = &failure.origin;
    for name in [&origin.name, &origin.exchange, &origin.routing_key] {
        assert!(short(name, MAX_TOPIC), "{name:?}");
    }
    assert!(short(&origin.group, MAX_ID) && short(&failure.message_type, MAX_ID));
    assert!(short(&failure.component, MAX_ID));
    assert!(origin.partition.is_none_or(|partition| partition >= 0));
    assert!(origin.offset.is_none_or(|offset| offset >= 0));
    for time in [origin.timestamp, failure.failed_at, failure.first_failed_at, failure.due_at] {
        assert!(time.is_none_or(|time| time.as_millis() >= 0));
    }
    assert!(failure.attempts.is_none_or(|attempts| attempts <= MAX_ATTEMPT));
    assert!(failure.chain.len() <= MAX_CHAIN);
    for link in &failure.chain {
        assert!(link.kind.len() <= MAX_ERROR_TYPE.max(MAX_TOPIC * 4) && link.message.len() <= MAX_TEXT);
    }
    assert!(failure.stack_trace.as_ref().is_none_or(|trace| trace.len() <= MAX_TEXT));
    serde_json::to_string(failure).expect("a failure is JSON");
}

proptest! {
    #[test]
    fn whatever_is_read_is_bounded(headers in hostile(), deaths in deaths()) {
        let read = ForeignFailure::read(&headers);
        let with_deaths = ForeignFailure::read_with_deaths(&headers, &deaths);
        read.iter().chain(&with_deaths).for_each(check);
    }

    #[test]
    fn redrives_own_headers_are_nobody_elses(trail in trail(), spelling in spelling()) {
        let mut headers = Headers::new();
        encode(&trail, &mut headers, spelling);
        prop_assert_eq!(ForeignFailure::read(&headers), None);
        encode(&trail, &mut headers, Spelling::Default);
        prop_assert_eq!(ForeignFailure::read(&headers), None);
    }
}

#[test]
fn a_megabyte_of_stack_trace_is_cut_and_its_memory_given_back() {
    let mut headers = Headers::new();
    headers.push("kafka_dlt-exception-stacktrace", "é".repeat(500_000));
    headers.push("kafka_dlt-exception-fqcn", "a.B");
    let failure = ForeignFailure::read(&headers).expect("a failure");
    check(&failure);
    assert!(failure.stack_trace.is_some_and(|trace| trace.len() == MAX_TEXT));
}

#[test]
fn redrives_fullest_headers_are_nobody_elses() {
    let mut headers = Headers::new();
    encode(&full(), &mut headers, Spelling::Default);
    assert_eq!(ForeignFailure::read(&headers), None);
}
