//! What is counted of the flow's queues, whether somebody asks or not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redrive_engine::port::{Broker as _, Outcome, SystemClock};
use redrive_engine::{Apart, ApartOptions};
use testkit::memory::MemoryStore;

use crate::between::{Say, in_front_of};
use crate::stage::{Stage, eventually, named, publish, receive, settle, subscription};

/// What is counted: by its name, and by its queue where it has one.
#[derive(Default)]
pub(crate) struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counted {
    fn of(&self, key: &Key) -> Arc<AtomicU64> {
        let queue = key.labels().find(|label| label.key() == "queue");
        let name = queue.map_or_else(|| key.name().to_owned(), |queue| queue.value().to_owned());
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    pub(crate) fn bits(&self, name: &str) -> Option<u64> {
        self.0.lock().unwrap().get(name).map(|value| value.load(Ordering::SeqCst))
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

// On one thread, which is the one that the gauges are looked at from.
#[tokio::test]
async fn the_gauges_of_queues_are_set_while_the_flow_reads_without_being_asked_for() {
    let Some(stage) = Stage::shared("gauged") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let dead = format!("{}.dlq", stage.name);
    let channel = stage.channel().await;
    for id in ["a", "b"] {
        publish(&channel, &dead, "body", named(id)).await;
    }
    stage.holds(&dead, 2).await;
    let counted = Counted::default();
    let _counting = metrics::set_default_local_recorder(&counted);
    let clock = Arc::new(SystemClock::default());
    let store = MemoryStore::shared(clock.clone());
    let options = ApartOptions { every: Duration::from_millis(50), ..ApartOptions::default() };
    let apart = Apart::new(broker.clone(), store.broker(), store.ledger(), &flow.flow, clock, options);
    let _source = apart.subscribe(&subscription(&flow)).await.unwrap();
    eventually("the gauge of dead letters", async || {
        (counted.bits(&dead).map(f64::from_bits) == Some(2.0)).then_some(())
    })
    .await;
}

// On one thread, as above.
#[tokio::test]
async fn a_server_that_reads_nothing_is_shown_also_when_another_connection_is_lost() {
    let Some(stage) = Stage::shared("shown") else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = stage.broker(flow.clone()).await;
    let counted = Counted::default();
    let _counting = metrics::set_default_local_recorder(&counted);
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    let read = receive(&mut source, 1).await.remove(0);
    settle(&broker, &read, Outcome::Park).await.unwrap();
    let shown = || counted.bits("redrive_rabbitmq_blocked").map(f64::from_bits);
    say.send(Say::Blocked).unwrap();
    eventually("the gauge", async || (shown() == Some(1.0)).then_some(())).await;
    say.send(Say::CutReading).unwrap();
    // Its end is heard by then.
    stage.publish("body", named("b")).await;
    receive(&mut source, 1).await;
    assert!(counted.bits("redrive_rabbitmq_reconnects_total").is_some_and(|made| made > 0));
    assert_eq!(shown(), Some(1.0), "it reads nothing from the other one");
    say.send(Say::Unblocked).unwrap();
    eventually("the gauge", async || (shown() == Some(0.0)).then_some(())).await;
}

// On one thread, as above.
#[tokio::test]
async fn copies_that_are_not_taken_and_connections_that_are_made_again_are_counted() {
    let Some(stage) = Stage::shared("counted") else { return };
    let mut flow = stage.flow();
    flow.dead_letter.options.insert("x-max-length".to_owned(), "1".to_owned());
    let broker = stage.broker(flow.clone()).await;
    let counted = Counted::default();
    let _counting = metrics::set_default_local_recorder(&counted);
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let channel = stage.channel().await;
    // The limit is exceeded a little before it holds.
    for number in 0..20 {
        publish(&channel, &stage.name, "body", named(&number.to_string())).await;
    }
    let mut nacked = 0;
    let deliveries = receive(&mut source, 20).await;
    for delivery in &deliveries {
        nacked += u64::from(settle(&broker, delivery, Outcome::DeadLetter).await.is_err());
    }
    assert_eq!(counted.bits("redrive_rabbitmq_nacked_total"), Some(nacked));
    stage.delete(&format!("{}.parking", stage.name)).await;
    publish(&channel, &stage.name, "body", named("parked")).await;
    let parked = receive(&mut source, 1).await.remove(0);
    settle(&broker, &parked, Outcome::Park).await.unwrap_err();
    assert_eq!(counted.bits("redrive_rabbitmq_returned_total"), Some(1));
    assert_eq!(counted.bits("redrive_rabbitmq_reconnects_total"), None);
    if !stage.close_connections() {
        return;
    }
    eventually("a connection that is made again", async || {
        let _ = settle(&broker, &parked, Outcome::Park).await;
        counted.bits("redrive_rabbitmq_reconnects_total").filter(|made| *made > 0)
    })
    .await;
}
