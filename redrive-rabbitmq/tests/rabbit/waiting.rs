//! Messages wait as long as they should, and none goes astray.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redrive_engine::port::{Broker as _, NewMessage, Outcome};
use redrive_rabbitmq::DelayMode;

use crate::stage::{Stage, eventually, later, named, now, receive, settle, subscription};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_has_a_queue_of_its_own_and_any_other_wait_goes_through_levels() {
    let Some(stage) = Stage::shared("steps") else { return };
    let mut flow = stage.flow();
    flow.steps = vec![Duration::from_millis(400)];
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    for (wait, place) in
        [(400, ".retry.400ms"), (500, ".retry.l08"), (777, ".retry.l09"), (120, ".retry.l06")]
    {
        loop {
            let delivery = receive(&mut source, 1).await.remove(0);
            let begun = Instant::now();
            let due = now() + Duration::from_millis(wait);
            let settled = settle(&broker, &delivery, Outcome::Delay { until: due }).await.unwrap();
            let quick = begun.elapsed() < Duration::from_millis(5);
            let again = receive(&mut source, 1).await.remove(0);
            assert!(now() >= due, "{wait} ms were too short");
            assert_eq!(again.trail.process_after, Some(due));
            settle(&broker, &again, Outcome::Return).await.unwrap();
            let way = settled.copy.unwrap().name;
            if *way == *format!("{}{place}", stage.name) {
                break;
            }
            // What is left when it is settled may be less, by as long as the machine took.
            assert!(!quick, "{wait} ms wait in {way}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_passes_every_level_again_and_again() {
    let Some(stage) = Stage::shared("cycle") else { return };
    let mut flow = stage.flow();
    flow.other_delays = Some((Duration::from_millis(1), Duration::from_millis(63)));
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    // What leaves a level passes its exchange.
    let all: BTreeSet<String> = (0..6).map(|level| format!("{}.retry.l{level:02}", stage.name)).collect();
    let seen = format!("{}-seen", stage.name);
    stage.queue(&seen, Vec::new()).await;
    for level in &all {
        stage.bind(level, &seen, "#").await;
    }
    stage.publish("body", named("a")).await;
    let mut delivery = receive(&mut source, 1).await.remove(0);
    let (mut attempt, mut whole) = (0, 0);
    while whole < 4 {
        attempt += 1;
        assert!(attempt < 100, "never are all of them passed");
        // More than all six levels: what is left waits in memory, or takes another trip.
        settle(&broker, &delivery, later(Duration::from_millis(90))).await.unwrap();
        delivery = receive(&mut source, 1).await.remove(0);
        assert_eq!(delivery.trail.attempt, attempt);
        assert!(!delivery.message.headers.contains("x-death"), "its own waits are no deaths");
        let mut passed = BTreeSet::new();
        while let Some(copy) = stage.get(&seen).await {
            passed.insert(copy.exchange.as_str().to_owned());
        }
        // On a machine that is busy less may be left when it is settled.
        whole += u32::from(passed == all);
    }
    stage.delete(&seen).await;
    settle(&broker, &delivery, Outcome::DeadLetter).await.unwrap();
    let dead = stage.get(&format!("{}.dlq", stage.name)).await.expect("a dead letter");
    let headers = dead.properties.headers().clone().unwrap();
    assert!(headers.inner().keys().all(|name| !name.as_str().contains("death")), "{headers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_longer_than_a_trip_is_made_of_several() {
    let Some(stage) = Stage::shared("long") else { return };
    let mut flow = stage.flow();
    flow.other_delays = Some((Duration::from_millis(50), Duration::from_millis(200)));
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let due = now() + Duration::from_millis(1_500);
    let message = NewMessage { id: Some("a".to_owned()), due: Some(due), ..NewMessage::default() };
    broker.publish(&stage.name, vec![message]).await.unwrap();
    let delivery = receive(&mut source, 1).await.remove(0);
    assert!(now() >= due);
    assert_eq!(&*delivery.message.id, "a");
    settle(&broker, &delivery, Outcome::Ack).await.unwrap();
    drop((source, broker));
    stage.holds(&stage.name, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_goes_round_until_the_time_has_come() {
    let Some(stage) = Stage::shared("ring") else { return };
    let mut flow = stage.flow();
    flow.delay = DelayMode::Ring;
    flow.steps = vec![Duration::from_millis(100), Duration::from_millis(300)];
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let due = now() + Duration::from_millis(700);
    let settled = settle(&broker, &delivery, Outcome::Delay { until: due }).await.unwrap();
    assert_eq!(*settled.copy.unwrap().name, format!("{}.retry.300ms", stage.name));
    receive(&mut source, 1).await;
    assert!(now() >= due);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_level_was_deleted_comes_all_the_same_and_the_level_is_made_again() {
    let Some(stage) = Stage::shared("astray") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let delivery = receive(&mut source, 1).await.remove(0);
    let level = format!("{}.retry.l09", stage.name);
    stage.delete(&level).await;
    let due = now() + Duration::from_millis(600);
    settle(&broker, &delivery, Outcome::Delay { until: due }).await.unwrap();
    let again = receive(&mut source, 1).await.remove(0);
    assert!(now() >= due);
    assert_eq!(again.trail.attempt, 1);
    eventually("the level", async || stage.ready(&level).await).await;
    settle(&broker, &again, later(Duration::from_millis(600))).await.unwrap();
    receive(&mut source, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_come_all_the_same_when_the_way_back_to_the_source_was_taken_away() {
    let Some(stage) = Stage::shared("unbound") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let mut delivery = receive(&mut source, 1).await.remove(0);
    let (queue, exchange) = (stage.name.as_str(), format!("{}.retry", stage.name));
    let channel = stage.channel().await;
    for attempt in 1..=2 {
        let unbound = channel.queue_unbind(
            queue.into(),
            exchange.as_str().into(),
            "".into(),
            lapin::types::FieldTable::default(),
        );
        unbound.await.unwrap();
        let due = now() + Duration::from_millis(150);
        settle(&broker, &delivery, Outcome::Delay { until: due }).await.unwrap();
        delivery = receive(&mut source, 1).await.remove(0);
        assert!(now() >= due);
        assert_eq!(delivery.trail.attempt, attempt);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_wait_for_different_times_do_not_hold_each_other_up() {
    let Some(stage) = Stage::shared("many") else { return };
    let mut flow = stage.flow();
    flow.other_delays = Some((Duration::from_millis(100), Duration::from_secs(60)));
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let new = |id: &str, millis| NewMessage {
        id: Some(id.to_owned()),
        due: Some(now() + Duration::from_millis(millis)),
        ..NewMessage::default()
    };
    broker.publish(&stage.name, vec![new("slow", 50_000), new("quick", 200)]).await.unwrap();
    let read = receive(&mut source, 1).await;
    assert_eq!(&*read[0].message.id, "quick");
}

/// Copies that find no queue any more hold up those of their own flow, and of no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_whose_queues_are_deleted_jams_no_other() {
    // More than the broker tries to pass on at once.
    const STUCK: usize = 40;
    let (Some(gone), Some(stage)) = (Stage::shared("deleted-a"), Stage::shared("deleted-b")) else { return };
    let flow = gone.flow();
    let broker = gone.broker(flow.clone()).await;
    let messages = (0..STUCK).map(|number| NewMessage {
        body: Some("body".into()),
        id: Some(number.to_string()),
        due: Some(now() + Duration::from_millis(700)),
        ..NewMessage::default()
    });
    broker.publish(&gone.name, messages.collect()).await.unwrap();
    // Nobody makes them again.
    drop(broker);
    for queue in ["", ".stray"] {
        gone.delete(&format!("{}{queue}", gone.name)).await;
    }
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    for attempt in 0..4 {
        let delivery = receive(&mut source, 1).await.remove(0);
        assert_eq!(delivery.trail.attempt, attempt);
        settle(&broker, &delivery, later(Duration::from_millis(400))).await.unwrap();
    }
    assert_eq!(receive(&mut source, 1).await[0].trail.attempt, 4);
}
