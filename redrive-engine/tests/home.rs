//! The ledger's own queue beside the broker's, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::PolicySpec;
use redrive_engine::port::{Broker as _, NewMessage, home_of};
use redrive_engine::{ApartOptions, Flow, FlowSpec};
use testkit::clock::TestClock;
use testkit::handler::{Scripted, Step};
use testkit::memory::{MemoryApart, MemoryStore};

const SECOND: Duration = Duration::from_secs(1);

async fn publish(store: &MemoryStore, target: &str, ids: impl IntoIterator<Item = String>) {
    let message = |id| NewMessage { id: Some(id), body: Some("{}".into()), ..NewMessage::default() };
    let published = store.broker().publish(target, ids.into_iter().map(message).collect()).await;
    published.expect("published");
}

/// Waits for so many calls with messages that are called so.
async fn called(handler: &Scripted, prefix: &str, times: usize) {
    let calls = || handler.order().iter().filter(|id| id.starts_with(prefix)).count();
    for _ in 0..36_000 {
        if calls() >= times {
            return;
        }
        tokio::time::sleep(SECOND / 10).await;
    }
    panic!("{} calls with {prefix}, not {times}", calls());
}

/// A replay of more messages than a flow has room for, and the first of them blocks: the broker's are handled meanwhile.
#[tokio::test(start_paused = true)]
async fn a_message_of_the_ledgers_queue_holds_that_queue_alone() {
    let clock = Arc::new(TestClock::default());
    let stores = MemoryApart::new(clock.clone());
    let handler = Scripted::new();
    handler.otherwise(Step::Take(SECOND / 10, Box::new(Step::Succeed)));
    handler.on("home-000", [Step::status(503), Step::status(503)]);
    let policy: PolicySpec = serde_json::from_str(r#"{ "blocking": "10m forever" }"#).expect("a policy");
    let spec = FlowSpec {
        breaker: None,
        retry_budget: None,
        policy: Arc::new(policy.build().expect("a policy that can be used")),
        prefetch: 20,
        concurrency: 2,
        ..FlowSpec::new("orders", "orders", handler.clone())
    };
    publish(&stores.inner, &home_of("orders"), (0..100).map(|n| format!("home-{n:03}"))).await;
    let broker = stores.broker("orders", ApartOptions::default());
    let flow = Flow::start(spec, broker, stores.ledger(), clock).await.expect("a flow");
    called(&handler, "home-000", 1).await;
    tokio::time::sleep(SECOND).await;
    assert!(flow.is_blocked());
    assert_eq!(flow.in_hand(), 1, "what was not tried has gone back");
    let before = handler.calls().len();

    publish(&stores.outer, "orders", (0..100).map(|n| format!("outer-{n:03}"))).await;
    tokio::time::sleep(SECOND * 60).await;
    assert!(flow.is_blocked());
    assert_eq!(handler.calls().len(), before + 100, "the broker's, and nothing of the ledger's queue");
    assert_eq!(flow.in_hand(), 1);

    called(&handler, "home-099", 1).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!((flow.in_hand(), flow.is_blocked()), (0, false));
    assert_eq!(handler.attempts_of("home-000"), [1, 2, 3]);
    let home = handler.order().into_iter().filter(|id| id.starts_with("home")).count();
    assert_eq!(home, 102, "each of them once, and two attempts more");
    flow.stop().await;
}

/// Whatever the flow before it left standing.
#[tokio::test(start_paused = true)]
async fn a_flow_that_begins_reads_the_ledgers_queue() {
    const OF_THE_LEDGER: u32 = 1 << 31;
    let clock = Arc::new(TestClock::default());
    let stores = MemoryApart::new(clock.clone());
    let handler = Scripted::new();
    publish(&stores.inner, &home_of("orders"), ["home".to_owned()]).await;
    let broker = stores.broker("orders", ApartOptions::default());
    broker.gate(OF_THE_LEDGER, true);
    let spec = FlowSpec::new("orders", "orders", handler.clone());
    let flow = Flow::start(spec, broker, stores.ledger(), clock).await.expect("a flow");
    called(&handler, "home", 1).await;
    flow.stop().await;
}
