//! The settings of the three formats come out as files that can be used.

use std::fmt::Write;
use std::time::Duration;

use redrive::config::{self, Config, Severity, import::import};
use redrive::{Class, Handling, Timestamp};

fn imported(bytes: &[u8]) -> (String, Config) {
    let report = import(bytes);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    let yaml = report.value.unwrap_or_else(|| panic!("{found:#?}"));
    let check = config::check(yaml.as_bytes(), &|_| None);
    let problems: Vec<_> = check.findings.iter().map(ToString::to_string).collect();
    assert_eq!(check.count(Severity::Error), 0, "{problems:#?}\n{yaml}");
    let all = [
        vec![yaml],
        vec!["--- import says".to_owned()],
        found,
        vec!["--- config check says".to_owned()],
        problems,
    ];
    (all.concat().join("\n"), check.value.unwrap())
}

fn waits(config: &Config, policy: &str, layer: Handling) -> Vec<Duration> {
    let policy = config.policy(policy).unwrap().build().unwrap();
    let schedule = policy.schedule(layer, Class::Transient).unwrap();
    schedule.iter(Timestamp::default()).collect()
}

#[test]
fn failed_messages() {
    let (told, config) = imported(include_bytes!("files/import/failed_messages.yaml"));
    insta::assert_snapshot!(told);
    let delayed = waits(&config, "default", Handling::Delayed);
    assert_eq!(delayed.len(), 33);
    assert_eq!(waits(&config, "default", Handling::Blocking).len(), 120);
}

#[test]
fn message_policies() {
    let (told, config) = imported(include_bytes!("files/import/message_policies.yaml"));
    insta::assert_snapshot!(told);
    let seconds: Vec<_> =
        waits(&config, "SyncCustomerToCrmCommand", Handling::Delayed).iter().map(Duration::as_secs).collect();
    // The documents' computeBackoff: 2^attempt seconds, the exponent held at 6.
    let expected: Vec<_> = (1..=12).map(|attempt: u32| 1_u64 << attempt.min(6)).collect();
    assert_eq!(seconds, expected);
    let attempts = |name| config.policy(name).unwrap().build().unwrap().attempts();
    assert_eq!((attempts("CreateOrderCommand"), attempts("SyncCustomerToCrmCommand")), (Some(7), Some(13)));
}

#[test]
fn retry_settings() {
    let (told, config) = imported(include_bytes!("files/import/retry_settings.json"));
    insta::assert_snapshot!(told);
    let seconds: Vec<_> =
        waits(&config, "default", Handling::Delayed).iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [5, 10, 20]);
    assert_eq!(config.policy("default").unwrap().build().unwrap().attempts(), Some(4));
    assert_eq!(config.suffixes.and_then(|suffixes| suffixes.dead_letter).as_deref(), Some("-dlq"));
}

#[test]
fn settings_may_stand_at_the_root_and_unknown_ones_are_named() {
    let (told, _) = imported(
        b"failedMessagesRetryConfiguration: { notRetryableExceptions: { list: [A] }, more: 1 }\nallOtherExceptions: SNBE\n",
    );
    insta::assert_snapshot!(told);
}

#[test]
fn numbers_at_their_ends_make_files_that_load() {
    let (told, config) =
        imported(b"messagePolicies: { A: { localAttempts: 0, brokerAttempts: 4294967295 } }");
    assert!(told.contains("# localAttempts: 0 would leave out the first call, so it is 1."), "{told}");
    assert_eq!(config.policy("A").unwrap().budgets.unwrap().local_attempts, Some(1));
    imported(b"{ MaxRetryAttempts: 0 }");
    imported(b"{ MaxRetryAttempts: 4294967294, RetryDelayMs: 31622400000, UseExponentialBackoff: false }");
}

#[test]
fn nothing_in_a_setting_is_taken_for_a_variable_or_hides() {
    let (told, config) = imported(
        "failedMessagesRetryConfiguration: { notRetryableExceptions: { list: ['a${B}$${C}\u{202e}d'] } }"
            .as_bytes(),
    );
    assert!(!told.contains('\u{202e}'), "{told}");
    let rules = serde_json::to_string(&config.policy("default").unwrap().rules).unwrap();
    assert!(rules.contains("a${B}$${C}\u{202e}d"), "{rules}");
}

#[test]
fn what_cannot_be_imported_is_said() {
    let mut told = String::new();
    for settings in [
        "",
        "a: 1",
        "messagePolicies: {}",
        "messagePolicies: { A: { localAttempts: many, retryBackoff: sometimes, brokerAttempts: 2, parkOn: [x] } }",
        "failedMessagesRetryConfiguration: { statefulBlockingRetryableExceptions: { retryPolicy: Maybe(3) } }",
        "{ MaxRetryAttempts: three, BackoffMultiplier: 0.5 }",
        "allOtherExceptions: [",
        "{ MaxRetryAttempts: 99999999999 }",
        "{ MaxRetryAttempts: 3, RetryDelayMs: 99999999999999 }",
        "{ MaxRetryAttempts: 3, MaxRetryDelayMs: 0, UseExponentialBackoff: false }",
        "messagePolicies: { A: { localAttempts: 99999999999, brokerAttempts: -1 } }",
        "messagePolicies: { A: { brokerAttempts: 2, retryBackoff: 1s forever } }",
        "failedMessagesRetryConfiguration: { statelessRetryableExceptions: { retryPolicy: 1s forever } }",
    ] {
        let report = import(settings.as_bytes());
        assert!(report.value.is_none(), "{settings}");
        writeln!(told, "{settings}").unwrap();
        for finding in report.findings {
            writeln!(told, "  {finding}").unwrap();
        }
    }
    insta::assert_snapshot!(told);
}
