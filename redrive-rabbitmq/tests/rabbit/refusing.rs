//! A ledger that does not take what it is to take over.

use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{Broker as _, Ledger as _, Source, SystemClock};
use redrive_engine::{Apart, ApartOptions};
use redrive_rabbitmq::{Adopt, RabbitBroker, RabbitFlow};
use testkit::memory::MemoryStore;

use crate::stage::{Stage, eventually, named, publish, subscription};

/// A flow whose ledger takes dead letters over, and who reads for it.
async fn adopting(
    stage: &Stage,
    flow: &RabbitFlow,
    store: &MemoryStore,
) -> (Arc<RabbitBroker>, Apart, Box<dyn Source>) {
    let broker = stage.broker(flow.clone()).await;
    let options = ApartOptions {
        adopts: true,
        looks_anew: true,
        every: Duration::from_millis(50),
        ..ApartOptions::default()
    };
    let clock = Arc::new(SystemClock::default());
    let (home, ledger) = (store.broker(), store.ledger());
    let apart = Apart::new(broker.clone(), home, ledger, &flow.flow, clock, options);
    let source = apart.subscribe(&subscription(flow)).await.unwrap();
    (broker, apart, source)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_refuses_stays_in_its_queue_and_the_others_are_taken() {
    let Some(stage) = Stage::shared("refused") else { return };
    let mut flow = stage.flow();
    flow.adopt = Adopt::IntoLedger;
    flow.ledger = true;
    let theirs = format!("{}-theirs", stage.name);
    stage.queue(&theirs, Vec::new()).await;
    flow.foreign = vec![theirs.clone()];
    let store = MemoryStore::shared(Arc::new(SystemClock::default()));
    store.faults().refuse_records_of(Some("b"));
    let ledger = store.ledger();
    let channel = stage.channel().await;
    for id in ["a", "b", "c"] {
        publish(&channel, &theirs, id, named(id)).await;
    }
    let (broker, apart, source) = adopting(&stage, &flow, &store).await;
    for id in ["a", "c"] {
        eventually("an entry", async || ledger.entry(id).await.unwrap()).await;
    }
    let alarm = eventually("an alarm", async || broker.alarms().pop()).await;
    assert_eq!(alarm.name, "not_adopted");
    assert!(alarm.why.contains("`b`: refused, as asked") && alarm.why.contains(&theirs), "{}", alarm.why);
    stage.holds(&theirs, 1).await;
    // Something new is taken in although the other lies before it, which stays.
    publish(&channel, &theirs, "d", named("d")).await;
    eventually("an entry", async || ledger.entry("d").await.unwrap()).await;
    stage.holds(&theirs, 1).await;
    assert_eq!(ledger.entry("b").await.unwrap(), None);
    drop((source, apart, broker));
    let left = stage.get(&theirs).await.expect("the one that was refused");
    let id = left.properties.message_id().as_ref().map(ToString::to_string);
    assert_eq!((left.data.as_slice(), id.as_deref()), (&b"b"[..], Some("b")));
    stage.delete(&theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_is_taken_once_the_ledger_takes_it() {
    let Some(stage) = Stage::shared("retaken") else { return };
    let mut flow = stage.flow();
    flow.adopt = Adopt::IntoLedger;
    flow.ledger = true;
    let store = MemoryStore::shared(Arc::new(SystemClock::default()));
    store.faults().refuse_records_of(Some("b"));
    let dead = format!("{}.dlq", stage.name);
    let (broker, apart, source) = adopting(&stage, &flow, &store).await;
    publish(&stage.channel().await, &dead, "b", named("b")).await;
    eventually("an alarm", async || broker.alarms().pop()).await;
    stage.holds(&dead, 1).await;
    store.faults().refuse_records_of(None);
    // It is offered again with the next one that comes, or after a minute.
    publish(&stage.channel().await, &dead, "c", named("c")).await;
    for id in ["b", "c"] {
        eventually("an entry", async || store.ledger().entry(id).await.unwrap()).await;
    }
    eventually("the end of the alarm", async || broker.alarms().is_empty().then_some(())).await;
    stage.holds(&dead, 0).await;
    drop((source, apart, broker));
}
