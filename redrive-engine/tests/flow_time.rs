//! Flows and their tasks in virtual time, where the contract of the adapters is not the place.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::Policy;
use redrive_engine::port::{Broker as _, Clock as _, EntryState, Ledger as _, NewMessage, Retention};
use redrive_engine::{Flow, FlowSpec, Upkeep};
use testkit::clock::TestClock;
use testkit::handler::{Scripted, Step};
use testkit::memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    clock: Arc<TestClock>,
    store: MemoryStore,
    handler: Arc<Scripted>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(TestClock::default());
        Self { store: MemoryStore::shared(clock.clone()), clock, handler: Scripted::new() }
    }

    fn spec(&self) -> FlowSpec {
        FlowSpec { breaker: None, ..FlowSpec::new("orders", "orders", self.handler.clone()) }
    }

    async fn start(&self, spec: FlowSpec) -> Flow {
        let (broker, ledger) = (self.store.broker(), self.store.ledger());
        Flow::start(spec, broker, ledger, self.clock.clone()).await.expect("the flow starts")
    }

    async fn publish(&self, ids: impl IntoIterator<Item = String>, size: usize) {
        let message =
            |id| NewMessage { id: Some(id), body: Some(vec![0; size].into()), ..NewMessage::default() };
        self.store
            .broker()
            .publish("orders", ids.into_iter().map(message).collect())
            .await
            .expect("published");
    }
}

/// The ladder runs through its half hour as it is written: six attempts, each after its wait.
#[tokio::test(start_paused = true)]
async fn the_ladder_takes_its_time() {
    let bench = Bench::new();
    let spec = FlowSpec { policy: Arc::new(Policy::default()), ..bench.spec() };
    let flow = bench.start(spec).await;
    bench.handler.otherwise(Step::status(503));
    bench.publish(["a".to_owned()], 1).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let entry = bench.store.ledger().entry("a").await.expect("the ledger").expect("an entry");
    assert_eq!((entry.state, entry.attempts), (EntryState::Dead, 6));
    let took = entry.last_failed_at.since(entry.first_failed_at).as_secs_f64();
    let sum = 10.0 + 60.0 + 300.0 + 1_800.0;
    assert!((sum * 0.9..=sum * 1.1 + 1.0).contains(&took), "{took} s");
    flow.stop().await;
}

/// No more is in hand than the flow has room for, by messages and by bytes; one that is too large goes alone.
#[tokio::test(start_paused = true)]
async fn the_room_in_hand_is_kept() {
    let bench = Bench::new();
    bench.handler.otherwise(Step::Take(SECOND, Box::new(Step::Succeed)));
    let spec = FlowSpec { prefetch: 8, prefetch_bytes: 10_000, concurrency: 2, ..bench.spec() };
    let flow = bench.start(spec).await;
    bench.publish((0..40).map(|n| format!("small-{n}")), 10).await;
    bench.publish((0..3).map(|n| format!("large-{n}")), 1_000_000).await;
    for _ in 0..60 {
        tokio::time::sleep(SECOND / 2).await;
        assert!(flow.in_hand() <= 8, "{} in hand", flow.in_hand());
    }
    assert_eq!(bench.handler.calls().len(), 43);
    flow.stop().await;
}

/// A stop that is hurried does not wait for a handler that hangs, nor for a broker that is away.
#[tokio::test(start_paused = true)]
async fn a_hurried_stop_waits_for_nobody() {
    let bench = Bench::new();
    bench.handler.on("hangs", [Step::Hang]);
    let flow =
        bench.start(FlowSpec { shutdown: SECOND * 1_000, timeout: SECOND * 10_000, ..bench.spec() }).await;
    bench.publish(["hangs".to_owned(), "done".to_owned()], 1).await;
    bench.store.faults().fail_settles(u32::MAX);
    tokio::time::sleep(SECOND).await;
    let force = flow.force();
    let began = bench.clock.monotonic();
    tokio::join!(flow.stop(), async {
        tokio::time::sleep(SECOND * 5).await;
        force.now();
    });
    let took = bench.clock.monotonic().saturating_sub(began);
    assert!(took < SECOND * 100, "{took:?}");
}

/// A broker that answers slowly delays nothing but its answers.
#[tokio::test(start_paused = true)]
async fn slow_answers_lose_nothing() {
    let bench = Bench::new();
    let flow = bench.start(bench.spec()).await;
    bench.store.faults().delay_answers(SECOND * 3);
    bench.handler.on("a", [Step::status(422)]);
    bench.publish(["a".to_owned(), "b".to_owned()], 1).await;
    flow.stop().await;
    let flow = bench.start(bench.spec()).await;
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!((bench.handler.calls_of("a").len(), bench.handler.calls_of("b").len()), (1, 1));
    assert_eq!(bench.store.ledger().count("orders", EntryState::Parked).await, Ok(1));
    flow.stop().await;
}

/// While nothing can be settled, no call begins, nobody is asked without a pause, and nothing is lost or done twice.
#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_settle_holds_the_flow() {
    let bench = Bench::new();
    let flow = bench.start(FlowSpec { concurrency: 2, ..bench.spec() }).await;
    bench.handler.otherwise(Step::Take(SECOND / 10, Box::new(Step::Succeed)));
    bench.handler.on("m1", [Step::status(422)]);
    bench.store.faults().fail_settles(u32::MAX);
    bench.publish((0..100).map(|n| format!("m{n}")), 1).await;
    tokio::time::sleep(SECOND * 60).await;
    let calls = bench.handler.calls().len();
    assert!((2..=8).contains(&calls), "{calls} calls");
    let asked = u32::MAX - bench.store.faults().left().0;
    assert!((10..=30).contains(&asked), "asked {asked} times in a minute");
    assert_eq!(flow.trouble().as_deref(), Some("settle: away, as asked"));
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(bench.handler.calls().len(), calls, "a call began meanwhile");

    bench.store.faults().fail_settles(0);
    tokio::time::sleep(SECOND * 60).await;
    assert_eq!(flow.trouble(), None);
    assert_eq!((bench.handler.calls().len(), flow.in_hand()), (100, 0), "each once");
    assert_eq!(bench.store.ledger().count("orders", EntryState::Parked).await, Ok(1));
    flow.stop().await;
}

/// A stop does not wait for ever for a broker that is away; what it had in hand is delivered again.
#[tokio::test(start_paused = true)]
async fn a_stop_gives_a_broker_that_is_away_up() {
    let bench = Bench::new();
    let flow = bench.start(FlowSpec { shutdown: SECOND * 20, ..bench.spec() }).await;
    bench.store.faults().fail_settles(u32::MAX);
    bench.publish(["a".to_owned()], 1).await;
    tokio::time::sleep(SECOND).await;
    let began = bench.clock.monotonic();
    flow.stop().await;
    let took = bench.clock.monotonic().saturating_sub(began);
    assert!((SECOND * 19..SECOND * 30).contains(&took), "{took:?}");
    bench.store.faults().fail_settles(0);
    let flow = bench.start(bench.spec()).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!((bench.handler.calls_of("a").len(), flow.in_hand()), (2, 0));
    flow.stop().await;
}

/// A source that does not answer is asked with pauses, and named.
#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_asked_with_pauses() {
    let bench = Bench::new();
    bench.store.faults().fail_receives(u32::MAX);
    let flow = bench.start(bench.spec()).await;
    bench.publish(["a".to_owned()], 1).await;
    tokio::time::sleep(SECOND * 60).await;
    let asked = u32::MAX - bench.store.faults().left().1;
    assert!((10..=30).contains(&asked), "asked {asked} times in a minute");
    assert_eq!(flow.trouble().as_deref(), Some("receive: away, as asked"));
    bench.store.faults().fail_receives(0);
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!((flow.trouble(), bench.handler.calls().len()), (None, 1));
    flow.stop().await;
}

/// Retention removes a thousand entries in steps, once they are old enough, and goes on by itself.
#[tokio::test(start_paused = true)]
async fn retention_goes_on_by_itself() {
    let bench = Bench::new();
    bench.handler.otherwise(Step::status(422));
    let flow = bench.start(bench.spec()).await;
    bench.publish((0..1_000).map(|n| format!("m{n}")), 1).await;
    tokio::time::sleep(SECOND * 10).await;
    let ledger = bench.store.ledger();
    assert_eq!(ledger.count("orders", EntryState::Parked).await, Ok(1_000));
    bench.handler.otherwise(Step::Succeed);
    let all = redrive_engine::port::Selection::Filter(redrive_engine::port::Filter::default());
    let actor = redrive_engine::port::Actor { who: "ada".to_owned(), why: "old".to_owned() };
    let deed = redrive_engine::port::Deed::Discard;
    ledger.act(&deed, &all, &actor, bench.clock.now()).await.expect("discarded");
    let retention = Retention { discarded: Some(SECOND * 3_600), ..Retention::default() };
    let upkeep = Upkeep::start(ledger.clone(), bench.clock.clone(), retention, SECOND * 60);
    tokio::time::sleep(SECOND * 3_000).await;
    assert_eq!(ledger.count("orders", EntryState::Discarded).await, Ok(1_000));
    tokio::time::sleep(SECOND * 700).await;
    assert_eq!(ledger.count("orders", EntryState::Discarded).await, Ok(0));
    upkeep.stop().await;
    flow.stop().await;
}
