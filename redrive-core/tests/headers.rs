//! Redrive's own headers: written and read back in every spelling, and read from anything at all.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use redrive_core::headers::{
    Decoded, Field, Key, Keyring, MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ERROR_TYPE, MAX_ID, MAX_RESPONSE,
    MAX_ROUTE_HOPS, MAX_SPAN, MacCheck, Origin, Replay, Spelling, Trail, Trust, after_bad_mac, decode,
    encode,
};
use redrive_core::{Class, Headers, Reason, Text, Timestamp};

fn text(max: usize) -> impl Strategy<Value = Option<Text>> {
    let any = vec(any::<char>(), 1..=max).prop_map(|chars| Text::from(chars.into_iter().collect::<String>()));
    option::of(any)
}

fn id() -> impl Strategy<Value = Option<Text>> {
    option::of("[^\\p{Cc}]{1,300}".prop_map(Text::from))
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    option::of((0..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis))
}

fn span() -> impl Strategy<Value = Duration> {
    (0..=MAX_SPAN.as_millis() as u64).prop_map(Duration::from_millis)
}

fn class() -> impl Strategy<Value = Option<Class>> {
    option::of(proptest::sample::select(Class::ALL))
}

fn reason() -> impl Strategy<Value = Option<Reason>> {
    option::of("[A-Z][A-Z0-9_]{0,63}".prop_map(|code| Reason::new(code).unwrap()))
}

fn route() -> impl Strategy<Value = Option<Text>> {
    option::of(vec("[a-z0-9._-]{1,40}", 1..=MAX_ROUTE_HOPS).prop_map(|hops| Text::from(hops.join(","))))
}

fn origin() -> impl Strategy<Value = Origin> {
    (option::of("[a-zA-Z0-9._-]{1,249}"), option::of(0..=i32::MAX), option::of(0..=i64::MAX), time())
        .prop_map(|(topic, partition, offset, timestamp)| Origin {
            topic: topic.map(Text::from),
            partition,
            offset,
            timestamp,
        })
}

fn replay() -> impl Strategy<Value = Option<Replay>> {
    let fields = (id(), text(MAX_ERROR_TYPE), text(MAX_ERROR_MESSAGE), 0..=MAX_ATTEMPT);
    option::of(fields.prop_map(|(id, by, reason, death_count)| Replay { id, by, reason, death_count }))
}

prop_compose! {
    fn trail()(
        counters in (0..=MAX_ATTEMPT, option::of(1..=MAX_ATTEMPT), 0..=MAX_ATTEMPT, 0..=MAX_ATTEMPT, 0..=MAX_ATTEMPT),
        times in (time(), time(), time(), time()),
        spans in (span(), span()),
        failure in (class(), reason(), option::of(100_u16..=999)),
        texts in (text(MAX_ERROR_TYPE), text(MAX_ERROR_MESSAGE), text(MAX_RESPONSE), text(MAX_ERROR_MESSAGE), text(MAX_ERROR_TYPE)),
        ids in (id(), id(), id(), id(), id()),
        origin in origin(),
        delay_route in route(),
        replay in replay(),
    ) -> Trail {
        Trail {
            attempt: counters.0,
            max: counters.1,
            process_after: times.0,
            origin,
            first_attempt_at: times.1,
            first_failure_at: times.2,
            last_failure_at: times.3,
            error_type: texts.0,
            error_message: texts.1,
            class: failure.0,
            reason: failure.1,
            status: failure.2,
            response: texts.2,
            delay_route,
            delay_counter: counters.2,
            delay_reason: texts.3,
            wait_id: ids.0,
            entry_id: ids.1,
            idempotency_key: ids.2,
            calls_used: counters.3,
            delay_total: spans.0,
            held: spans.1,
            handler_version: texts.4,
            correlation_id: ids.3,
            causation_id: ids.4,
            mac_failures: counters.4,
            replay,
        }
    }
}

fn spelling() -> impl Strategy<Value = Spelling> {
    proptest::sample::select(Spelling::ALL)
}

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

    #[test]
    fn a_signed_message_verifies_in_every_spelling(trail in trail(), spelling in spelling(), body in option::of(vec(any::<u8>(), 0..64)), secret: [u8; 32]) {
        let ring = Keyring::new(Key::generate(secret));
        let mut headers = Headers::new();
        encode(&trail, &mut headers, spelling);
        ring.sign(&trail, body.as_deref(), &mut headers);
        let read = decode(&headers, spelling);
        prop_assert_eq!(ring.verify(read.mac.as_deref(), &read.trail, body.as_deref()), MacCheck::Valid);
        prop_assert_eq!(after_bad_mac(MacCheck::Valid, &read.trail), Trust::Trusted);
    }

    #[test]
    fn a_changed_byte_in_a_covered_header_is_found(trail in trail(), which: prop::sample::Index, place: prop::sample::Index, change in 1..=255_u8) {
        let ring = Keyring::new(Key::generate([9; 32]));
        let mut headers = Headers::new();
        encode(&trail, &mut headers, Spelling::Default);
        ring.sign(&trail, Some(b"body"), &mut headers);
        let covered: Vec<_> = COVERED.iter().filter(|field| headers.get(field.name()).is_some_and(|v| !v.is_empty())).collect();
        let field = which.get(&covered);
        let mut value = headers.get(field.name()).unwrap().to_vec();
        let at = place.index(value.len());
        value[at] ^= change;
        headers.set(field.name(), value);
        let read = decode(&headers, Spelling::Default);
        // A change that a reader does not see, such as a leading zero, is none.
        prop_assume!(read.trail != trail || **field == Field::Mac);
        prop_assert_ne!(ring.verify(read.mac.as_deref(), &read.trail, Some(b"body")), MacCheck::Valid);
    }

    #[test]
    fn a_changed_body_is_found(trail in trail(), body in vec(any::<u8>(), 1..200), place: prop::sample::Index, change in 1..=255_u8) {
        let ring = Keyring::new(Key::generate([9; 32]));
        let mut headers = Headers::new();
        ring.sign(&trail, Some(&body), &mut headers);
        let mac = headers.get("x-redrive-mac").map(|mac| &mac[..]);
        let mut other = body.clone();
        other[place.index(body.len())] ^= change;
        prop_assert_eq!(ring.verify(mac, &trail, Some(&other)), MacCheck::Mismatch);
        prop_assert_eq!(ring.verify(mac, &trail, None), MacCheck::Mismatch);
        prop_assert_eq!(ring.verify(mac, &trail, Some(&body)), MacCheck::Valid);
    }

    #[test]
    fn no_mac_and_no_key_text_panics(mac in vec(any::<u8>(), 0..80), key: String) {
        let ring = Keyring::new(Key::generate([9; 32]));
        prop_assert_ne!(ring.verify(Some(&mac), &Trail::default(), None), MacCheck::Valid);
        let _ = key.parse::<Key>();
        let _ = format!("k:{key}").parse::<Key>();
    }
}

const COVERED: &[Field] = &[
    Field::OriginalTopic,
    Field::OriginalPartition,
    Field::OriginalOffset,
    Field::OriginalTimestamp,
    Field::RetryAttempt,
    Field::RetryMax,
    Field::ProcessAfter,
    Field::DelayRoute,
    Field::FirstFailureTimestamp,
    Field::CallsUsed,
    Field::DelayTotal,
    Field::Held,
    Field::DelayCounter,
    Field::EntryId,
    Field::WaitId,
    Field::MacFailures,
    Field::Mac,
];

/// A trail with every field set, so that a test over fields misses none.
fn full() -> Trail {
    let at = |millis: i64| Some(Timestamp::from_millis(1_782_896_400_000 + millis));
    let own = |text: &str| Some(Text::from(text));
    Trail {
        attempt: 3,
        max: Some(8),
        process_after: at(60_000),
        origin: Origin { topic: own("orders"), partition: Some(3), offset: Some(42), timestamp: at(0) },
        first_attempt_at: at(1),
        first_failure_at: at(2),
        last_failure_at: at(50_000),
        error_type: own("java.net.SocketTimeoutException"),
        error_message: own("timed out"),
        class: Some(Class::Transient),
        reason: Some(Reason::DOWNSTREAM_TIMEOUT),
        status: Some(503),
        response: own("{\"error\":\"busy\"}"),
        delay_route: own("orders.retry.10s,orders.retry.1m"),
        delay_counter: 2,
        delay_reason: own("DOWNSTREAM_TIMEOUT"),
        wait_id: own("w-1"),
        entry_id: own("e-1"),
        idempotency_key: own("orders/3/42"),
        calls_used: 5,
        delay_total: Duration::from_secs(70),
        held: Duration::from_millis(1_500),
        handler_version: own("order-worker:2.17.4"),
        correlation_id: own("corr-214"),
        causation_id: own("cmd-883"),
        mac_failures: 1,
        replay: Some(Replay {
            id: own("replay-20260701-001"),
            by: own("ops-user-123"),
            reason: own("SCHEMA_HANDLER_FIXED"),
            death_count: 6,
        }),
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
        shown_all += &format!("# {spelling}{}\n{}\n", if ended { ", ended" } else { "" }, shown(&headers));
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

#[test]
fn each_covered_header_is_covered() {
    let ring = Keyring::new(Key::generate([9; 32]));
    let mut signed = Headers::new();
    encode(&full(), &mut signed, Spelling::Default);
    ring.sign(&full(), Some(b"body"), &mut signed);
    for field in COVERED {
        let mut changed = signed.clone();
        let mut value = changed.get(field.name()).unwrap().to_vec();
        value[0] ^= 1;
        changed.set(field.name(), value);
        let read = decode(&changed, Spelling::Default);
        let check = ring.verify(read.mac.as_deref(), &read.trail, Some(b"body"));
        assert_ne!(check, MacCheck::Valid, "{}", field.name());
        changed.remove(field.name());
        let read = decode(&changed, Spelling::Default);
        let check = ring.verify(read.mac.as_deref(), &read.trail, Some(b"body"));
        assert_ne!(check, MacCheck::Valid, "{}", field.name());
    }
}

#[test]
fn keys_rotate() {
    let old = Key::new("old", &[1; 32]).unwrap();
    let new: Key = Key::generate([2; 32]).to_secret_text().parse().unwrap();
    let mut headers = Headers::new();
    Keyring::new(old.clone()).sign(&full(), None, &mut headers);
    let mac = headers.get("x-redrive-mac").map(|mac| &mac[..]);
    let both = Keyring::from_keys([new.clone(), old.clone()]).unwrap();
    assert_eq!(both.verify(mac, &full(), None), MacCheck::Valid);
    assert_eq!(Keyring::new(new.clone()).verify(mac, &full(), None), MacCheck::UnknownKey);
    // A key read from its text is the key that was generated.
    let mut signed = Headers::new();
    Keyring::new(Key::generate([2; 32])).sign(&full(), None, &mut signed);
    let mac = signed.get("x-redrive-mac").map(|mac| &mac[..]);
    assert_eq!(both.verify(mac, &full(), None), MacCheck::Valid);
    assert_eq!(both.verify(Some(b"v2,old,AAAA"), &full(), None), MacCheck::Malformed);
    assert!(Keyring::from_keys([old.clone(), old]).is_err());
    assert!(Keyring::from_keys([]).is_err());
    assert!(!format!("{new:?}").contains(new.to_secret_text().split_once(':').unwrap().1));
}

#[test]
fn wrong_keys_say_what_was_expected() {
    let message = |text: &str| text.parse::<Key>().unwrap_err().to_string();
    insta::assert_snapshot!(message("secret"), @"a signing key is `<id>:<secret>`, and this text has no colon");
    insta::assert_snapshot!(message("a b:c"), @"the secret of a signing key is 32 to 64 bytes in base64url without padding");
    insta::assert_snapshot!(message(&format!("a b:{}", "A".repeat(43))), @"the id of a signing key is 1 to 32 of A-Z, a-z, 0-9, `_`, `-` and `.`");
}

#[test]
fn a_second_bad_mac_parks() {
    let claimed = Trail { mac_failures: 0, ..full() };
    let Trust::Restart(first) = after_bad_mac(MacCheck::Mismatch, &claimed) else {
        panic!("the first bad one starts over");
    };
    assert_eq!((first.attempt, first.calls_used, first.mac_failures), (0, 0, 1));
    assert_eq!(first.idempotency_key, claimed.idempotency_key);
    assert_eq!(first.entry_id, None);
    assert_eq!(after_bad_mac(MacCheck::UnknownKey, &first), Trust::Park);
    assert_eq!(after_bad_mac(MacCheck::Missing, &Trail::default()), Trust::Trusted);
    let traced = Trail { correlation_id: Some("c".into()), ..Trail::default() };
    assert_eq!(after_bad_mac(MacCheck::Missing, &traced), Trust::Trusted);
    assert!(matches!(after_bad_mac(MacCheck::Malformed, &Trail::default()), Trust::Restart(_)));
}
