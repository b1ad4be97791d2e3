//! What a message has left holds for every retryer that its handler uses, and what they used is charged to it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::{FactSources, Failure, Headers, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Charge, Context};
use redrive_engine::port::{Broker as _, Clock as _, Entry, EntryState, Ledger as _, NewMessage};
use redrive_engine::{Flow, FlowSpec};
use redrive_retry::{CallBudget, Retryer, Stop, TokioClock};
use testkit::clock::TestClock;
use testkit::handler::{Scripted, Step};
use testkit::memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);

/// Waits a second between attempts, by tokio's time, for as long as it is let.
fn patient() -> Retryer {
    let builder = Retryer::builder().schedule("1s forever".parse().unwrap()).attempts(1_000);
    builder.no_deadline().no_attempt_timeout().no_budget().clock(TokioClock).build().unwrap()
}

/// Three attempts without a wait.
fn quick() -> Retryer {
    Retryer::builder().schedule("0s x2".parse().unwrap()).no_budget().clock(TokioClock).build().unwrap()
}

async fn busy<T>(_: redrive_retry::Attempt) -> Result<T, io::Error> {
    Err(io::Error::other("busy"))
}

fn failed() -> Attempted {
    Attempted::failure(Failure::from_message("busy").with_status(503))
}

/// What is given out to be looked at when the flow is through.
type Seen<T> = Arc<Mutex<Vec<T>>>;

/// Runs one message through a handler with a budget of 20 calls and one attempt; the message's deadline is so many
/// milliseconds ahead. Answers with its entry and the calls of its attempt.
async fn one_attempt<F, R>(deadline: Option<i64>, run: F) -> (Entry, Option<u32>)
where
    F: Fn(Message, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Attempted> + Send + 'static,
{
    let clock = Arc::new(TestClock::default());
    let (store, handler) = (MemoryStore::shared(clock.clone()), Scripted::new());
    handler.otherwise(Step::run(run));
    let policy: PolicySpec =
        serde_json::from_str(r#"{ "retry": "1s x9", "budgets": { "attempts": 1, "calls": 20 } }"#).unwrap();
    let spec = FlowSpec {
        breaker: None,
        timeout: SECOND * 30,
        policy: Arc::new(policy.build().unwrap()),
        facts: FactSources { deadline: Some("header:deadline".parse().unwrap()), ..FactSources::default() },
        ..FlowSpec::new("orders", "orders", handler)
    };
    let (broker, ledger) = (store.broker(), store.ledger());
    let flow = Flow::start(spec, broker.clone(), ledger.clone(), clock.clone()).await.unwrap();
    let mut headers = Headers::new();
    if let Some(after) = deadline {
        headers.push("deadline", (clock.now().as_millis() + after).to_string());
    }
    let message = NewMessage { id: Some("a".to_owned()), headers, ..NewMessage::default() };
    broker.publish("orders", vec![message]).await.unwrap();
    tokio::time::sleep(SECOND * 100).await;
    flow.stop().await;
    let entry = ledger.entry("a").await.unwrap().expect("an entry");
    assert!(matches!(entry.state, EntryState::Dead | EntryState::Parked), "{}", entry.state);
    assert_eq!(entry.attempts, 1);
    let history = ledger.history(entry.id).await.unwrap();
    let calls = history.iter().find(|line| line.what == "attempt").expect("its attempt").calls;
    (entry, calls)
}

/// The stop and the number of attempts of a patient retryer in a handler.
async fn patience(deadline: Option<i64>) -> (Stop, u32) {
    let seen: Seen<(Stop, u32)> = Seen::default();
    let told = seen.clone();
    let (_, calls) = one_attempt(deadline, move |_, _| {
        let told = told.clone();
        async move {
            let error = patient().call(busy::<()>).await.unwrap_err();
            told.lock().unwrap().push((error.stop(), error.attempts()));
            failed()
        }
    })
    .await;
    let seen = seen.lock().unwrap().pop().expect("the handler came to its end");
    assert_eq!(calls, Some(seen.1));
    seen
}

#[tokio::test(start_paused = true)]
async fn a_retryer_ends_with_the_calls_of_its_message() {
    assert_eq!(patience(None).await, (Stop::CallBudget, 20));
}

#[tokio::test(start_paused = true)]
async fn a_retryer_ends_with_the_deadline_of_its_message() {
    let (stop, attempts) = patience(Some(2_500)).await;
    assert!(matches!(stop, Stop::NoTimeToWait { .. }), "{stop:?}");
    assert_eq!(attempts, 3);
}

/// What is late already is for the rules to judge; calls that are made all the same have the time of the attempt.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_ends_nothing() {
    assert_eq!(patience(Some(-30_000)).await, (Stop::CallBudget, 20));
}

#[tokio::test(start_paused = true)]
async fn a_retryer_ends_with_its_attempt() {
    let seen: Seen<Option<Duration>> = Seen::default();
    let told = seen.clone();
    let at_once = move |_: Message, _: Context| {
        told.lock().unwrap().push(CallBudget::current().and_then(|budget| budget.time_left()));
        async { failed() }
    };
    one_attempt(Some(3_600_000), at_once).await;
    assert_eq!(*seen.lock().unwrap(), [Some(SECOND * 30)]);
}

/// An attempt that is dropped, or that panics, is charged with the calls it made.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_end_is_charged() {
    let hangs = |_, _| async {
        let _ = quick().call(busy::<()>).await;
        std::future::pending().await
    };
    let (entry, calls) = one_attempt(None, hangs).await;
    assert_eq!((entry.reason.as_str(), calls), ("DOWNSTREAM_TIMEOUT", Some(3)));

    let panics = |_, _| async {
        let _ = quick().call(busy::<()>).await;
        panic!("no such warehouse")
    };
    assert_eq!(one_attempt(None, panics).await.1, Some(3));
}

/// A handler that counts for itself may have counted what its retryers did: nothing is charged twice.
#[tokio::test(start_paused = true)]
async fn the_larger_figure_is_charged() {
    for (said, charged) in [(1, 3), (3, 3), (5, 5)] {
        let counts = move |_, _| async move {
            let _ = quick().call(busy::<()>).await;
            Attempted { charge: Charge { calls: said, cost: 0 }, ..failed() }
        };
        assert_eq!(one_attempt(None, counts).await.1, Some(charged), "it said {said}");
    }
    let calls_nobody = |_, _| async { failed() };
    assert_eq!(one_attempt(None, calls_nobody).await.1, Some(1));
}

/// A task and a thread draw on the message's budget when they take it along.
#[tokio::test(start_paused = true)]
async fn what_is_spawned_takes_the_budget_along() {
    let spawns = |_, _| async {
        let alone = tokio::spawn(async { quick().call(busy::<()>).await.is_err() });
        let along = tokio::spawn(CallBudget::carry(async { quick().call(busy::<()>).await.is_err() }));
        assert!(alone.await.unwrap() && along.await.unwrap());
        let budget = CallBudget::current().expect("the message's");
        let blocks = move || quick().call_blocking(|_| Err::<(), _>("busy")).is_err();
        assert!(tokio::task::spawn_blocking(move || budget.enter(blocks)).await.unwrap());
        failed()
    };
    assert_eq!(one_attempt(None, spawns).await.1, Some(6));
}
