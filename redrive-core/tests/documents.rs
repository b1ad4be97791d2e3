//! The tables of the documents that Redrive was built after, as tests: ladders, time lines, classifiers.

use std::time::Duration;

use redrive_core::classify::{
    Classifier, NotRetryable, RetryBlocking, RetryDelayed, RetryInPlace, Seen, Subject,
};
use redrive_core::policy::Preset;
use redrive_core::{Class, Failure, Handling, History, Policy, PolicySpec, Timestamp, explain};

fn policy(json: &str) -> Policy {
    serde_json::from_str::<PolicySpec>(json).unwrap().build().unwrap()
}

/// Attempt, kind, shortest and longest wait in ms; then the exit.
fn told(policy: &Policy, class: Class) -> (Vec<(u32, &'static str, u128, u128)>, &'static str) {
    let told = explain(policy, class, Timestamp::default());
    let rows = told.rows.iter().map(|row| (row.attempt, row.kind, row.min.as_millis(), row.max.as_millis()));
    (rows.collect(), told.ending.unwrap().ends)
}

#[test]
fn the_ladder_ends_in_the_parking_lot() {
    let ladder = policy(r#"{ "preset": "ladder", "exits": { "default": "park" } }"#);
    let rows = vec![
        (1, "first", 0, 0),
        (2, "in_place", 100, 100),
        (3, "delayed", 9_000, 11_000),
        (4, "delayed", 54_000, 66_000),
        (5, "delayed", 270_000, 330_000),
        (6, "delayed", 1_620_000, 1_980_000),
    ];
    assert_eq!(told(&ladder, Class::Transient), (rows.clone(), "park"));
    assert_eq!(told(&Policy::default(), Class::Transient), (rows, "dead_letter"));
}

#[test]
fn the_time_line_of_five_ten_and_twenty_seconds() {
    let policy = Preset::TimeBased.spec().build().unwrap();
    let told = explain(&policy, Class::Transient, Timestamp::default());
    let waits: Vec<_> =
        told.rows.iter().skip(1).map(|row| (row.min.as_millis(), row.max.as_millis())).collect();
    assert_eq!(waits, [(4_500, 5_500), (9_000, 11_000), (18_000, 22_000)]);
    assert_eq!(told.rows.last().map(|row| row.age_max), Some(Duration::from_millis(38_500)));
    let ending = told.ending.unwrap();
    assert_eq!((ending.ends, ending.because.as_str()), ("dead_letter", "attempts spent: 4 of 4"));
}

#[test]
fn spring_holds_the_partition_three_times() {
    let policy = Preset::Spring.spec().build().unwrap();
    let rows = vec![
        (1, "first", 0, 0),
        (2, "blocking", 500, 500),
        (3, "blocking", 1_000, 1_000),
        (4, "blocking", 2_000, 2_000),
    ];
    assert_eq!(told(&policy, Class::Transient), (rows, "dead_letter"));
}

#[test]
fn the_http_client_stays_within_its_deadline() {
    let policy = Preset::HttpClient.spec().build().unwrap();
    let told = explain(&policy, Class::Transient, Timestamp::default());
    let most: Vec<_> = told.rows.iter().map(|row| row.max.as_millis()).collect();
    assert_eq!(most, [0, 200, 400, 800, 1_600]);
    assert_eq!(policy.budgets().age, Some(Duration::from_secs(8)));
}

#[test]
fn an_unknown_failure_is_tried_in_place_then_by_the_ladder_then_parked() {
    let (rows, ends) = told(&Policy::default(), Class::Unknown);
    let kinds: Vec<_> = rows.iter().map(|(_, kind, ..)| *kind).collect();
    assert_eq!(kinds, ["first", "in_place", "in_place", "delayed", "delayed", "delayed"]);
    assert_eq!(ends, "park");
}

#[test]
fn the_classifiers_examples() {
    let thrown = |kind: &str| Failure::from_message("failed").with_type(kind);
    let status = |code: u16| Failure::from_message("failed").with_status(code);
    let deep = |kind: &str| {
        Failure::from_message("outer").with_type("com.shop.OrderFailed").with_cause(kind, "inner")
    };
    let postgres = |text: &str| Failure::from_message(text).with_type("org.postgresql.util.PSQLException");
    let cases = [
        (
            thrown("com.fasterxml.jackson.core.JsonProcessingException"),
            "PERMANENT_TECHNICAL DESERIALIZATION_FAILED",
        ),
        (thrown("java.net.SocketTimeoutException"), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (thrown("jakarta.persistence.OptimisticLockException"), "CONTENTION OPTIMISTIC_LOCK_CONFLICT"),
        (
            thrown("com.shop.IllegalBusinessTransitionException"),
            "PERMANENT_BUSINESS ILLEGAL_BUSINESS_TRANSITION",
        ),
        (thrown("com.shop.NobodyKnowsThis"), "UNKNOWN UNKNOWN_FAILURE"),
        (thrown("java.sql.SQLTransientException"), "TRANSIENT DOWNSTREAM_ERROR"),
        (thrown("java.lang.IllegalArgumentException"), "PERMANENT_TECHNICAL INVALID_MESSAGE"),
        (thrown("java.lang.NullPointerException"), "PERMANENT_TECHNICAL NOT_RETRYABLE"),
        (thrown("java.net.UnknownHostException"), "TRANSIENT CONNECTION_FAILED"),
        (deep("java.net.ConnectException"), "TRANSIENT CONNECTION_FAILED"),
        (postgres("ERROR: canceling statement due to statement timeout"), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (postgres("ERROR: canceling statement due to user request"), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (postgres("The connection attempt failed."), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (postgres("ERROR: relation does not exist"), "UNKNOWN UNKNOWN_FAILURE"),
        (status(408), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (status(425), "TRANSIENT TRY_AGAIN"),
        (status(429), "TRANSIENT RATE_LIMITED"),
        (status(500), "TRANSIENT DOWNSTREAM_ERROR"),
        (status(502), "TRANSIENT DOWNSTREAM_UNAVAILABLE"),
        (status(503), "TRANSIENT DOWNSTREAM_UNAVAILABLE"),
        (status(504), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (status(599), "TRANSIENT DOWNSTREAM_ERROR"),
        (status(409), "CONTENTION OPTIMISTIC_LOCK_CONFLICT"),
        (status(423), "CONTENTION LOCKED"),
        (status(400), "PERMANENT_TECHNICAL INVALID_MESSAGE"),
        (status(413), "PERMANENT_TECHNICAL PAYLOAD_TOO_LARGE"),
        (status(415), "PERMANENT_TECHNICAL NOT_SUPPORTED"),
        (status(422), "PERMANENT_TECHNICAL INVALID_MESSAGE"),
        (status(501), "PERMANENT_TECHNICAL NOT_SUPPORTED"),
        (status(505), "PERMANENT_TECHNICAL NOT_SUPPORTED"),
        (status(418), "PERMANENT_TECHNICAL REQUEST_REFUSED"),
        (status(301), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(401), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(403), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(404), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(405), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(407), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (status(410), "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED"),
        (Failure::from_timeout(Duration::from_secs(30)), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (Failure::from_panic("index out of bounds"), "UNKNOWN HANDLER_PANICKED"),
        (Failure::from_message("").with_exit_code(75), "TRANSIENT TRY_AGAIN"),
        (Failure::from_message("").with_exit_code(65), "PERMANENT_TECHNICAL INVALID_MESSAGE"),
        (Failure::from_message("").with_exit_code(1), "UNKNOWN COMMAND_FAILED"),
        (thrown("SocketTimeoutException").with_exit_code(1), "TRANSIENT DOWNSTREAM_TIMEOUT"),
        (
            Failure::from_message("").with_sqlstate("25006".parse().unwrap()),
            "TRANSIENT DOWNSTREAM_UNAVAILABLE",
        ),
        (
            Failure::from_message("").with_sqlstate("3D000".parse().unwrap()),
            "PERMANENT_TECHNICAL ENDPOINT_MISCONFIGURED",
        ),
        (Failure::from_message("").with_sqlstate("40P01".parse().unwrap()), "CONTENTION DEADLOCK"),
        (
            Failure::from_message("").with_sqlstate("40001".parse().unwrap()),
            "CONTENTION OPTIMISTIC_LOCK_CONFLICT",
        ),
        (Failure::from_message("").with_sqlstate("08006".parse().unwrap()), "TRANSIENT CONNECTION_FAILED"),
        (
            Failure::from_message("").with_sqlstate("57P03".parse().unwrap()),
            "TRANSIENT DOWNSTREAM_UNAVAILABLE",
        ),
        (
            Failure::from_message("").with_sqlstate("23505".parse().unwrap()),
            "PERMANENT_TECHNICAL CONSTRAINT_VIOLATION",
        ),
        (
            Failure::from_error(std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
            "TRANSIENT CONNECTION_FAILED",
        ),
    ];
    let classifier = Classifier::default();
    for (failure, expected) in cases {
        let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &failure };
        let found = classifier.classify(&seen);
        assert_eq!(format!("{} {}", found.class, found.reason), expected, "{failure:?}");
    }
}

#[test]
fn a_wrapper_masks_what_it_wraps() {
    let inner = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let cases = [
        (Failure::from_error(NotRetryable::new(inner())), Handling::Never),
        (Failure::from_error(RetryInPlace::new(inner())), Handling::InPlace),
        (Failure::from_error(RetryBlocking::new(inner())), Handling::Blocking),
        (Failure::from_error(RetryDelayed::new(inner())), Handling::Delayed),
        // The outermost wrapper counts.
        (Failure::from_error(RetryDelayed::new(NotRetryable::new(inner()))), Handling::Delayed),
    ];
    let classifier = Classifier::default();
    for (failure, expected) in cases {
        let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &failure };
        assert_eq!(classifier.classify(&seen).handling, Some(expected));
    }
}

#[test]
fn a_rule_sees_the_message_and_its_history() {
    let policy = policy(
        r#"{ "retry": "1s", "rules": [
            { "name": "old schema", "when": { "schema": "1.*", "producer": "checkout*" }, "class": "PERMANENT_TECHNICAL", "reason": "UNSUPPORTED_SCHEMA_VERSION" },
            { "name": "tenant", "when": { "header": { "tenant": "acme" }, "attempts": 3 }, "class": "POISON" },
            { "name": "text", "when": { "message": "(?i)quota", "type": ["A", "B"] }, "class": "TRANSIENT", "reason": "RATE_LIMITED" } ] }"#,
    );
    let mut headers = redrive_core::Headers::default();
    headers.set("tenant", "acme");
    let old = Subject {
        schema: Some("1.4"),
        producer: Some("checkout-api"),
        headers: Some(&headers),
        ..Subject::default()
    };
    let new = Subject { schema: Some("2.0"), message_type: Some("B"), ..old };
    let failure = Failure::from_message("Quota exceeded");
    let name = |subject: &Subject<'_>, attempts| {
        let history = History { attempts, ..History::first() };
        let found = policy.classifier().classify(&Seen { subject, history: &history, failure: &failure });
        format!("{} {} {}", found.by, found.class, found.reason)
    };
    assert_eq!(name(&old, 1), "rule `old schema` PERMANENT_TECHNICAL UNSUPPORTED_SCHEMA_VERSION");
    assert_eq!(name(&new, 1), "rule `text` TRANSIENT RATE_LIMITED");
    assert_eq!(name(&new, 3), "rule `tenant` POISON POISON");
    assert_eq!(name(&Subject::default(), 9), "no rule matches UNKNOWN UNKNOWN_FAILURE");
}
