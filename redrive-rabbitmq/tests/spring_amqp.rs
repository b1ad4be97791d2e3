//! Dead letters exchanged with a real Spring AMQP.

#[path = "rabbit/stage.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod stage;

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ExchangeDeleteOptions};
use lapin::types::AMQPValue;
use redrive_core::PolicySpec;
use redrive_engine::port::{
    Actor, Broker, Clock as _, Deed, Entry, EntryState, Filter, Ledger, Page, Selection, SystemClock,
};
use redrive_engine::{Apart, ApartOptions, Flow, FlowSpec, NoLedger};
use redrive_rabbitmq::{RabbitBroker, RabbitFlow};
use redrive_sqlite::{Options, Store};
use serde_json::json;
use stage::{Stage, eventually, table};
use testkit::handler::{Scripted, Step};
use testkit::spring_amqp::SpringMessage;
use testkit::{Services, SpringAmqp};

/// Bytes that are no text in any encoding.
const BODY: &[u8] = b"\x00\xff\xfe{order}\xc3\x28";

fn spec(rabbit: &RabbitFlow, handler: &Arc<Scripted>) -> FlowSpec {
    let mut spec = FlowSpec::new(&rabbit.flow, &rabbit.queue, Arc::clone(handler) as _);
    let policy: PolicySpec = serde_json::from_value(json!({ "budgets": { "attempts": 1 } })).unwrap();
    spec.policy = Arc::new(policy.build().unwrap());
    spec.breaker = None;
    spec
}

/// Publishes a message with headers of several types.
async fn publish(stage: &Stage, exchange: &str, key: &str, id: &str) {
    let headers = table(vec![
        ("type", AMQPValue::LongString("OrderPlaced".into())),
        ("lines", AMQPValue::LongInt(3)),
        ("express", AMQPValue::Boolean(true)),
    ]);
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_message_id(id.into())
        .with_content_type("application/x-order".into());
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let channel = stage.channel().await;
    let sent = channel.basic_publish(exchange.into(), key.into(), options, BODY, properties);
    let confirmed = sent.await.unwrap().await.unwrap();
    assert!(confirmed.is_ack() && confirmed.take_message().is_none(), "it found no queue");
}

/// The next message that Spring's listener was given.
async fn next(spring: SpringAmqp) -> (SpringAmqp, SpringMessage) {
    tokio::task::spawn_blocking(move || {
        let message = spring.message();
        (spring, message)
    })
    .await
    .unwrap()
}

async fn begin(
    stage: &Stage,
    queue: &str,
    begin: fn(&Services, &str, &str) -> Option<SpringAmqp>,
) -> Option<SpringAmqp> {
    let (address, queue) = (stage.server.address().to_owned(), queue.to_owned());
    tokio::task::spawn_blocking(move || begin(&Services::connect(), &address, &queue)).await.unwrap()
}

/// The listener of a Spring application gets the bytes as they were published, and reads in text why they are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_spring_listener_reads_our_dead_letters() {
    let Some(stage) = Stage::shared("to-spring") else { return };
    let rabbit = stage.flow();
    let dead = rabbit.dead_letter.queue.clone();
    let broker = stage.broker(rabbit.clone()).await;
    let Some(spring) = begin(&stage, &dead, SpringAmqp::reading).await else { return };
    let handler = Scripted::new();
    handler.otherwise(Step::status(503));
    let (spec, clock) = (spec(&rabbit, &handler), Arc::new(SystemClock::default()));
    let flow = Flow::start(spec, broker, Arc::new(NoLedger), clock).await.unwrap();
    publish(&stage, "", &stage.name, "order-1").await;
    let (spring, letter) = next(spring).await;
    assert_eq!((letter.queue.as_str(), letter.body.as_slice()), (dead.as_str(), BODY));
    assert_eq!(letter.message_id.as_deref(), Some("order-1"));
    assert_eq!(letter.content_type.as_deref(), Some("application/x-order"));
    // Its own headers are kept as they were.
    for (name, class, text) in [
        ("type", "java.lang.String", "OrderPlaced"),
        ("lines", "java.lang.Integer", "3"),
        ("express", "java.lang.Boolean", "true"),
    ] {
        let header = letter.headers.iter().find(|header| header.name == name).expect(name);
        assert_eq!((header.class.as_deref(), header.text.as_deref()), (Some(class), Some(text)), "{name}");
    }
    for (name, text) in [
        ("x-original-topic", stage.name.as_str()),
        ("x-retry-attempt", "1"),
        ("x-failure-class", "TRANSIENT"),
        ("x-failure-reason", "DOWNSTREAM_UNAVAILABLE"),
        ("x-api-status-code", "503"),
        ("x-last-error-message", "the handler answered 503"),
    ] {
        assert_eq!(letter.header(name), Some(text), "{name}: {:?}", letter.headers);
    }
    for header in letter.headers.iter().filter(|header| header.name.starts_with("x-")) {
        assert_eq!(header.class.as_deref(), Some("java.lang.String"), "{header:?}");
    }
    drop(spring);
    flow.stop().await;
}

/// The only dead letter of a flow whose reason begins so.
async fn adopted(store: &Store, flow: &str, writer: &str) -> Entry {
    let filter = Filter { flow: Some(flow.to_owned()), ..Filter::default() };
    let because = format!("another system gave it up: {writer}");
    eventually(&format!("what {writer} wrote is shown"), async || {
        let found = store.search(&filter, &Page::default()).await.unwrap();
        found.entries.into_iter().find(|entry| entry.because == because)
    })
    .await
}

/// What Spring published with its exception, and what it rejected, is shown with its error and its place, and can be sent
/// to the flow.
#[tokio::test(flavor = "multi_thread")]
async fn what_spring_gave_up_is_shown_and_replayed() {
    let Some(stage) = Stage::shared("of-spring") else { return };
    let (republished, rejected) = (format!("{}-a", stage.name), format!("{}-b", stage.name));
    let (one, other) = tokio::join!(
        begin(&stage, &republished, SpringAmqp::republishing),
        begin(&stage, &rejected, SpringAmqp::rejecting)
    );
    let (Some(mut republishing), Some(rejecting)) = (one, other) else { return };
    publish(&stage, &format!("{republished}-in"), "order.placed", "order-1").await;
    publish(&stage, &format!("{rejected}-in"), "order.placed", "order-2").await;
    for _ in 0..3 {
        let message;
        (republishing, message) = next(republishing).await;
        assert_eq!((message.body.as_slice(), message.routing_key.as_str()), (BODY, "order.placed"));
    }
    let (rejecting, message) = next(rejecting).await;
    assert_eq!(message.body, BODY);

    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("ledger.db"), Options::default()).unwrap());
    let mut rabbit = stage.flow();
    rabbit.foreign = vec![format!("{republished}-dead"), format!("{rejected}-dead")];
    rabbit.ledger = true;
    let handler = Scripted::new();
    let (spec, clock) = (spec(&rabbit, &handler), Arc::new(SystemClock::default()));
    let options = ApartOptions { adopts: true, delay_in_ledger: true, ..ApartOptions::default() };
    let (home, ledger) = (Arc::clone(&store) as Arc<dyn Broker>, Arc::clone(&store) as Arc<dyn Ledger>);
    let outer = Arc::new(RabbitBroker::new(rabbit).unwrap());
    let apart = Apart::new(outer, home, Arc::clone(&ledger), &spec.name, clock.clone(), options);
    let flow = Flow::start(spec, Arc::new(apart), ledger, clock.clone()).await.unwrap();

    let by_spring = adopted(&store, &stage.name, "spring-amqp").await;
    let header = |name: &str| by_spring.message.headers.get(name).map(String::as_str);
    assert_eq!(header("x-original-exchange"), Some(&*format!("{republished}-in")), "{by_spring:?}");
    assert_eq!(header("x-original-routingKey"), Some("order.placed"), "{by_spring:?}");
    let kind = by_spring.error.kind.as_deref();
    assert!(kind.is_some_and(|kind| kind.ends_with(".ListenerExecutionFailedException")), "{by_spring:?}");
    let kinds: Vec<&str> = by_spring.error.chain.iter().map(|link| link.kind.as_str()).collect();
    assert!(kinds.contains(&"java.lang.IllegalStateException"), "{by_spring:?}");
    assert!(kinds.contains(&"java.lang.RuntimeException"), "{by_spring:?}");
    assert!(
        by_spring.error.chain.iter().any(|link| link.message.contains("the warehouse is closed")),
        "{by_spring:?}"
    );
    let trace = by_spring.error.chain.last().unwrap();
    assert!(trace.message.contains("at redrive.Republishing.on"), "the stack trace: {by_spring:?}");

    let by_broker = adopted(&store, &stage.name, "rabbitmq").await;
    assert_eq!(by_broker.source.name, rejected, "{by_broker:?}");
    assert_eq!(by_broker.error.kind.as_deref(), Some("rejected"), "{by_broker:?}");
    assert_eq!(by_broker.error.message, format!("rejected from queue {rejected}"));
    assert_eq!(by_broker.attempts, 1, "{by_broker:?}");

    // Neither was handled here before; now they are.
    assert!(handler.calls().is_empty());
    let entries = [("order-1", &by_spring), ("order-2", &by_broker)];
    for (id, entry) in entries {
        assert_eq!((entry.state, entry.message.id.as_str()), (EntryState::Dead, id), "{entry:?}");
        assert_eq!(entry.message.headers.get("type").map(String::as_str), Some("OrderPlaced"));
    }
    for queue in [&republished, &rejected] {
        stage.holds(&format!("{queue}-dead"), 0).await;
    }
    let actor = Actor { who: "ada".to_owned(), why: "the warehouse is open".to_owned() };
    let ids = entries.map(|(_, entry)| entry.id.to_string());
    let report =
        store.act(&Deed::RetryNow, &Selection::Ids(ids.to_vec()), &actor, clock.now()).await.unwrap();
    assert_eq!(report.done, 2, "{report:?}");
    for (id, entry) in entries {
        let entry = entry.id.to_string();
        let recovered =
            async || store.entry(&entry).await.unwrap().filter(|entry| entry.state == EntryState::Recovered);
        eventually("it is recovered", recovered).await;
        let calls = handler.calls_of(id);
        assert_eq!(calls.len(), 1, "{id}");
        assert_eq!(calls[0].message.body.as_deref(), Some(BODY), "{id}");
    }
    flow.stop().await;
    drop((republishing, rejecting));
    for queue in [&republished, &rejected] {
        stage.delete(queue).await;
        stage.delete(&format!("{queue}-dead")).await;
        let exchange = format!("{queue}-in");
        let gone = stage.channel().await;
        gone.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
    }
}
