//! The original stays until its copy is there.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::options::ExchangeDeleteOptions;
use redrive_engine::port::{Broker as _, Delivery, Outcome, PortError, Refusal, Settlement};
use redrive_rabbitmq::{DeadLetterFormat, RabbitBroker};

use crate::stage::{Stage, eventually, later, named, publish, receive, settle, settlement, subscription};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_waits_comes_again_and_is_a_dead_letter_in_the_end() {
    let Some(stage) = Stage::shared("whole") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let first = receive(&mut source, 1).await.remove(0);
    assert_eq!((first.trail.attempt, &*first.message.id), (0, "a"));
    let settled = settle(&broker, &first, later(Duration::from_millis(150))).await.unwrap();
    let queue = settled.copy.expect("a place").name;
    assert!(queue.starts_with(&format!("{}.retry.l", stage.name)), "{queue}");
    let second = receive(&mut source, 1).await.remove(0);
    assert_eq!(second.trail.attempt, 1);
    assert_eq!(second.trail.process_after, Some(second.ready_at));
    assert!(second.trail.entry_id.is_some(), "it is this flow's own copy");
    settle(&broker, &second, Outcome::DeadLetter).await.unwrap();
    assert!(settle(&broker, &second, Outcome::Ack).await.is_err(), "it was settled");
    stage.holds(&format!("{}.dlq", stage.name), 1).await;
    drop((source, broker));
    stage.holds(&stage.name, 0).await;
    let dead = stage.get(&format!("{}.dlq", stage.name)).await.expect("a dead letter");
    assert_eq!(dead.data, b"body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_no_queue_takes_keeps_its_original_and_the_queue_is_made_again() {
    let Some(stage) = Stage::shared("returned") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let dead = format!("{}.dlq", stage.name);
    stage.delete(&dead).await;
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let refused = settle(&broker, &delivery, Outcome::DeadLetter).await;
    assert!(matches!(&refused, Err(PortError::Unavailable(why)) if why.contains(&dead)), "{refused:?}");
    let alarms = broker.alarms();
    assert_eq!(alarms.iter().map(|alarm| alarm.name).collect::<Vec<_>>(), ["queue_missing"]);
    assert!(alarms[0].why.contains(&dead), "{}", alarms[0].why);
    settle(&broker, &delivery, Outcome::DeadLetter).await.unwrap();
    assert!(broker.alarms().is_empty());
    stage.holds(&dead, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_copy_finds_missing_is_made_again() {
    let Some(stage) = Stage::shared("mended") else { return };
    let mut flow = stage.flow();
    flow.steps = vec![Duration::from_millis(150)];
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let taken = async |delivery: &Delivery, outcome: fn() -> Outcome| {
        assert!(settle(&broker, delivery, outcome()).await.is_err(), "what it needs is not there");
        eventually("a copy", async || settle(&broker, delivery, outcome()).await.ok()).await;
    };
    let first = receive(&mut source, 1).await.remove(0);
    stage.delete(&format!("{}.retry.150ms", stage.name)).await;
    taken(&first, || later(Duration::from_millis(150))).await;
    let second = receive(&mut source, 1).await.remove(0);
    // An exchange that is not there ends the channel.
    let exchange = format!("{}.retry.levels", stage.name);
    let channel = stage.channel().await;
    channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
    taken(&second, || later(Duration::from_millis(400))).await;
    let third = receive(&mut source, 1).await.remove(0);
    assert_eq!(third.trail.attempt, 2);
    let parking = format!("{}.parking", stage.name);
    stage.delete(&parking).await;
    taken(&third, || Outcome::Park).await;
    stage.holds(&parking, 1).await;
    assert!(broker.alarms().is_empty(), "{:?}", broker.alarms());
    stage.delete(&format!("{}.retry.150ms", stage.name)).await;
}

/// A flow that is to make nothing names what is missing until somebody has made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_named_where_nothing_is_to_be_made() {
    let Some(stage) = Stage::shared("left") else { return };
    let made = stage.broker(stage.flow()).await;
    let mut flow = stage.flow();
    flow.makes = false;
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let dead = format!("{}.dlq", stage.name);
    stage.delete(&dead).await;
    settle(&broker, &delivery, Outcome::DeadLetter).await.unwrap_err();
    assert_eq!(stage.ready(&dead).await, None, "it makes nothing");
    let alarms = broker.alarms();
    assert!(alarms.iter().all(|alarm| alarm.name == "queue_missing"), "{alarms:?}");
    assert!(alarms.iter().any(|alarm| alarm.why.contains("makes nothing by itself")), "{alarms:?}");
    let plan = made.plan(&subscription(&flow)).await.unwrap();
    made.apply(&plan).await.unwrap();
    settle(&broker, &delivery, Outcome::DeadLetter).await.unwrap();
    eventually("no alarm", async || {
        stage.publish("body", named("b")).await;
        let another = receive(&mut source, 1).await.remove(0);
        settle(&broker, &another, Outcome::DeadLetter).await.unwrap();
        broker.alarms().is_empty().then_some(())
    })
    .await;
}

/// A message that the broker takes for too large ends the channel, and with it all that was under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_copy_that_is_too_large_keeps_no_other_back() {
    const LARGEST: usize = 100_000;
    let settings = format!("[{{rabbit,[{{max_message_size,{LARGEST}}}]}}].");
    let Some(stage) = Stage::own_with("too-large", &settings) else { return };
    let mut flow = stage.flow();
    // What is around the body makes it larger by a third.
    flow.dead_letter.format = DeadLetterFormat::Envelope;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let (large, channel) = ("x".repeat(LARGEST - 1_000), stage.channel().await);
    let refused = [4, 7];
    for number in 0..11 {
        let body = if refused.contains(&number) { &large } else { "body" };
        publish(&channel, &stage.name, body, named(&number.to_string())).await;
    }
    let all = receive(&mut source, 11).await;
    let batch: Vec<Settlement> =
        all.iter().map(|delivery| settlement(delivery, Outcome::DeadLetter)).collect();
    let answers = broker.settle(&batch).await;
    let dead = format!("{}.dlq", stage.name);
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert!(!refused.contains(&number), "{number}"),
            Err(PortError::Unavailable(why)) => {
                assert!(refused.contains(&number) && why.contains(&dead), "{number}: {why}");
            }
            Err(other) => panic!("{number}: {other}"),
        }
    }
    // What was sent in front of the first of them may be there twice, and what was sent behind the last one once.
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(letter) = stage.get(&dead).await {
        let id = letter.properties.message_id().as_ref().unwrap().to_string();
        *found.entry(id).or_default() += 1;
    }
    assert_eq!(found.len(), 9, "{found:?}");
    assert!(
        found.values().all(|count| *count <= 2) && ["8", "9", "10"].iter().all(|id| found[*id] == 1),
        "{found:?}"
    );
    let alarms = broker.alarms();
    assert_eq!((alarms.len(), alarms[0].name), (1, "copy_refused"), "{alarms:?}");
    assert!(alarms[0].why.contains(&dead), "{}", alarms[0].why);
    for number in refused {
        settle(&broker, &all[number], Outcome::Ack).await.expect("its channel was not lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_batch_exactly_those_without_a_queue_stay() {
    let Some(stage) = Stage::shared("mixed") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.delete(&format!("{}.dlq", stage.name)).await;
    let channel = stage.channel().await;
    for number in 0..60 {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let read = receive(&mut source, 60).await;
    let outcome = |place: usize| if place.is_multiple_of(3) { Outcome::DeadLetter } else { Outcome::Park };
    let batch: Vec<Settlement> =
        read.iter().enumerate().map(|(place, delivery)| settlement(delivery, outcome(place))).collect();
    let answers = broker.settle(&batch).await;
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), place.is_multiple_of(3), "{place}: {answer:?}");
    }
    stage.holds(&format!("{}.parking", stage.name), 40).await;
    drop((source, broker));
    stage.holds(&stage.name, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_of_dead_letters_refuses_the_next() {
    let Some(stage) = Stage::shared("full") else { return };
    let mut flow = stage.flow();
    flow.dead_letter.options.insert("x-max-length".to_owned(), "1".to_owned());
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let channel = stage.channel().await;
    // The limit is exceeded a little before it holds.
    for number in 0..20 {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let mut refused = 0;
    for delivery in receive(&mut source, 20).await {
        match settle(&broker, &delivery, Outcome::DeadLetter).await {
            Ok(_) => {}
            Err(PortError::Unavailable(why)) => {
                assert!(why.contains("full"), "{why}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    assert_eq!(broker.alarms().iter().map(|alarm| alarm.name).collect::<Vec<_>>(), ["copy_refused"]);
    drop((source, broker));
    let kept = 20 - refused;
    stage.holds(&format!("{}.dlq", stage.name), kept).await;
    stage.holds(&stage.name, refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_back_comes_again_in_its_order() {
    let Some(stage) = Stage::shared("order") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let channel = stage.channel().await;
    for number in 0..10 {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let read = receive(&mut source, 6).await;
    for place in [4, 1, 3] {
        settle(&broker, &read[place], Outcome::Return).await.unwrap();
    }
    settle(&broker, &read[0], Outcome::Ack).await.unwrap();
    let ids = |read: &[redrive_engine::port::Delivery]| {
        read.iter().map(|delivery| delivery.message.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&receive(&mut source, 3).await), ["1", "3", "4"]);
    source.close().await;
    drop((source, broker));
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    assert_eq!(ids(&receive(&mut source, 9).await), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_there_refuses_for_good() {
    let Some(stage) = Stage::shared("target") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let target = format!("{}-nowhere", stage.name);
    let refused = settle(&broker, &delivery, Outcome::Reroute { target: target.clone() }).await;
    assert_eq!(refused, Err(Refusal::NotFound { what: "queue", name: target }.into()));
    let other = "amqp://other:5672/%2f?queue=x".to_owned();
    let refused = settle(&broker, &delivery, Outcome::Reroute { target: other }).await;
    assert!(matches!(refused, Err(PortError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    assert!(broker.alarms().is_empty());
    settle(&broker, &delivery, Outcome::Ack).await.unwrap();
}
