//! What is counted of the flow's queues, whether somebody asks or not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redrive_engine::port::{Broker as _, SystemClock};
use redrive_engine::{Apart, ApartOptions};
use testkit::memory::MemoryStore;

use crate::stage::{Stage, eventually, named, publish, subscription};

/// The gauges of queues, by the name of the queue.
#[derive(Default)]
struct Depths(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Depths {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let queue = key.labels().find(|label| label.key() == "queue");
        match queue.filter(|_| key.name() == "redrive_rabbitmq_queue_messages") {
            Some(queue) => {
                let mut depths = self.0.lock().unwrap();
                Gauge::from_arc(Arc::clone(depths.entry(queue.value().to_owned()).or_default()))
            }
            None => Gauge::noop(),
        }
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
    let depths = Depths::default();
    let _counting = metrics::set_default_local_recorder(&depths);
    let clock = Arc::new(SystemClock::default());
    let store = MemoryStore::shared(clock.clone());
    let options = ApartOptions { every: Duration::from_millis(50), ..ApartOptions::default() };
    let apart = Apart::new(broker.clone(), store.broker(), store.ledger(), &flow.flow, clock, options);
    let _source = apart.subscribe(&subscription(&flow)).await.unwrap();
    eventually("the gauge of dead letters", async || {
        let set =
            depths.0.lock().unwrap().get(&dead).map(|depth| f64::from_bits(depth.load(Ordering::SeqCst)));
        (set == Some(2.0)).then_some(())
    })
    .await;
}
