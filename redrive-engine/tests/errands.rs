//! The small duties between a broker and a ledger apart, when one of them cannot be done, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{
    Actor, Broker, Clock as _, Deed, EntryState, Ledger as _, NewMessage, Selection, Subscription,
};
use redrive_engine::{Apart, ApartOptions, Flow, FlowSpec};
use testkit::clock::TestClock;
use testkit::faulty::{Deaf, Faulty};
use testkit::handler::{Scripted, Step};
use testkit::memory::{MemoryApart, dead_of};

const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    clock: Arc<TestClock>,
    stores: MemoryApart,
    deaf: Arc<Deaf>,
    handler: Arc<Scripted>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(TestClock::default());
        let stores = MemoryApart::new(clock.clone());
        Self { clock, stores, deaf: Arc::default(), handler: Scripted::new() }
    }

    async fn start(&self) -> Flow {
        let outer = Arc::new(Faulty::new(self.stores.outer.outer(), Arc::clone(&self.deaf)));
        let (home, ledger) = (self.stores.inner.broker(), self.stores.ledger());
        let options = ApartOptions { adopts: true, ..ApartOptions::default() };
        let apart = Apart::new(outer, home, ledger.clone(), "orders", self.clock.clone(), options);
        let spec = FlowSpec::new("orders", "orders", self.handler.clone());
        Flow::start(spec, Arc::new(apart), ledger, self.clock.clone()).await.expect("the flow starts")
    }

    async fn publish(&self, target: &str, id: &str) {
        let message =
            NewMessage { id: Some(id.to_owned()), body: Some("{}".into()), ..NewMessage::default() };
        self.stores.outer.outer().publish(target, vec![message]).await.expect("published");
    }

    /// Waits until the message's entry stands so; nothing for none.
    async fn stands(&self, id: &str, wanted: EntryState) {
        for _ in 0..3_600 {
            let entry = self.stores.ledger().entry(id).await.expect("the ledger");
            if entry.is_some_and(|entry| entry.state == wanted) {
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
        panic!("{id} is not {wanted}");
    }

    /// A message that the flow parks and a person discards.
    async fn resolve(&self, id: &str) {
        self.handler.on(id, [Step::status(422)]);
        self.publish("orders", id).await;
        self.stands(id, EntryState::Parked).await;
        let (actor, chosen) =
            (Actor { who: "ada".to_owned(), why: "old".to_owned() }, Selection::Ids(vec![id.to_owned()]));
        let report = self.stores.ledger().act(&Deed::Discard, &chosen, &actor, self.clock.now()).await;
        assert_eq!(report.expect("a deed").done, 1);
    }

    /// How much the broker keeps of what people resolved.
    async fn kept(&self) -> usize {
        let subscription = Subscription::new("orders", "orders");
        self.stores.outer.outer().resolved(&subscription).await.expect("resolved").len()
    }
}

fn alarm(flow: &Flow) -> Option<String> {
    flow.alarms().into_iter().find(|alarm| alarm.name == "errands_wait").map(|alarm| alarm.text)
}

/// The topic of what is resolved was deleted: dead letters of other systems come in all the same, and a person is told.
#[tokio::test(start_paused = true)]
async fn what_people_resolved_cannot_be_kept() {
    let bench = Bench::new();
    bench.deaf.fail_resolved(true);
    let flow = bench.start().await;
    bench.resolve("a").await;
    bench.publish(&dead_of("orders"), "foreign").await;
    bench.stands("foreign", EntryState::Dead).await;
    assert_eq!(alarm(&flow), None, "not for a moment's trouble");
    tokio::time::sleep(SECOND * 20).await;
    let text = alarm(&flow).expect("an alarm");
    assert!(
        text.ends_with("keeping what people resolved at the broker: the topic of what is resolved is gone"),
        "{text}"
    );
    assert_eq!(bench.kept().await, 0);

    bench.deaf.fail_resolved(false);
    tokio::time::sleep(SECOND * 5).await;
    assert_eq!((bench.kept().await, alarm(&flow)), (1, None));
    flow.stop().await;
}

/// What lies at the broker cannot be read: what people resolve is kept there all the same.
#[tokio::test(start_paused = true)]
async fn what_lies_at_the_broker_cannot_be_read() {
    let bench = Bench::new();
    bench.deaf.fail_shelves(true);
    let flow = bench.start().await;
    bench.publish(&dead_of("orders"), "foreign").await;
    bench.resolve("a").await;
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!(bench.kept().await, 1);
    let text = alarm(&flow).expect("an alarm");
    assert!(
        text.ends_with("taking over what lies at the broker: the topic of foreign dead letters is gone"),
        "{text}"
    );

    bench.deaf.fail_shelves(false);
    bench.stands("foreign", EntryState::Dead).await;
    tokio::time::sleep(SECOND * 5).await;
    assert_eq!(alarm(&flow), None);
    flow.stop().await;
}
