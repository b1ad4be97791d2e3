//! The real Spring Kafka, as the tests get it: it fails, retries and reads.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use redrive_core::dialect::{ForeignFailure, Writer};
use testkit::{Services, Spring};

const PATIENCE: Duration = Duration::from_mins(2);

fn topic(name: &str) -> String {
    format!("spring-{name}-{}", std::process::id())
}

/// Sends one record to a topic that is there, and waits until the broker has it.
fn produce(address: &str, topic: &str, body: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("broker.address.family", "v4")
        .set("message.timeout.ms", "120000")
        .create()
        .unwrap();
    let headers = OwnedHeaders::new().insert(Header { key: "type", value: Some("OrderPlaced") });
    let record = FutureRecord::to(topic).key("order-1").payload(body).headers(headers);
    runtime.block_on(producer.send(record, PATIENCE)).unwrap();
}

#[test]
fn dead_letters_of_a_real_listener_are_read() {
    let services = Services::connect();
    let Some(kafka) = services.kafka() else { return };
    let topic = topic("fail");
    let Some(failing) = Spring::failing(&services, kafka.address(), &topic) else { return };
    produce(kafka.address(), &topic, "{\"n\":1}");
    for _ in 0..3 {
        assert_eq!(failing.record().value.as_deref(), Some(&b"{\"n\":1}"[..]));
    }
    let Some(reading) = Spring::reading(&services, kafka.address(), &format!("{topic}-dlt")) else { return };
    let dead = reading.record();
    assert_eq!(dead.key.as_deref(), Some(&b"order-1"[..]));
    assert_eq!(dead.value.as_deref(), Some(&b"{\"n\":1}"[..]));
    assert_eq!(dead.header("type"), Some("OrderPlaced"));

    let failure = ForeignFailure::read(&dead.to_headers()).expect("Spring's headers");
    assert_eq!(failure.writer, Writer::SpringKafka);
    assert_eq!(failure.origin.name.as_deref(), Some(topic.as_str()));
    assert_eq!((failure.origin.partition, failure.origin.offset), (Some(0), Some(0)));
    assert!(failure.chain.iter().any(|link| link.kind == "java.lang.IllegalStateException"));
}

#[test]
fn retries_and_dead_letters_of_real_retry_topics_are_read() {
    let services = Services::connect();
    let Some(kafka) = services.kafka() else { return };
    let topic = topic("retry");
    let Some(retrying) = Spring::retrying(&services, kafka.address(), &topic) else { return };
    produce(kafka.address(), &topic, "{\"n\":2}");
    assert_eq!(ForeignFailure::read(&retrying.record().to_headers()), None, "the first delivery");
    for attempts in 1..=2 {
        let record = retrying.record();
        assert!(record.topic.starts_with(&format!("{topic}-retry")), "{}", record.topic);
        let failure = ForeignFailure::read(&record.to_headers()).expect("Spring's headers");
        assert_eq!((failure.writer, failure.attempts), (Writer::SpringKafkaRetry, Some(attempts)));
        assert!(failure.due_at.is_some());
        assert_eq!(failure.origin.name.as_deref(), Some(topic.as_str()));
    }
    let Some(reading) = Spring::reading(&services, kafka.address(), &format!("{topic}-dlt")) else { return };
    let failure = ForeignFailure::read(&reading.record().to_headers()).expect("Spring's headers");
    assert_eq!((failure.writer, failure.attempts), (Writer::SpringKafkaRetry, Some(3)));
    assert_eq!(failure.origin.offset, Some(0));
}
