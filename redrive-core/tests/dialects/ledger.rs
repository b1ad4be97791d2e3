//! From another system's failure to class, reason and times.

use redrive_core::classify::{Classifier, Subject};
use redrive_core::dialect::ForeignFailure;
use redrive_core::{Class, Reason, Timestamp};

use crate::headers;

const RECORDED: Timestamp = Timestamp::from_millis(1_782_896_400_000);

fn finding(pairs: &[(&str, &str)]) -> redrive_core::dialect::Finding {
    let failure = ForeignFailure::read(&headers(pairs)).expect("a foreign failure");
    failure.finding(&Classifier::default(), &Subject::default(), RECORDED)
}

#[test]
fn an_error_that_a_rule_knows_has_the_rules_class_and_reason() {
    let found = finding(&[
        ("kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException"),
        ("kafka_dlt-exception-cause-fqcn", "java.net.SocketTimeoutException"),
        ("kafka_dlt-exception-message", "Listener failed"),
    ]);
    assert_eq!(found.classification.class, Class::Transient);
    assert_eq!(found.classification.reason, Reason::DOWNSTREAM_TIMEOUT);
    assert_eq!(found.failure.message(), "Listener failed");
    assert_eq!(found.failure.chain().len(), 2);
}

#[test]
fn a_value_that_spring_could_not_read_is_no_mystery() {
    let found = finding(&[("springDeserializerExceptionValue", "…")]);
    assert_eq!(found.classification.class, Class::PermanentTechnical);
    assert_eq!(found.classification.reason, Reason::DESERIALIZATION_FAILED);
}

#[test]
fn an_error_that_no_rule_knows_is_a_foreign_failure() {
    let found =
        finding(&[("__streams.errors.exception", "com.example.Strange"), ("__streams.errors.message", "?")]);
    assert_eq!(found.classification.class, Class::Unknown);
    assert_eq!(found.classification.reason, Reason::FOREIGN_FAILURE);
    assert_eq!((found.attempts, found.first_failed_at, found.last_failed_at), (1, RECORDED, RECORDED));
}

#[test]
fn a_place_alone_is_a_failure_with_a_message() {
    let found = finding(&[("__dlq.errors.topic", "orders"), ("__dlq.errors.delivery.count", "5")]);
    assert_eq!(found.failure.message(), "given up by kafka-share-group");
    assert_eq!(found.attempts, 5);
}

#[test]
fn no_failure_is_later_than_its_record() {
    let at = |text| {
        finding(&[("NServiceBus.FailedQ", "q"), ("NServiceBus.TimeOfFailure", text)])
            .last_failed_at
            .to_string()
    };
    assert_eq!(at("2026-07-01 08:59:00:000000 Z"), "2026-07-01T08:59:00Z");
    assert_eq!(at("2027-07-01 08:59:00:000000 Z"), RECORDED.to_string());
}
