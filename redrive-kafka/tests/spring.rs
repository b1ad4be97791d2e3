//! Dead letters exchanged with a real Spring Kafka.

#[path = "kafka/stage.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod stage;

use std::sync::Arc;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use redrive_core::PolicySpec;
use redrive_engine::port::{Actor, Broker, Clock as _, Deed, EntryState, Ledger, Selection, SystemClock};
use redrive_engine::{Apart, ApartOptions, Flow, FlowSpec, NoLedger};
use redrive_kafka::{KafkaBroker, KafkaFlow};
use redrive_sqlite::{Options, Store};
use serde_json::json;
use stage::{PATIENCE, Stage, eventually};
use testkit::Spring;
use testkit::handler::{Scripted, Step};
use testkit::spring::SpringRecord;

/// Bytes that are no text in any encoding.
const BODY: &[u8] = b"\x00\xff\xfe{order}\xc3\x28";

fn spec(kafka: &KafkaFlow, handler: &Arc<Scripted>) -> FlowSpec {
    let mut spec = FlowSpec::new(&kafka.flow, &kafka.topics[0], Arc::clone(handler) as _);
    let policy: PolicySpec = serde_json::from_value(json!({ "budgets": { "attempts": 1 } })).unwrap();
    spec.policy = Arc::new(policy.build().unwrap());
    spec.breaker = None;
    spec
}

async fn produce(stage: &Stage, topic: &str, key: &str, body: &[u8]) {
    let headers = OwnedHeaders::new().insert(Header { key: "type", value: Some("OrderPlaced") });
    let record = FutureRecord::to(topic).key(key).payload(body).headers(headers);
    stage.producer().send(record, PATIENCE).await.unwrap();
}

/// The next record that Spring's listener was given.
async fn next(spring: Spring) -> (Spring, SpringRecord) {
    tokio::task::spawn_blocking(move || {
        let record = spring.record();
        (spring, record)
    })
    .await
    .unwrap()
}

async fn begin(
    stage: &Arc<Stage>,
    topic: &str,
    begin: fn(&testkit::Services, &str, &str) -> Option<Spring>,
) -> Option<Spring> {
    let (stage, topic) = (Arc::clone(stage), topic.to_owned());
    tokio::task::spawn_blocking(move || begin(&stage.services, stage.server.address(), &topic)).await.unwrap()
}

/// The listener of a Spring application gets the bytes as they were published, and reads in text why they are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_spring_listener_reads_our_dead_letters() {
    let Some(stage) = Stage::shared("to-spring").map(Arc::new) else { return };
    let dead = format!("{}.dlq", stage.name);
    stage.topics(1).await;
    let Some(spring) = begin(&stage, &dead, Spring::reading).await else { return };
    let handler = Scripted::new();
    handler.otherwise(Step::status(503));
    let kafka = stage.flow();
    let (spec, broker) = (spec(&kafka, &handler), Arc::new(KafkaBroker::new(kafka).unwrap()));
    let flow = Flow::start(spec, broker, Arc::new(NoLedger), Arc::new(SystemClock::default())).await.unwrap();
    produce(&stage, &stage.name, "order-1", BODY).await;
    let (spring, letter) = next(spring).await;
    assert_eq!((letter.topic.as_str(), letter.partition), (dead.as_str(), 0));
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"order-1"[..]), Some(BODY)));
    assert_eq!(letter.header("type"), Some("OrderPlaced"), "its own headers are kept");
    for (name, value) in [
        ("x-original-topic", stage.name.as_str()),
        ("x-original-partition", "0"),
        ("x-original-offset", "0"),
        ("x-retry-attempt", "1"),
        ("x-failure-class", "TRANSIENT"),
        ("x-failure-reason", "DOWNSTREAM_UNAVAILABLE"),
        ("x-api-status-code", "503"),
        ("x-last-error-message", "the handler answered 503"),
    ] {
        assert_eq!(letter.header(name), Some(value), "{name}: {:?}", letter.headers);
    }
    drop(spring);
    flow.stop().await;
}

/// What Spring's error handlers wrote is shown with the exceptions that they saw, and can be sent to the flow.
#[tokio::test(flavor = "multi_thread")]
async fn what_spring_wrote_is_shown_and_replayed() {
    let Some(stage) = Stage::shared("of-spring").map(Arc::new) else { return };
    let (failed, retried) = (format!("{}-a", stage.name), format!("{}-b", stage.name));
    let Some(failing) = begin(&stage, &failed, Spring::failing).await else { return };
    produce(&stage, &failed, "order-1", BODY).await;
    let Some(mut retrying) = begin(&stage, &retried, Spring::retrying).await else { return };
    produce(&stage, &retried, "order-2", BODY).await;
    let mut retry_topic = String::new();
    for _ in 0..3 {
        let record;
        (retrying, record) = next(retrying).await;
        retry_topic = record.topic;
    }
    assert!(retry_topic.starts_with(&format!("{retried}-retry")), "{retry_topic}");

    stage.topics(1).await;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("ledger.db"), Options::default()).unwrap());
    let (letter, last) = (format!("{failed}-dlt"), format!("{retried}-dlt"));
    let mut kafka = stage.flow();
    kafka.foreign = vec![letter.clone(), retry_topic.clone(), last.clone()];
    kafka.ledger = true;
    let handler = Scripted::new();
    let (spec, clock) = (spec(&kafka, &handler), Arc::new(SystemClock::default()));
    let options = ApartOptions { adopts: true, delay_in_ledger: true, ..ApartOptions::default() };
    let (home, ledger) = (Arc::clone(&store) as Arc<dyn Broker>, Arc::clone(&store) as Arc<dyn Ledger>);
    let outer = Arc::new(KafkaBroker::new(kafka).unwrap());
    let apart = Apart::new(outer, home, Arc::clone(&ledger), &spec.name, clock.clone(), options);
    let flow = Flow::start(spec, Arc::new(apart), ledger, clock.clone()).await.unwrap();

    for (topic, offset, writer, attempts) in [
        (&letter, 0, "spring-kafka", None),
        (&retry_topic, 0, "spring-kafka-retry", Some(1)),
        (&retry_topic, 1, "spring-kafka-retry", Some(2)),
        (&last, 0, "spring-kafka-retry", Some(3)),
    ] {
        let id = format!("{topic}/0/{offset}");
        let entry = eventually("what Spring wrote is shown", async || store.entry(&id).await.unwrap()).await;
        assert_eq!(entry.state, EntryState::Dead, "{entry:?}");
        assert!(entry.because.contains(writer), "{entry:?}");
        let kinds: Vec<&str> = entry.error.chain.iter().map(|link| link.kind.as_str()).collect();
        assert!(kinds.contains(&"java.lang.IllegalStateException"), "{entry:?}");
        assert!(
            entry.error.chain.iter().any(|link| link.message.contains("the warehouse is closed")),
            "{entry:?}"
        );
        if let Some(attempts) = attempts {
            assert_eq!(entry.attempts, attempts, "{entry:?}");
        }
        assert_eq!(entry.message.headers.get("type").map(String::as_str), Some("OrderPlaced"));
        let trace = entry.error.chain.last().unwrap();
        assert!(trace.message.contains("at redrive."), "the stack trace: {entry:?}");
    }

    // Neither of the letters was handled here before; now they are.
    assert!(handler.calls().is_empty());
    let (actor, ids) = (
        Actor { who: "ada".to_owned(), why: "the warehouse is open".to_owned() },
        [&letter, &last].map(|topic| format!("{topic}/0/0")),
    );
    let report =
        store.act(&Deed::RetryNow, &Selection::Ids(ids.to_vec()), &actor, clock.now()).await.unwrap();
    assert_eq!(report.done, 2, "{report:?}");
    for id in &ids {
        let recovered =
            async || store.entry(id).await.unwrap().filter(|entry| entry.state == EntryState::Recovered);
        eventually("it is recovered", recovered).await;
        let calls = handler.calls_of(id);
        assert_eq!(calls.len(), 1, "{id}");
        assert_eq!(calls[0].message.body.as_deref(), Some(BODY), "{id}");
    }
    flow.stop().await;
    drop((failing, retrying));
}
