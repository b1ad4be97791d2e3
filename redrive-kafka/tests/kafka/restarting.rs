//! A whole flow while its broker is restarted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::{Failure, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Context};
use redrive_engine::port::{Broker, SystemClock};
use redrive_engine::{Flow, FlowSpec, NoLedger};
use redrive_kafka::KafkaBroker;
use serde_json::json;
use testkit::Server;
use testkit::handler::{Scripted, Step};
use tokio::sync::Semaphore;

use crate::stage::{PATIENCE, Stage, eventually, sorted};

/// The broker is stopped in an orderly way while calls run. They come to their end, what they did waits in hand until it can
/// be written down, and no other call begins before that; once the broker is back each message is handled once.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_begins_while_the_broker_is_restarted() {
    const ALL: usize = 40;
    const AT_ONCE: usize = 4;
    let Some(stage) = Stage::own("restarted") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..ALL).await;
    let begun: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (ended, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let handler = Scripted::new();
    let (calls, ends, opens) = (Arc::clone(&begun), Arc::clone(&ended), Arc::clone(&gate));
    handler.otherwise(Step::run(move |message: Message, _: Context| {
        let (calls, ends, opens) = (Arc::clone(&calls), Arc::clone(&ends), Arc::clone(&opens));
        async move {
            let number: usize = std::str::from_utf8(&message.body.unwrap()).unwrap().parse().unwrap();
            calls.lock().unwrap().push(number);
            opens.acquire().await.unwrap().forget();
            ends.fetch_add(1, Ordering::SeqCst);
            if number.is_multiple_of(4) {
                return Attempted::failure(Failure::from_message("no").with_status(503));
            }
            Attempted::success()
        }
    }));
    let mut spec = FlowSpec::new(&stage.name, &stage.name, handler);
    let policy: PolicySpec = serde_json::from_value(json!({ "budgets": { "attempts": 1 } })).unwrap();
    spec.policy = Arc::new(policy.build().unwrap());
    spec.breaker = None;
    spec.concurrency = AT_ONCE;
    spec.timeout = PATIENCE;
    let mut kafka = stage.flow();
    // However long the restart takes, it costs nobody a partition.
    kafka.client.options.insert("session.timeout.ms".to_owned(), "300000".to_owned());
    let broker: Arc<dyn Broker> = Arc::new(KafkaBroker::new(kafka).unwrap());
    let clock = Arc::new(SystemClock::default());
    let flow = Flow::start(spec, broker, Arc::new(NoLedger), clock).await.unwrap();
    let view = flow.view();
    let calls = || begun.lock().unwrap().len();
    eventually("calls run", async || (calls() == AT_ONCE).then_some(())).await;

    stage.order(Server::stop).await;
    eventually("the flow knows that it cannot read", async || view.trouble().map(drop)).await;
    // Those that run come to their end, and it is found out that this cannot be written down.
    gate.add_permits(AT_ONCE);
    let settles_not = |why: &Arc<str>| !why.contains("Kafka does not answer: ");
    eventually("the flow knows that it cannot settle", async || view.trouble().filter(settles_not).map(drop))
        .await;
    gate.add_permits(ALL);
    eventually("what runs ends", async || (ended.load(Ordering::SeqCst) == calls()).then_some(())).await;
    // Nothing is waited for: it is the time in which calls could begin, if they were not held.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(calls() <= 2 * AT_ONCE, "{} calls while the broker is away", calls());
    assert_eq!(ended.load(Ordering::SeqCst), calls());
    assert!(view.alarms().iter().any(|alarm| &*alarm.name == "broker_away"));

    stage.order(Server::start).await;
    stage.answers().await;
    eventually("everything is settled", async || {
        let committed = stage.committed(&stage.name, &stage.name, 0).await?;
        (committed.0 == i64::try_from(ALL).unwrap()).then_some(())
    })
    .await;
    let mut handled = begun.lock().unwrap().clone();
    handled.sort_unstable();
    assert_eq!(handled, (0..ALL).collect::<Vec<_>>(), "each was handled once");
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    assert_eq!(dead, (0..ALL).step_by(4).collect::<Vec<_>>());
    eventually("nothing is the matter any more", async || {
        (view.trouble().is_none() && view.alarms().is_empty()).then_some(())
    })
    .await;
    flow.stop().await;
}
