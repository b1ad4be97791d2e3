use std::collections::BTreeMap;

use super::*;
use crate::KafkaBroker;
use crate::aliases::tests::{flow, told};

/// What a person might set, and what would lose messages or settle what is not settled if it held.
const HOSTILE: [(&str, &str); 18] = [
    ("bootstrap.servers", "elsewhere:9092"),
    ("group.id", "somebody-elses"),
    ("client.id", "mine"),
    ("isolation.level", "read_uncommitted"),
    ("enable.auto.commit", "true"),
    ("enable.auto.offset.store", "true"),
    ("enable.partition.eof", "true"),
    ("acks", "0"),
    ("enable.idempotence", "false"),
    ("transactional.id", "somebody-elses"),
    ("transaction.timeout.ms", "900000"),
    ("message.timeout.ms", "300000"),
    ("retry.backoff.ms", "60000"),
    ("auto.offset.reset", "latest"),
    ("linger.ms", "9"),
    ("message.max.bytes", "2000000"),
    ("allow.auto.create.topics", "true"),
    ("broker.address.family", "any"),
];

/// What of these is told otherwise than it was given.
fn decided(config: &ClientConfig) -> BTreeMap<&'static str, String> {
    let told = |name: &str, given: &str| match told(config, name)[..] {
        [] => Some("-".to_owned()),
        [value] if value == given => None,
        [value] => Some(value.to_owned()),
        ref more => panic!("{name}: {more:?}"),
    };
    HOSTILE.iter().filter_map(|(name, given)| Some((*name, told(name, given)?))).collect()
}

fn expected(all: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
    all.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[test]
fn what_a_member_must_be_wins_over_any_option() {
    let flow = flow(&HOSTILE);
    let named = format!("mine-{}", flow.instance);
    let member = expected(&[
        ("bootstrap.servers", "k:9092"),
        ("group.id", "worker"),
        ("client.id", &named),
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "false"),
        ("linger.ms", "-"),
    ]);
    // What is left is nothing that a consumer minds, or the person's own choice.
    assert_eq!(decided(&consumer(&flow, "worker")), member);
    let mut waits = member;
    waits.extend(expected(&[("group.id", "worker-retry"), ("auto.offset.reset", "earliest")]));
    assert_eq!(decided(&consumer(&flow, "worker-retry")), waits, "what waits is read from its beginning");
}

#[test]
fn what_a_producer_must_be_wins_over_any_option() {
    let flow = flow(&HOSTILE);
    let plainly = expected(&[
        ("bootstrap.servers", "k:9092"),
        ("group.id", "-"),
        ("isolation.level", "-"),
        ("auto.offset.reset", "-"),
        ("acks", "all"),
        ("enable.idempotence", "true"),
        ("transactional.id", "-"),
        ("transaction.timeout.ms", "-"),
        ("message.timeout.ms", "10000"),
        ("retry.backoff.ms", "2"),
    ]);
    assert_eq!(decided(&producer(&flow, None)), plainly);
    assert_eq!(decided(&shelf_producer(&flow)), plainly);
    let mut in_transactions = plainly;
    in_transactions
        .extend(expected(&[("transactional.id", "worker-1"), ("transaction.timeout.ms", "10000")]));
    assert_eq!(decided(&producer(&flow, Some("worker-1"))), in_transactions);
}

/// The client library takes them, and they are in force there.
#[test]
fn the_client_is_what_it_was_told_to_be() {
    let flow = flow(&HOSTILE);
    let native = consumer(&flow, "worker").create_native_config().unwrap();
    assert_eq!(native.get("isolation.level").unwrap(), "read_committed");
    assert_eq!(native.get("enable.auto.commit").unwrap(), "false");
    let native = producer(&flow, Some("worker-1")).create_native_config().unwrap();
    assert_eq!(native.get("enable.idempotence").unwrap(), "true");
    assert_eq!(native.get("transaction.timeout.ms").unwrap(), "10000");
    assert_eq!(native.get("acks").unwrap(), "-1");
}

#[test]
fn what_cannot_be_is_refused_by_name_and_without_its_value() {
    let refused = |name: &str, value: &str| {
        let refused = KafkaBroker::new(flow(&[(name, value)])).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{name}`")) && !refused.contains(value), "{refused}");
    };
    refused("isolation.levels", "hunter2");
    refused("security.protocol", "hunter2");
    refused("broker.address.family", "hunter2");
}
