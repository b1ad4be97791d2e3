//! Redrive's own headers: written and read back in every spelling, and read from anything at all.

mod trails;

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use redrive_core::headers::{
    Decoded, Field, Key, Keyring, MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ID, MAX_SPAN, Origin, Spelling, Trail,
    decode, encode,
};
use redrive_core::{Headers, Reason, Timestamp};
use trails::{full, spelling, trail};

const OTHER_NAMES: &[&str] = &[
    "x-app-retry-attempt",
    "x-app-retry-max",
    "x-app-retry-reason",
    "x-app-first-failure-at",
    "retry-attempt",
    "final-attempt",
    "first-seen-ts",
    "origin-topic",
    "next-delay-ms",
    "dlq-reason",
    "dlq-message",
    "X_DELAY_ROUTE",
    "X_DELAY_COUNTER",
    "X_DELAY_REASON",
    "type",
];

fn hostile_value() -> impl Strategy<Value = Option<Bytes>> {
    let digits = "-?[0-9]{1,70}".prop_map(Bytes::from);
    let long = (any::<char>(), 0_usize..3_000).prop_map(|(c, n)| Bytes::from(c.to_string().repeat(n)));
    let bytes = vec(any::<u8>(), 0..64).prop_map(Bytes::from);
    let time = (Timestamp::MIN.as_millis()..=Timestamp::MAX.as_millis())
        .prop_map(|millis| Bytes::from(Timestamp::from_millis(millis).to_string()));
    prop_oneof![
        Just(None),
        digits.prop_map(Some),
        long.prop_map(Some),
        bytes.prop_map(Some),
        time.prop_map(Some),
        any::<i32>().prop_map(|n| Some(Bytes::copy_from_slice(&n.to_be_bytes()))),
        any::<i64>().prop_map(|n| Some(Bytes::copy_from_slice(&n.to_be_bytes()))),
    ]
}

fn hostile() -> impl Strategy<Value = Headers> {
    let ours: Vec<&'static str> =
        Field::ALL.iter().map(|field| field.name()).chain(OTHER_NAMES.iter().copied()).collect();
    let name = prop_oneof![9 => proptest::sample::select(ours).prop_map(String::from), 1 => any::<String>()];
    vec((name, hostile_value()), 0..40).prop_map(|pairs| {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.push_header(name, value);
        }
        headers
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(trail in trail(), spelling in spelling(), foreign in vec(("[a-z]{1,8}", ".*"), 0..4)) {
        let mut headers = Headers::new();
        for (name, value) in &foreign {
            headers.push(format!("foreign-{name}"), value.clone());
        }
        encode(&trail, &mut headers, spelling);
        let expected = Decoded { trail: trail.clone(), ..Decoded::default() };
        prop_assert_eq!(decode(&headers, spelling), expected);

        let once = headers.clone();
        encode(&trail, &mut headers, spelling);
        prop_assert_eq!(headers.len(), once.len(), "headers piled up");
        let kept = headers.iter().filter(|header| header.name.as_str().starts_with("foreign-")).count();
        prop_assert_eq!(kept, foreign.len());
    }

    #[test]
    fn every_value_read_is_within_its_bounds(headers in hostile(), spelling in spelling()) {
        let decoded = decode(&headers, spelling);
        prop_assert_eq!(decoded.trail.clone().bounded(), decoded.trail.clone());
        prop_assert!(decoded.next_delay.is_none_or(|delay| delay <= MAX_SPAN));
        // Reading what was made of it loses nothing more.
        let mut again = headers.clone();
        encode(&decoded.trail, &mut again, spelling);
        prop_assert_eq!(Trail { correlation_id: None, causation_id: None, ..decode(&again, spelling).trail },
            Trail { correlation_id: None, causation_id: None, ..decoded.trail });
    }

    #[test]
    fn a_bounded_trail_is_what_a_reader_gets(mut trail in trail(), attempt: u32, status: u16, millis: i64, wild: String) {
        trail.attempt = attempt;
        trail.status = Some(status);
        trail.first_failure_at = Some(Timestamp::from_millis(millis));
        trail.entry_id = Some(wild.clone().into());
        trail.delay_route = Some(wild.clone().into());
        trail.error_message = Some(wild.repeat(40).into());
        let mut headers = Headers::new();
        encode(&trail, &mut headers, Spelling::Default);
        let decoded = decode(&headers, Spelling::Default);
        prop_assert!(decoded.clamped.is_empty() && decoded.ignored.is_empty());
        prop_assert_eq!(decoded.trail, trail.bounded());
    }

}

fn shown(headers: &Headers) -> String {
    let line = |header: &redrive_core::Header| {
        format!(
            "{}: {}",
            header.name.as_str(),
            String::from_utf8_lossy(header.value.as_deref().unwrap_or_default())
        )
    };
    headers.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn writes_every_header_by_its_name() {
    let mut headers = Headers::new();
    encode(&full(), &mut headers, Spelling::Default);
    Keyring::new(Key::new("k1", &[7; 32]).unwrap()).sign(&full(), Some(b"body"), &mut headers);
    assert_eq!(headers.len(), Field::ALL.len());
    insta::assert_snapshot!(shown(&headers));
}

#[test]
fn writes_the_documents_other_spellings() {
    let mut shown_all = String::new();
    for (spelling, ended) in [
        (Spelling::AppPrefixed, false),
        (Spelling::Plain, false),
        (Spelling::Plain, true),
        (Spelling::UpperDelay, false),
    ] {
        let mut trail = Trail { replay: None, ..full() };
        if ended {
            trail.process_after = None;
        }
        let mut headers = Headers::new();
        encode(&trail, &mut headers, spelling);
        headers.retain(|header| Field::of(header.name.as_str()).is_none());
        let state = if ended { ", ended" } else { "" };
        writeln!(shown_all, "# {spelling}{state}\n{}", shown(&headers)).unwrap();
    }
    insta::assert_snapshot!(shown_all);
}

fn headers(pairs: &[(&'static str, &'static [u8])]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(*name, *value);
    }
    headers
}

#[test]
fn reads_the_documents_other_spellings_alone() {
    let app = headers(&[
        ("x-app-retry-attempt", b"3"),
        ("x-app-retry-max", b"8"),
        ("x-app-retry-reason", b"DOWNSTREAM_TIMEOUT"),
        ("x-app-first-failure-at", b"2026-07-01T09:00:00Z"),
    ]);
    let read = decode(&app, Spelling::AppPrefixed).trail;
    assert_eq!((read.attempt, read.max), (3, Some(8)));
    assert_eq!(read.reason, Some(Reason::DOWNSTREAM_TIMEOUT));
    assert_eq!(read.first_failure_at, Some(Timestamp::from_millis(1_782_896_400_000)));
    assert_eq!(decode(&app, Spelling::Default), Decoded::default());

    let plain = headers(&[("retry-attempt", b"2"), ("origin-topic", b"orders"), ("next-delay-ms", b"10000")]);
    let read = decode(&plain, Spelling::Plain);
    assert_eq!((read.trail.attempt, read.trail.origin.topic.as_deref()), (2, Some("orders")));
    assert_eq!(read.next_delay, Some(Duration::from_secs(10)));
    let ended = headers(&[
        ("dlq-reason", b"java.lang.IllegalState"),
        ("dlq-message", b"no"),
        ("final-attempt", b"5"),
    ]);
    let read = decode(&ended, Spelling::Plain).trail;
    assert_eq!((read.attempt, read.error_type.as_deref()), (5, Some("java.lang.IllegalState")));

    let upper = headers(&[
        ("X_DELAY_ROUTE", b"delay_10, delay_5"),
        ("X_DELAY_COUNTER", b"1"),
        ("X_DELAY_REASON", b"busy"),
    ]);
    let read = decode(&upper, Spelling::UpperDelay).trail;
    assert_eq!(read.route().collect::<Vec<_>>(), ["delay_10", "delay_5"]);
    assert_eq!((read.delay_counter, read.delay_reason.as_deref()), (1, Some("busy")));
}

#[test]
fn the_own_name_comes_first_and_the_other_helps_out() {
    let both = headers(&[("retry-attempt", b"9"), ("x-retry-attempt", b"2")]);
    assert_eq!(decode(&both, Spelling::Plain).trail.attempt, 2);
    let broken = headers(&[("retry-attempt", b"9"), ("x-retry-attempt", b"two")]);
    let read = decode(&broken, Spelling::Plain);
    assert_eq!(read.trail.attempt, 9);
    assert!(read.ignored.contains(Field::RetryAttempt));
}

#[test]
fn a_hostile_attempt_is_clamped_and_counted() {
    for value in ["2147483648", "4294967296", "99999999999999999999999"] {
        let mut headers = Headers::new();
        headers.push("x-retry-attempt", value);
        let read = decode(&headers, Spelling::Default);
        assert_eq!(read.trail.attempt, MAX_ATTEMPT, "{value}");
        assert!(read.clamped.contains(Field::RetryAttempt));
    }
    for value in ["", "-1", "three", "1e9", "\u{0}"] {
        let mut headers = Headers::new();
        headers.push("x-retry-attempt", value);
        let read = decode(&headers, Spelling::Default);
        assert_eq!(read.trail.attempt, 1, "{value}");
        assert!(read.clamped.contains(Field::RetryAttempt) && read.ignored.contains(Field::RetryAttempt));
    }
}

#[test]
fn the_last_of_several_counts() {
    let several = headers(&[("x-retry-attempt", b"7"), ("x-retry-attempt", b"3")]);
    assert_eq!(decode(&several, Spelling::Default).trail.attempt, 3);
}

#[test]
fn the_cloud_stream_binders_integers_are_read() {
    let mut headers = Headers::new();
    headers.push("x-original-topic", "orders");
    headers.push("x-original-partition", 3_i32.to_be_bytes().to_vec());
    headers.push("x-original-offset", 42_i64.to_be_bytes().to_vec());
    headers.push("x-original-timestamp", 1_782_896_400_000_i64.to_be_bytes().to_vec());
    headers.push("x-original-timestamp-type", "CreateTime");
    let read = decode(&headers, Spelling::Default);
    assert_eq!(
        read.trail.origin,
        Origin { timestamp: Some(Timestamp::from_millis(1_782_896_400_000)), ..full().origin }
    );
    assert!(read.ignored.is_empty());

    headers.set("x-original-offset", (-1_i64).to_be_bytes().to_vec());
    headers.set("x-original-partition", "dcba");
    let read = decode(&headers, Spelling::Default);
    assert_eq!((read.trail.origin.partition, read.trail.origin.offset), (None, None));
    assert_eq!(read.ignored.iter().collect::<Vec<_>>(), [Field::OriginalPartition, Field::OriginalOffset]);
}

#[test]
fn correlation_is_written_only_when_absent() {
    let mut own = headers(&[("x-correlation-id", b"theirs")]);
    encode(&full(), &mut own, Spelling::Default);
    assert_eq!(own.get_text("x-correlation-id", 64).as_deref(), Some("theirs"));
    assert_eq!(own.get_text("x-causation-id", 64).as_deref(), Some("cmd-883"));
}

#[test]
fn long_texts_are_cut_between_characters_and_ids_are_not() {
    let mut headers = Headers::new();
    headers.push("x-last-error-message", "é".repeat(600));
    headers.push("x-api-response", vec![b'a', b'b', 0xff]);
    headers.push("x-entry-id", "e".repeat(MAX_ID + 1));
    let read = decode(&headers, Spelling::Default);
    assert_eq!(read.trail.error_message.unwrap().chars().count(), MAX_ERROR_MESSAGE);
    assert_eq!(read.trail.response.as_deref(), Some("ab"));
    assert_eq!(read.trail.entry_id, None);
    assert!(read.clamped.contains(Field::LastErrorMessage) && read.clamped.contains(Field::ApiResponse));
    assert!(read.ignored.contains(Field::EntryId));
}
