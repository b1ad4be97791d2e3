//! What lies in dead-letter queues, of the flow and of others.

use std::collections::BTreeSet;

use lapin::types::{AMQPValue, FieldArray};
use redrive_core::dialect::{ForeignFailure, Writer};
use redrive_engine::port::{Broker as _, EntryState, Outcome, Resolved, Shelved};
use redrive_rabbitmq::{Adopt, QueueKind, RabbitBroker, RabbitFlow};

use crate::stage::{Stage, named, publish, receive, settle, subscription, table};

async fn all(broker: &RabbitBroker, flow: &RabbitFlow, from: Option<&str>) -> Vec<Shelved> {
    let mut shelves = broker.shelves(&subscription(flow), from).await.unwrap();
    let mut found = Vec::new();
    loop {
        let some = shelves.next(2).await.unwrap();
        if some.is_empty() {
            return found;
        }
        found.extend(some);
    }
}

async fn fails(stage: &Stage, broker: &RabbitBroker, flow: &RabbitFlow) {
    let mut source = broker.subscribe(&subscription(flow)).await.unwrap();
    let channel = stage.channel().await;
    for id in ["d1", "d2", "d3", "p1"] {
        publish(&channel, &stage.name, id, named(id)).await;
    }
    for delivery in receive(&mut source, 4).await {
        let outcome = if delivery.message.id.starts_with('d') { Outcome::DeadLetter } else { Outcome::Park };
        settle(broker, &delivery, outcome).await.unwrap();
    }
}

fn states(found: &[Shelved]) -> Vec<(String, EntryState)> {
    let mut states: Vec<_> =
        found.iter().map(|one| (one.delivery.message.id.to_string(), one.state)).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    states
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_finds_all_dead_letters_and_leaves_them_where_they_are() {
    let Some(stage) = Stage::shared("rotate") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    fails(&stage, &broker, &flow).await;
    let expected: Vec<(String, EntryState)> = [
        ("d1", EntryState::Dead),
        ("d2", EntryState::Dead),
        ("d3", EntryState::Dead),
        ("p1", EntryState::Parked),
    ]
    .map(|(id, state)| (id.to_owned(), state))
    .to_vec();
    let mut entries = Vec::new();
    for _ in 0..2 {
        let found = all(&broker, &flow, None).await;
        assert_eq!(states(&found), expected);
        assert!(found.iter().all(|one| !one.foreign && !one.bodiless && one.delivery.trail.attempt == 1));
        let mut ids: Vec<_> = found.iter().map(|one| one.delivery.trail.entry_id.clone().unwrap()).collect();
        ids.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        entries.push(ids);
    }
    assert_eq!(entries[0], entries[1]);
    stage.holds(&format!("{}.dlq", stage.name), 3).await;
    stage.holds(&format!("{}.parking", stage.name), 1).await;
    let position = broker.shelves(&subscription(&flow), None).await.unwrap().position();
    assert!(all(&broker, &flow, Some(&position)).await.is_empty(), "they are not read at every start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_takes_over_is_released_when_it_has_it() {
    let Some(stage) = Stage::shared("adopt") else { return };
    let mut flow = stage.flow();
    flow.adopt = Adopt::IntoLedger;
    let broker = stage.broker(flow.clone()).await;
    fails(&stage, &broker, &flow).await;
    let dead = format!("{}.dlq", stage.name);
    let mut shelves = broker.shelves(&subscription(&flow), Some("seen")).await.unwrap();
    assert_eq!(shelves.next(3).await.unwrap().len(), 3);
    // The ledger died before it had them.
    drop(shelves);
    stage.holds(&dead, 3).await;
    assert_eq!(all(&broker, &flow, Some("seen")).await.len(), 4);
    stage.holds(&dead, 0).await;
    stage.holds(&format!("{}.parking", stage.name), 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_another_system_are_read_with_their_deaths() {
    let Some(stage) = Stage::shared("foreign") else { return };
    let theirs = format!("{}-theirs", stage.name);
    stage.queue(&theirs, Vec::new()).await;
    let mut flow = stage.flow();
    flow.foreign = vec![theirs.clone()];
    let broker = stage.broker(flow.clone()).await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let death = table(vec![
        ("count", AMQPValue::LongLongInt(3)),
        ("reason", text("rejected")),
        ("queue", text("billing")),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("exchange", text("events")),
    ]);
    let deaths: FieldArray = vec![AMQPValue::FieldTable(death)].into();
    let headers = table(vec![
        ("x-death", AMQPValue::FieldArray(deaths)),
        ("x-first-death-queue", text("billing")),
        ("x-first-death-reason", text("rejected")),
    ]);
    let properties = lapin::BasicProperties::default().with_headers(headers);
    let channel = stage.channel().await;
    publish(&channel, &theirs, "bill", properties).await;
    let mut first = broker.shelves(&subscription(&flow), Some("seen")).await.unwrap();
    let seen = first.next(10).await.unwrap().remove(0);
    let position = first.position();
    drop(first);
    stage.holds(&theirs, 1).await;
    let found = all(&broker, &flow, Some(&position)).await.remove(0);
    assert!(found.foreign);
    assert_eq!(found.delivery.trail.entry_id, seen.delivery.trail.entry_id, "it is the same at every look");
    assert!(!found.delivery.message.id.is_empty());
    let failure = ForeignFailure::read(&found.delivery.message.headers).expect("a failure");
    assert_eq!((failure.writer, failure.attempts), (Writer::RabbitMq, Some(3)));
    assert_eq!(failure.origin.name.as_deref(), Some("billing"));
    stage.holds(&theirs, 0).await;
    stage.delete(&theirs).await;
}

/// As they stand on the wire: numbers are numbers, and times may be AMQP's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_frameworks_are_read_with_their_typed_headers() {
    let Some(stage) = Stage::shared("typed") else { return };
    let mut flow = stage.flow();
    flow.adopt = Adopt::IntoLedger;
    let theirs = format!("{}-error", stage.name);
    stage.queue(&theirs, Vec::new()).await;
    flow.foreign = vec![theirs.clone()];
    let broker = stage.broker(flow.clone()).await;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let written = [
        table(vec![
            ("NServiceBus.FailedQ", text("Sales@HOST1")),
            ("NServiceBus.TimeOfFailure", text("2026-07-01 09:00:00:123456 Z")),
            ("NServiceBus.ExceptionInfo.ExceptionType", text("System.TimeoutException")),
            ("NServiceBus.ExceptionInfo.Message", text("boom")),
            (
                "NServiceBus.ExceptionInfo.StackTrace",
                text("System.TimeoutException: boom\r\n   at Sales.Handle()"),
            ),
            ("NServiceBus.EnclosedMessageTypes", text("Shop.OrderPlaced, Shop, Version=1.0.0.0")),
        ]),
        table(vec![
            ("MT-Reason", text("fault")),
            ("MT-Fault-ExceptionType", text("System.InvalidOperationException")),
            ("MT-Fault-InputAddress", text("rabbitmq://localhost/shop/submit-order?durable=true")),
            ("MT-Fault-Message", text("not now")),
            ("MT-Fault-Timestamp", text("2026-07-01T09:00:00.1230000Z")),
            ("MT-Fault-RetryCount", AMQPValue::LongInt(3)),
            ("MT-Redelivery-Count", AMQPValue::LongLongInt(2)),
        ]),
        table(vec![
            ("exception-type", text("System.DivideByZeroException")),
            ("exception-message", text("Attempted to divide by zero.")),
            ("failed-at", AMQPValue::LongLongInt(1_782_896_400_123)),
            ("original-destination", text("rabbitmq://queue/orders")),
            ("attempts", AMQPValue::ShortInt(3)),
        ]),
    ];
    let channel = stage.channel().await;
    for (number, headers) in written.into_iter().enumerate() {
        publish(&channel, &theirs, "bill", named(&number.to_string()).with_headers(headers)).await;
    }
    let found = all(&broker, &flow, Some("seen")).await;
    let failures: Vec<ForeignFailure> = found
        .iter()
        .map(|one| ForeignFailure::read(&one.delivery.message.headers).expect("a failure"))
        .collect();
    let read: Vec<_> = failures
        .iter()
        .map(|failure| {
            let kind = failure.chain.first().map(|link| link.kind.as_str());
            (failure.writer, failure.origin.name.as_deref(), failure.attempts, kind)
        })
        .collect();
    let expected = [
        (Writer::NServiceBus, Some("Sales@HOST1"), None, Some("System.TimeoutException")),
        (Writer::MassTransit, Some("submit-order"), Some(6), Some("System.InvalidOperationException")),
        (Writer::Wolverine, Some("orders"), Some(3), Some("System.DivideByZeroException")),
    ];
    assert_eq!(read, expected);
    assert!(failures.iter().all(|failure| failure.failed_at == failures[0].failed_at), "{failures:?}");
    stage.holds(&theirs, 0).await;
    stage.delete(&theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_others_that_are_equal_and_have_no_id_are_one_entry_each() {
    let Some(stage) = Stage::shared("equal") else { return };
    let mut flow = stage.flow();
    flow.adopt = Adopt::IntoLedger;
    let theirs = format!("{}-theirs", stage.name);
    stage.queue(&theirs, Vec::new()).await;
    flow.foreign = vec![theirs.clone()];
    let broker = stage.broker(flow.clone()).await;
    let channel = stage.channel().await;
    let publish_one = async || publish(&channel, &theirs, "equal", lapin::BasicProperties::default()).await;
    let entries = |found: &[Shelved]| {
        let ids = found.iter().map(|one| one.delivery.trail.entry_id.clone().unwrap());
        ids.map(|id| id.to_string()).collect::<BTreeSet<_>>()
    };
    publish_one().await;
    publish_one().await;
    let mut first = broker.shelves(&subscription(&flow), None).await.unwrap();
    let seen = entries(&first.next(10).await.unwrap());
    assert_eq!(seen.len(), 2);
    // The ledger has them, and whoever told it dies before they are released.
    let position = first.position();
    drop(first);
    stage.holds(&theirs, 2).await;
    publish_one().await;
    let mut second = broker.shelves(&subscription(&flow), Some(&position)).await.unwrap();
    let again = entries(&second.next(10).await.unwrap());
    assert_eq!(again.len(), 3);
    assert!(again.is_superset(&seen), "they are the same as before: {again:?} {seen:?}");
    assert!(second.next(10).await.unwrap().is_empty());
    // One that comes when the others are released is another.
    publish_one().await;
    let later = entries(&all(&broker, &flow, Some(&second.position())).await);
    assert_eq!(later.len(), 1);
    assert!(later.is_disjoint(&again), "{later:?} {again:?}");
    stage.holds(&theirs, 0).await;
    stage.delete(&theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_fails_elsewhere_for_another_reason_is_another_entry() {
    let Some(stage) = Stage::shared("again") else { return };
    let mut flow = stage.flow();
    let theirs = format!("{}-theirs", stage.name);
    let quorum = vec![("x-queue-type", AMQPValue::LongString("quorum".into()))];
    stage.queue(&theirs, quorum).await;
    flow.foreign = vec![theirs.clone()];
    let broker = stage.broker(flow.clone()).await;
    let channel = stage.channel().await;
    let fails = async |why: &str| {
        let headers = table(vec![
            ("x-exception-message", AMQPValue::LongString(why.into())),
            ("x-original-exchange", AMQPValue::LongString("events".into())),
        ]);
        publish(&channel, &theirs, "bill", named("bill-1").with_headers(headers)).await;
    };
    let entry = |found: &[Shelved]| found[0].delivery.trail.entry_id.clone().unwrap();
    fails("no money").await;
    let mut first = broker.shelves(&subscription(&flow), Some("seen")).await.unwrap();
    let seen = entry(&first.next(10).await.unwrap());
    // The ledger died before it had it. The broker counts what it delivers once more.
    drop(first);
    stage.holds(&theirs, 1).await;
    assert_eq!(entry(&all(&broker, &flow, Some("seen")).await), seen);
    fails("no account").await;
    assert_ne!(entry(&all(&broker, &flow, Some("seen")).await), seen);
    stage.holds(&theirs, 0).await;
    stage.delete(&theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_cannot_be_written_again_stays_in_its_place() {
    let Some(stage) = Stage::shared("in-place") else { return };
    let mut flow = stage.flow();
    // One that counts deliveries would add that to the headers.
    flow.kind = QueueKind::Classic;
    let broker = stage.broker(flow.clone()).await;
    let dead = format!("{}.dlq", stage.name);
    let channel = stage.channel().await;
    // A dead letter carries its expiration as a header, for which there is no room.
    let large = table(vec![("z", AMQPValue::LongString("x".repeat(131_010).into()))]);
    let large = named("b").with_headers(large).with_expiration("60000000".into());
    publish(&channel, &dead, "small", named("a")).await;
    publish(&channel, &dead, "large", large).await;
    publish(&channel, &dead, "small", named("c")).await;
    for _ in 0..2 {
        let found = all(&broker, &flow, None).await;
        assert_eq!(found.len(), 3);
        stage.holds(&dead, 3).await;
    }
    assert_eq!(stage.get(&dead).await.unwrap().data, b"large", "the others went to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_word_on_what_was_resolved_is_kept() {
    let Some(stage) = Stage::shared("resolved") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let ids: Vec<uuid::Uuid> = (0..3).map(|_| uuid::Uuid::now_v7()).collect();
    let keep = async |entry, state| broker.keep_resolved(&[Resolved { entry, state }]).await.unwrap();
    keep(ids[0], EntryState::Discarded).await;
    keep(ids[1], EntryState::Discarded).await;
    keep(ids[2], EntryState::Recovered).await;
    keep(ids[1], EntryState::Dead).await;
    for _ in 0..3 {
        let mut found = broker.resolved(&subscription(&flow)).await.unwrap();
        found.sort_by_key(|one| one.entry);
        let found: Vec<_> = found.into_iter().map(|one| (one.entry, one.state)).collect();
        assert_eq!(found, [(ids[0], EntryState::Discarded), (ids[2], EntryState::Recovered)]);
    }
    stage.holds(&format!("{}.resolved", stage.name), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_that_is_not_known_does_not_cost_the_others() {
    let Some(stage) = Stage::shared("unknown") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let ids: Vec<uuid::Uuid> = (0..2).map(|_| uuid::Uuid::now_v7()).collect();
    let words = serde_json::json!([
        { "entry": ids[0], "state": "vanished", "at": 1 },
        { "entry": ids[1], "state": EntryState::Discarded, "at": 1 },
    ]);
    let queue = format!("{}.resolved", stage.name);
    publish(&stage.channel().await, &queue, &words.to_string(), named("a")).await;
    for _ in 0..2 {
        let found = broker.resolved(&subscription(&flow)).await.unwrap();
        assert_eq!(found, [Resolved { entry: ids[1], state: EntryState::Discarded }]);
    }
    // Whoever knows it finds it.
    stage.holds(&queue, 2).await;
    let kept = [stage.get(&queue).await.unwrap().data, stage.get(&queue).await.unwrap().data].concat();
    assert!(String::from_utf8(kept).unwrap().contains("vanished"));

    let strange = named("b").with_content_type("application/cbor".into());
    publish(&stage.channel().await, &queue, "no words at all", strange).await;
    for _ in 0..2 {
        assert_eq!(broker.resolved(&subscription(&flow)).await.unwrap(), []);
        stage.holds(&queue, 1).await;
    }
    let kept = stage.get(&queue).await.unwrap();
    assert_eq!(
        (&*kept.data, kept.properties.content_type().as_ref().unwrap().as_str()),
        (&b"no words at all"[..], "application/cbor")
    );
}

/// Nothing can be written to the end of a queue that is full, and one that is full is looked at as others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_in_a_queue_that_is_full_are_found_and_stay() {
    let Some(stage) = Stage::shared("brimful") else { return };
    let mut flow = stage.flow();
    flow.dead_letter.options.insert("x-max-length".to_owned(), "3".to_owned());
    let broker = stage.broker(flow.clone()).await;
    let dead = format!("{}.dlq", stage.name);
    let channel = stage.channel().await;
    for id in ["a", "b", "c"] {
        publish(&channel, &dead, "body", named(id)).await;
    }
    for _ in 0..2 {
        let found = all(&broker, &flow, None).await;
        let ids: BTreeSet<String> = found.iter().map(|one| one.delivery.message.id.to_string()).collect();
        assert_eq!(ids, ["a", "b", "c"].map(str::to_owned).into());
        stage.holds(&dead, 3).await;
    }
}
