//! A whole flow while one of its copies is refused.

use std::sync::{Arc, Mutex};

use rdkafka::admin::AdminOptions;
use redrive_core::{Failure, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Context};
use redrive_engine::port::{Broker, SystemClock};
use redrive_engine::{Flow, FlowSpec, NoLedger};
use redrive_kafka::{KafkaBroker, KafkaFlow, SettleMode};
use serde_json::json;
use testkit::handler::{Scripted, Step};

use crate::stage::{PATIENCE, Stage, eventually, sorted};

/// The topic of dead letters is deleted: the message that is to go there stays, no other one is handled meanwhile, and all
/// goes on once the topic is made.
async fn no_call_is_made_while_a_dead_letter_is_refused(settle: SettleMode) {
    const BEHIND: usize = 10;
    let Some(stage) = Stage::shared("halted") else { return };
    let dead = format!("{}.dlq", stage.name);
    stage.topics(1).await;
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    let (handler, calls) = (Scripted::new(), Arc::clone(&called));
    handler.otherwise(Step::run(move |message: Message, _: Context| {
        let body = String::from_utf8(message.body.unwrap_or_default().to_vec()).unwrap();
        let fails = body == "0";
        calls.lock().unwrap().push(body);
        async move {
            if fails {
                Attempted::failure(Failure::from_message("no").with_status(503))
            } else {
                Attempted::success()
            }
        }
    }));
    let mut spec = FlowSpec::new(&stage.name, &stage.name, handler);
    let policy: PolicySpec = serde_json::from_value(json!({ "budgets": { "attempts": 1 } })).unwrap();
    spec.policy = Arc::new(policy.build().unwrap());
    spec.breaker = None;
    let broker: Arc<dyn Broker> = Arc::new(KafkaBroker::new(KafkaFlow { settle, ..stage.flow() }).unwrap());
    let clock = Arc::new(SystemClock::default());
    let flow = Flow::start(spec, Arc::clone(&broker), Arc::new(NoLedger), clock).await.unwrap();
    let view = flow.view();
    // The start has made sure of its topics.
    let admin = stage.admin();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let deleted = admin.delete_topics(&[&dead], &options).await.unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    eventually("the topic is gone", async || {
        let found = admin.inner().fetch_metadata(None, PATIENCE).ok()?;
        found.topics().iter().all(|topic| topic.name() != dead).then_some(())
    })
    .await;
    stage.produce(&stage.name, 0, 0..1).await;

    eventually("the missing topic is named, and the flow is held", async || {
        let named =
            broker.alarms().iter().any(|alarm| alarm.name == "topic_missing" && alarm.why.contains(&dead));
        (named && view.trouble().is_some()).then_some(())
    })
    .await;
    stage.produce(&stage.name, 0, 1..BEHIND + 1).await;
    // They are there, and as far as they may come.
    eventually("those behind it are in hand", async || (view.in_hand() > BEHIND).then_some(())).await;
    assert_eq!(*called.lock().unwrap(), ["0"], "{settle:?}: no call while something cannot be settled");
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await.map_or(0, |at| at.0), 0);

    stage.topic(&dead, 1, &[]).await;
    eventually("everything is settled", async || {
        let committed = stage.committed(&stage.name, &stage.name, 0).await?;
        (committed.0 == i64::try_from(BEHIND + 1).unwrap()).then_some(())
    })
    .await;
    assert_eq!(called.lock().unwrap().len(), BEHIND + 1, "each was called once");
    assert_eq!(sorted(&stage.read(&dead).await), [0]);
    eventually("nothing is the matter any more", async || {
        (broker.alarms().is_empty() && view.trouble().is_none()).then_some(())
    })
    .await;
    flow.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_made_while_a_dead_letter_is_refused_in_a_transaction() {
    no_call_is_made_while_a_dead_letter_is_refused(SettleMode::Transactional).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_made_while_a_dead_letter_is_refused_plainly() {
    no_call_is_made_while_a_dead_letter_is_refused(SettleMode::Plain).await;
}
