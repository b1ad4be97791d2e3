//! A message whose headers leave no room for what a failure adds.

use std::sync::Arc;
use std::time::Duration;

use lapin::types::AMQPValue;
use redrive_engine::port::{Broker as _, EntryState, Ledger as _, Outcome, Record, Settlement, SystemClock};
use redrive_engine::{Apart, ApartOptions};
use testkit::memory::MemoryStore;

use crate::stage::{Stage, eventually, later, named, now, receive, settlement, subscription, table};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_no_queue_takes_with_its_trail_waits_in_the_ledger() {
    let Some(stage) = Stage::shared("large") else { return };
    let mut flow = stage.flow();
    flow.ledger = true;
    let broker = stage.broker(flow.clone()).await;
    let store = MemoryStore::shared(Arc::new(SystemClock::default()));
    let (home, ledger) = (store.broker(), store.ledger());
    let clock = Arc::new(SystemClock::default());
    let options = ApartOptions::default();
    let apart = Apart::new(broker.clone(), home, ledger.clone(), &flow.flow, clock, options);
    let mut source = apart.subscribe(&subscription(&flow)).await.unwrap();
    let headers = table(vec![("large", AMQPValue::LongString("x".repeat(131_000).into()))]);
    stage.publish("body", named("a").with_headers(headers)).await;
    let first = receive(&mut source, 1).await.remove(0);
    let delayed = settlement(&first, later(Duration::from_millis(200)));
    let delayed = with_record(&flow.flow, delayed);
    apart.settle(&[delayed]).await.remove(0).expect("it waits");
    assert_eq!(broker.alarms(), []);
    let entry = eventually("an entry", async || ledger.entry("a").await.unwrap()).await;
    assert_eq!(entry.state, EntryState::Waiting);
    let second = receive(&mut source, 1).await.remove(0);
    assert_eq!((&*second.message.id, second.trail.attempt), ("a", 1));
    assert_eq!(second.message.headers.get("large").unwrap().len(), 131_000);
    apart.settle(&[Settlement::plain(second, Outcome::Ack)]).await.remove(0).unwrap();
    drop((source, apart, broker));
    stage.holds(&stage.name, 0).await;
}

/// The settlement with what the ledger learns of it.
fn with_record(flow: &Arc<str>, mut settlement: Settlement) -> Settlement {
    let Outcome::Delay { until } = settlement.outcome else { unreachable!() };
    let entry = settlement.trail.as_ref().unwrap().entry_id.as_deref().unwrap().parse().unwrap();
    settlement.record = Some(Box::new(Record {
        entry,
        flow: Arc::clone(flow),
        state: EntryState::Waiting,
        at: now(),
        due_at: Some(until),
        attempt: None,
        succeeded: None,
        earlier: Vec::new(),
        attempts: 1,
        message_type: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        owner: None,
        held: None,
        replay: None,
    }));
    settlement
}
