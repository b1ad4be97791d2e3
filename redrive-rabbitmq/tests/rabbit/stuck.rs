//! Copies that the broker keeps back, since where they were to go was deleted while they waited.

use std::sync::Arc;
use std::time::Duration;

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions};
use lapin::types::FieldTable;
use redrive_core::Timestamp;
use redrive_engine::port::{Broker as _, Outcome, Overdue, Settled, Source, Whereabouts};
use redrive_rabbitmq::{RabbitBroker, RabbitFlow};

use crate::counting::Counted;
use crate::stage::{Stage, eventually, later, named, receive, settle, subscription};

/// How long the broker lets pass before it tries again to give a message away.
const TIMER: &str = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 2000}]}].";

async fn delete_exchange(stage: &Stage, exchange: &str) {
    let options = ExchangeDeleteOptions::default();
    stage.channel().await.exchange_delete(exchange.into(), options).await.unwrap();
}

async fn is_exchange(stage: &Stage, exchange: &str) -> bool {
    let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    let channel = stage.channel().await;
    channel
        .exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default())
        .await
        .is_ok()
}

/// A message that failed and waits, as the ledger knows it.
async fn waits(
    stage: &Stage,
    broker: &RabbitBroker,
    source: &mut Box<dyn Source>,
    id: &str,
    wait: Duration,
) -> Overdue {
    stage.publish("body", named(id)).await;
    let delivery = receive(source, 1).await.remove(0);
    let outcome = later(wait);
    let Outcome::Delay { until } = outcome else { unreachable!() };
    let mut trail = redrive_core::headers::Trail::clone(&delivery.trail);
    let entry = uuid::Uuid::now_v7();
    trail.entry_id = Some(entry.to_string().into());
    trail.attempt = 1;
    let settlement = redrive_engine::port::Settlement {
        trail: Some(Box::new(trail)),
        ..redrive_engine::port::Settlement::plain(delivery, outcome)
    };
    let Settled { copy, .. } = broker.settle(&[settlement]).await.remove(0).unwrap();
    Overdue { entry, due_at: until, copy: copy.expect("a place") }
}

async fn begin(stage: &Stage, flow: &RabbitFlow) -> (Arc<RabbitBroker>, Box<dyn Source>) {
    let broker = stage.broker(flow.clone()).await;
    let source = broker.subscribe(&subscription(flow)).await.unwrap();
    // It has looked before anything waits, as whoever reads does once a second.
    assert_eq!(broker.whereabouts(&[], Timestamp::default()).await.unwrap(), []);
    (broker, source)
}

/// Waits until these are known to be missing, or not any more.
async fn all_are(broker: &RabbitBroker, copies: &[Overdue], expected: Whereabouts) {
    eventually(&format!("copies that are {expected:?}"), async || {
        let found = broker.whereabouts(copies, Timestamp::default()).await.unwrap();
        found.iter().all(|one| *one == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_cannot_go_on_are_missed_and_come_when_their_way_is_there_again() {
    let Some(stage) = Stage::own_with("stuck", TIMER) else { return };
    let mut flow = stage.flow();
    flow.steps = vec![Duration::from_millis(200)];
    flow.other_delays = Some((Duration::from_millis(100), Duration::from_secs(4)));
    let (broker, mut source) = begin(&stage, &flow).await;
    let retry = format!("{}.retry", stage.name);
    // One waits in the queue of a step; the other passes one level, and cannot leave the next.
    delete_exchange(&stage, &retry).await;
    for level in 0..11 {
        delete_exchange(&stage, &format!("{retry}.l{level:02}")).await;
    }
    let by_step = waits(&stage, &broker, &mut source, "step", Duration::from_millis(200)).await;
    // On a machine that is busy less may be left to wait, which is another queue.
    assert!(by_step.copy.name.starts_with(&format!("{retry}.")), "{by_step:?}");
    let by_levels = waits(&stage, &broker, &mut source, "levels", Duration::from_millis(2_900)).await;
    assert!(by_levels.copy.name.starts_with(&format!("{retry}.l")), "{by_levels:?}");
    let copies = [by_step, by_levels];
    // Traffic goes on, and something is in hand: that hides nothing.
    let later_on = waits(&stage, &broker, &mut source, "later", Duration::from_millis(3_900)).await;
    stage.publish("body", named("fresh")).await;
    let fresh = receive(&mut source, 1).await.remove(0);
    all_are(&broker, &copies, Whereabouts::Missing).await;
    let counted = Counted::default();
    let stuck = || counted.bits("redrive_rabbitmq_stuck").map(f64::from_bits);
    let counting = metrics::set_default_local_recorder(&counted);
    broker.missing(&copies).await;
    assert_eq!(stuck(), Some(2.0));
    drop(counting);
    let alarm = broker.alarms().into_iter().find(|alarm| alarm.name == "transfer_stuck").expect("an alarm");
    for part in ["2 copies", &*copies[0].copy.name, &*copies[1].copy.name, &retry, "retry-now"] {
        assert!(alarm.why.contains(part), "{part}: {}", alarm.why);
    }
    assert!(alarm.why.contains("had been deleted"), "{}", alarm.why);
    assert!(is_exchange(&stage, &format!("{retry}.l09")).await, "it is there again");
    // The broker tries again by itself, and what comes is in hand.
    let mut back = receive(&mut source, 3).await;
    back.sort_by(|one, other| one.message.id.as_str().cmp(other.message.id.as_str()));
    let ids: Vec<&str> = back.iter().map(|delivery| delivery.message.id.as_str()).collect();
    assert_eq!(ids, ["later", "levels", "step"]);
    all_are(&broker, &[copies[0].clone(), copies[1].clone(), later_on], Whereabouts::Coming).await;
    let counting = metrics::set_default_local_recorder(&counted);
    broker.missing(&[]).await;
    assert_eq!(stuck(), Some(0.0));
    drop(counting);
    assert_eq!(broker.alarms(), []);
    for delivery in back.iter().chain([&fresh]) {
        settle(&broker, delivery, Outcome::Ack).await.unwrap();
    }
    drop((source, broker));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_may_have_had_is_not_missed() {
    let Some(stage) = Stage::shared("others") else { return };
    let flow = stage.flow();
    let (broker, mut source) = begin(&stage, &flow).await;
    let copy = waits(&stage, &broker, &mut source, "a", Duration::from_millis(150)).await;
    // Somebody else reads for a while, and handles it.
    let other = RabbitBroker::new(flow.clone()).unwrap();
    let mut theirs = other.subscribe(&subscription(&flow)).await.unwrap();
    let mut ours = Vec::new();
    let taken = loop {
        broker.whereabouts(&[], Timestamp::default()).await.unwrap();
        let room = redrive_engine::port::Room::of(1);
        let mut their = Vec::new();
        tokio::select! {
            received = theirs.receive(room, &mut their) => received.unwrap(),
            received = source.receive(room, &mut ours) => received.unwrap(),
        }
        if let Some(delivery) = their.pop() {
            break delivery;
        }
        // It was ours: it goes round again.
        if let Some(delivery) = ours.pop() {
            settle(&broker, &delivery, later(Duration::from_millis(150))).await.unwrap();
        }
    };
    other.whereabouts(&[], Timestamp::default()).await.unwrap();
    broker.whereabouts(&[], Timestamp::default()).await.unwrap();
    settle(&other, &taken, Outcome::Ack).await.unwrap();
    theirs.close().await;
    drop((theirs, other));
    all_are(&broker, std::slice::from_ref(&copy), Whereabouts::Passed).await;
    drop((source, broker));
}
