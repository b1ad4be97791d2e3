//! What a flow makes of the error of a retryer that its handler returns as it is.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::guard::{BreakerConfig, BreakerState, Rate, RetryBudgetConfig, Window};
use redrive_core::{Class, Message, PolicySpec, Reason};
use redrive_engine::handler::{Context, FunctionHandler};
use redrive_engine::port::{Broker as _, EntryState, Ledger as _, NewMessage};
use redrive_engine::{Flow, FlowSpec};
use redrive_retry::{
    Attempt, Builder, Bulkhead, CallBudget, CircuitBreaker, RateLimiter, RetryError, Retryer, SharedBudget,
    TokioClock,
};
use testkit::clock::TestClock;
use testkit::memory::MemoryStore;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// How one call of the handler ends.
type Ended = Pin<Box<dyn Future<Output = Result<(), RetryError<io::Error>>> + Send>>;

/// What is done with a message.
type Handle = Box<dyn Fn(&Message) -> Ended + Send + Sync>;

/// Two attempts without a wait, on tokio's time.
fn client() -> Builder {
    Retryer::builder().schedule("0s".parse().unwrap()).no_budget().clock(TokioClock)
}

/// A handler that makes one call with such a client, and hands its error on.
fn calling<F>(client: Builder, answer: fn(Attempt) -> F) -> impl Fn(&Message) -> Ended + Send + Sync + 'static
where
    F: Future<Output = Result<(), io::Error>> + Send + 'static,
{
    let retryer = client.build().unwrap();
    move |_| {
        let retryer = retryer.clone();
        Box::pin(async move { retryer.call(answer).await })
    }
}

/// The same within a budget of calls.
fn within<F>(
    budget: fn() -> CallBudget,
    answer: fn(Attempt) -> F,
) -> impl Fn(&Message) -> Ended + Send + Sync + 'static
where
    F: Future<Output = Result<(), io::Error>> + Send + 'static,
{
    let retryer = client().build().unwrap();
    move |_| {
        let retryer = retryer.clone();
        Box::pin(async move { budget().scope(retryer.call(answer)).await })
    }
}

async fn hangs(_: Attempt) -> Result<(), io::Error> {
    pending().await
}

async fn answers(_: Attempt) -> Result<(), io::Error> {
    Ok(())
}

async fn reset(_: Attempt) -> Result<(), io::Error> {
    Err(io::ErrorKind::ConnectionReset.into())
}

struct Stage {
    store: MemoryStore,
    flow: Flow,
}

impl Stage {
    /// A flow that gives a message up after its first attempt, with a breaker that stays open for an hour.
    async fn start(handle: impl Fn(&Message) -> Ended + Send + Sync + 'static) -> Self {
        let clock = Arc::new(TestClock::default());
        let store = MemoryStore::shared(clock.clone());
        let policy: PolicySpec =
            serde_json::from_str(r#"{ "retry": "1s x9", "budgets": { "attempts": 1, "calls": 100 } }"#)
                .unwrap();
        let handler = FunctionHandler::new(move |message: Message, _: Context| handle(&message));
        let breaker =
            BreakerConfig { open: HOUR, window: Window::Time(HOUR * 10), ..BreakerConfig::default() };
        let spec = FlowSpec {
            breaker: Some(breaker),
            concurrency: 1,
            policy: Arc::new(policy.build().unwrap()),
            ..FlowSpec::new("orders", "orders", Arc::new(handler))
        };
        let flow = Flow::start(spec, store.broker(), store.ledger(), clock).await.unwrap();
        Self { store, flow }
    }

    /// Sends so many messages, and lets them end.
    async fn send(&self, name: &str, count: usize) {
        let named = |n| NewMessage { id: Some(format!("{name}{n}")), ..NewMessage::default() };
        self.store.broker().publish("orders", (0..count).map(named).collect()).await.unwrap();
        tokio::time::sleep(SECOND * 100).await;
    }

    /// The class and the reason of a message that was given up.
    async fn gave_up(&self, id: &str) -> (Class, Reason) {
        let entry = self.store.ledger().entry(id).await.unwrap().expect(id);
        assert_eq!((entry.state, entry.attempts), (EntryState::Dead, 1), "{id}: {}", entry.because);
        (entry.class, entry.reason)
    }

    fn breaker(&self) -> BreakerState {
        self.flow.breaker().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_downstream_that_hangs_is_transient_and_opens_the_breaker() {
    let stage = Stage::start(calling(client(), hangs)).await;
    stage.send("m", 20).await;
    assert_eq!(stage.gave_up("m0").await, (Class::Transient, Reason::DOWNSTREAM_TIMEOUT));
    assert_eq!(stage.breaker(), BreakerState::Open);
    assert!(stage.store.ledger().entry("m5").await.unwrap().is_none(), "five in a row opened it");
    stage.flow.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clients_own_breaker_that_is_open_speaks_for_an_endpoint_that_is_down() {
    let own = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    own.force_open();
    let stage = Stage::start(calling(client().breaker(own), answers)).await;
    stage.send("m", 20).await;
    assert_eq!(stage.gave_up("m0").await, (Class::Transient, Reason::DOWNSTREAM_UNAVAILABLE));
    assert_eq!(stage.breaker(), BreakerState::Open);
    stage.flow.stop().await;
}

/// The retry budget or the message's calls end it, and the endpoint has failed all the same.
#[tokio::test(start_paused = true)]
async fn what_ends_a_call_after_attempts_leaves_the_last_ones_error() {
    let config = RetryBudgetConfig { share: 0.001, floor: None, ..RetryBudgetConfig::default() };
    let budget = SharedBudget::with_clock(config, TokioClock).unwrap();
    let spends = calling(client().budget(budget), reset);
    let within = within(|| CallBudget::new(Some(1), None), reset);
    let handlers: [Handle; 2] = [Box::new(spends), Box::new(within)];
    for handle in handlers {
        let stage = Stage::start(handle).await;
        stage.send("m", 20).await;
        assert_eq!(stage.gave_up("m0").await, (Class::Transient, Reason::CONNECTION_FAILED));
        assert_eq!(stage.breaker(), BreakerState::Open);
        stage.flow.stop().await;
    }
}

/// Clients whose own limits let no call through, by what the flow makes of it.
fn limited() -> Vec<(&'static str, Handle, Reason)> {
    let full = Bulkhead::new(1, 0).unwrap();
    // It is held for as long as the test goes on.
    std::mem::forget(full.try_acquire().unwrap());
    let limiter = RateLimiter::with_clock(Rate::new(1, HOUR * 24).unwrap(), 1, TokioClock).unwrap();
    limiter.try_acquire().unwrap();
    vec![
        ("a full bulkhead", Box::new(calling(client().bulkhead(full), answers)), Reason::RESOURCE_EXHAUSTED),
        ("a spent rate", Box::new(calling(client().rate_limit(limiter), answers)), Reason::RATE_LIMITED),
        (
            "no call left",
            Box::new(within(|| CallBudget::new(Some(0), None), answers)),
            Reason::RESOURCE_EXHAUSTED,
        ),
        (
            "no time left",
            Box::new(within(|| CallBudget::new(None, Some(Instant::now())), answers)),
            Reason::RESOURCE_EXHAUSTED,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_clients_own_limits_are_transient_and_say_nothing_about_the_endpoint() {
    for (what, handle, reason) in limited() {
        let stage = Stage::start(handle).await;
        stage.send("m", 30).await;
        for n in [0, 29] {
            assert_eq!(stage.gave_up(&format!("m{n}")).await, (Class::Transient, reason.clone()), "{what}");
        }
        assert_eq!(stage.breaker(), BreakerState::Closed, "{what}");
        stage.flow.stop().await;
    }
}

/// Neither for it: a probe that was not made leaves its place to the next.
#[tokio::test(start_paused = true)]
async fn a_clients_own_limits_close_no_breaker_that_probes() {
    for (what, refuses, reason) in limited() {
        let (down, up) = (calling(client(), reset), calling(client(), answers));
        let stage = Stage::start(move |message| match message.id.as_str() {
            id if id.starts_with("down") => down(message),
            id if id.starts_with("limited") => refuses(message),
            _ => up(message),
        })
        .await;
        stage.send("down", 5).await;
        assert_eq!(stage.breaker(), BreakerState::Open, "{what}");
        tokio::time::sleep(HOUR).await;
        stage.send("limited", 10).await;
        assert_eq!(stage.gave_up("limited9").await, (Class::Transient, reason), "{what}");
        assert_eq!(stage.breaker(), BreakerState::HalfOpen, "{what}");
        stage.send("up", 3).await;
        assert_eq!(stage.breaker(), BreakerState::Closed, "{what}");
        stage.flow.stop().await;
    }
}
