//! RabbitMQ's deaths, given by an adapter and as JSON.

use std::path::Path;

use redrive_core::dialect::{Death, ForeignFailure, Writer};
use redrive_core::headers::MAX_ATTEMPT;
use redrive_core::{Headers, Timestamp};
use serde_json::Value;

use crate::headers;

const AT: i64 = 1_782_896_400_000;

fn death(queue: &str, reason: &str, count: u64, seconds: i64) -> Death {
    Death {
        queue: queue.to_owned(),
        reason: reason.to_owned(),
        time: Some(Timestamp::from_millis(AT + seconds * 1_000)),
        exchange: Some("shop".to_owned()),
        routing_keys: vec!["orders.new".to_owned(), "copy".to_owned()],
        count,
    }
}

#[test]
fn waits_are_no_attempts() {
    let deaths = [death("orders.wait", "expired", 2, 10), death("orders", "rejected", 3, 0)];
    let failure = ForeignFailure::read_with_deaths(&Headers::new(), &deaths).expect("deaths");
    assert_eq!(failure.writer, Writer::RabbitMq);
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!(failure.origin.exchange.as_deref(), Some("shop"));
    assert_eq!(failure.origin.routing_key.as_deref(), Some("orders.new"));
    assert_eq!(failure.attempts, Some(3));
    assert_eq!(failure.first_failed_at, Some(Timestamp::from_millis(AT)));
    assert_eq!(failure.failed_at, Some(Timestamp::from_millis(AT + 10_000)));
    assert_eq!(failure.chain[0].kind, "expired");
    assert_eq!(failure.chain[0].message, "expired from queue orders.wait");
}

#[test]
fn the_headers_of_the_first_death_count_before_the_list() {
    let headers = headers(&[
        ("x-first-death-queue", "orders"),
        ("x-first-death-reason", "delivery_limit"),
        ("x-first-death-exchange", ""),
        ("x-delivery-count", "20"),
    ]);
    let failure = ForeignFailure::read(&headers).expect("a first death");
    assert_eq!(failure.writer, Writer::RabbitMq);
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!(failure.attempts, Some(20));
    assert_eq!(failure.chain[0].message, "delivery_limit from queue orders");
    let listed = [death("elsewhere", "rejected", 1, 0)];
    let failure = ForeignFailure::read_with_deaths(&headers, &listed).expect("deaths");
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!(failure.attempts, Some(20));
}

#[test]
fn deaths_travel_as_json() {
    let deaths = vec![death("orders", "rejected", 1, 0)];
    let mut headers = Headers::new();
    headers.push("x-death", serde_json::to_vec(&deaths).unwrap());
    assert_eq!(ForeignFailure::read(&headers), ForeignFailure::read_with_deaths(&Headers::new(), &deaths));
    // One entry that is none does not hide the others; a text that is no list is no deaths.
    headers.set("x-death", r#"[7, {"queue":"orders","reason":"rejected","routing-keys":["a"]}]"#);
    let failure = ForeignFailure::read(&headers).expect("a death");
    assert_eq!(failure.attempts, Some(1));
    for text in ["", "{}", "[", "[[[[", "null", "[7]", r#"[{"queue":7}]"#] {
        headers.set("x-death", text);
        assert_eq!(ForeignFailure::read(&headers), None, "{text}");
    }
    headers.set("x-death", "[".repeat(100_000));
    assert_eq!(ForeignFailure::read(&headers), None);
}

#[test]
fn the_brokers_account_fills_what_a_library_leaves_out() {
    let headers = headers(&[
        ("x-exception-message", "closed"),
        ("x-original-exchange", "sales"),
        ("x-original-routingKey", "orders"),
    ]);
    let deaths = [death("orders", "rejected", 4, 5)];
    let failure = ForeignFailure::read_with_deaths(&headers, &deaths).expect("both");
    assert_eq!(failure.writer, Writer::SpringAmqp);
    assert_eq!(failure.origin.exchange.as_deref(), Some("sales"));
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!(failure.attempts, Some(4));
    assert_eq!(failure.failed_at, Some(Timestamp::from_millis(AT + 5_000)));
    assert_eq!(failure.chain[0].message, "closed");
}

#[test]
fn counts_do_not_overflow() {
    let deaths = vec![death("orders", "rejected", u64::MAX, 0); 3];
    let failure = ForeignFailure::read_with_deaths(&Headers::new(), &deaths).expect("deaths");
    assert_eq!(failure.attempts, Some(MAX_ATTEMPT));
}

/// The headers of a message that `cargo xtask samples` captured, as an adapter gives them.
fn captured(name: &str) -> Headers {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects/messages").join(name);
    let text = std::fs::read_to_string(path.with_extension("json")).expect(name);
    let sample: Value = serde_json::from_str(&text).expect(name);
    let mut headers = Headers::new();
    for header in sample["message"]["headers"].as_array().expect(name) {
        headers.push(header["name"].as_str().expect(name), header["text"].as_str().expect(name).to_owned());
    }
    headers
}

#[test]
fn what_a_real_recoverer_published_is_read() {
    let failure = ForeignFailure::read(&captured("spring-amqp-republished")).expect("Spring's headers");
    assert_eq!((failure.writer, failure.attempts), (Writer::SpringAmqp, None));
    assert_eq!(failure.origin.exchange.as_deref(), Some("orders-in"));
    assert_eq!(failure.origin.routing_key.as_deref(), Some("order.placed"));
    assert_eq!(failure.origin.name, None, "it does not name the queue");
    let kinds: Vec<&str> =
        failure.chain.iter().map(|link| link.kind.rsplit('.').next().unwrap_or_default()).collect();
    assert_eq!(kinds, ["ListenerExecutionFailedException", "IllegalStateException", "RuntimeException"]);
    let said: Vec<&str> = failure.chain.iter().map(|link| link.message.as_str()).collect();
    assert_eq!(said[1..], ["the warehouse is closed", "until nine o'clock"], "{said:?}");
    assert!(failure.stack_trace.is_some_and(|trace| trace.as_str().contains("at redrive.Republishing.on")));
}

#[test]
fn what_a_real_broker_took_from_a_queue_is_read() {
    let failure = ForeignFailure::read(&captured("rabbitmq-rejected")).expect("the broker's headers");
    assert_eq!((failure.writer, failure.attempts), (Writer::RabbitMq, Some(1)));
    assert_eq!(failure.origin.name.as_deref(), Some("returns"));
    assert_eq!(failure.origin.exchange.as_deref(), Some("returns-in"));
    assert_eq!(failure.origin.routing_key.as_deref(), Some("order.placed"));
    assert_eq!(failure.chain[0].message, "rejected from queue returns");
    assert!(failure.failed_at.is_some() && failure.failed_at == failure.first_failed_at);
}
