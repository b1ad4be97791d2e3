//! What a flow needs is planned, made once, and never changed.

use std::time::Duration;

use lapin::types::AMQPValue;
use redrive_engine::port::{Broker as _, Outcome};
use redrive_rabbitmq::{DelayMode, RabbitBroker};

use crate::stage::{Stage, later, named, now, receive, settle, subscription};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_changes_nothing_and_what_it_names_is_made_once() {
    let Some(stage) = Stage::shared("plan") else { return };
    let mut flow = stage.flow();
    flow.steps = vec![Duration::from_secs(10)];
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    assert!(plan.iter().all(|thing| !thing.exists), "{plan:?}");
    assert_eq!(stage.ready(&stage.name).await, None, "a plan makes nothing");
    let names: Vec<&str> = plan.iter().map(|thing| thing.name.as_str()).collect();
    for wanted in ["", ".retry.10s", ".retry.l01", ".retry.l09", ".stray", ".dlq", ".parking", ".resolved"] {
        assert!(names.contains(&format!("{}{wanted}", stage.name).as_str()), "{wanted}: {names:?}");
    }
    broker.apply(&plan).await.unwrap();
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    assert!(plan.iter().all(|thing| thing.exists && thing.drift.is_empty()), "{plan:?}");
    broker.apply(&plan).await.expect("once more");
    stage.delete(&format!("{}.retry.10s", stage.name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_as_it_should_be_is_named_and_left_alone() {
    let Some(stage) = Stage::shared("drift") else { return };
    let level = format!("{}.retry.l05", stage.name);
    let text = |text: &str| AMQPValue::LongString(text.into());
    stage
        .queue(&level, vec![("x-queue-type", text("quorum")), ("x-message-ttl", AMQPValue::LongInt(99))])
        .await;
    let flow = stage.flow();
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    let drifted: Vec<_> = plan.iter().filter(|thing| !thing.drift.is_empty()).collect();
    assert_eq!(drifted.len(), 1, "{drifted:?}");
    assert_eq!((drifted[0].name.as_str(), drifted[0].exists), (level.as_str(), true));
    assert!(drifted[0].drift[0].contains("inequivalent arg"), "{:?}", drifted[0].drift);
    broker.apply(&plan).await.expect("the rest is made");
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    assert!(plan.iter().all(|thing| thing.exists));
    assert_eq!(plan.iter().filter(|thing| !thing.drift.is_empty()).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_made_without_lifting_the_limit_of_deliveries_is_named_where_there_is_one() {
    let Some(stage) = Stage::shared("limited") else { return };
    if !stage.server.ours_to_order() {
        return;
    }
    let limits = !stage.server.version().expect("a version").starts_with("3.");
    stage.queue(&stage.name, vec![("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    for owned in [true, false] {
        let mut flow = stage.flow();
        flow.owned = owned;
        let broker = RabbitBroker::new(flow.clone()).unwrap();
        let plan = broker.plan(&subscription(&flow)).await.unwrap();
        let source = plan.iter().find(|thing| thing.name == stage.name).unwrap();
        // An older server would take -1 for a limit.
        assert_eq!(!source.drift.is_empty(), limits, "{source:?}");
        let policies = broker.policies().await;
        let lifted = |policy: &String| policy.contains(".stray$") && policy.contains("\"delivery-limit\":-1");
        assert_eq!(policies.iter().any(lifted), limits, "{policies:#?}");
        assert!(source.drift.iter().all(|drift| drift.contains("`delivery-limit` -1")), "{source:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plug_in_that_is_absent_is_named() {
    let Some(stage) = Stage::shared("plugin") else { return };
    let mut flow = stage.flow();
    flow.delay = DelayMode::DelayedExchange;
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    if let Err(refused) = broker.apply(&plan).await {
        assert!(refused.to_string().contains("rabbitmq_delayed_message_exchange"), "{refused}");
        return;
    }
    // A server that was given may have it.
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    for attempt in 0..3 {
        let delivery = receive(&mut source, 1).await.remove(0);
        assert_eq!((delivery.trail.attempt, &*delivery.message.id), (attempt, "a"));
        assert!(delivery.trail.process_after.is_none_or(|due| due <= now()), "it came too early");
        let outcome = if attempt == 2 { Outcome::Ack } else { later(Duration::from_millis(200)) };
        settle(&broker, &delivery, outcome).await.unwrap();
    }
}

#[tokio::test]
async fn policies_and_permissions_are_commands_to_run() {
    // Nobody is there who could be asked.
    let login = redrive_rabbitmq::Login::new("127.0.0.1", 1);
    let mut flow = redrive_rabbitmq::RabbitFlow::new("orders", login, "orders.in");
    flow.steps = vec![Duration::from_secs(10)];
    let broker = RabbitBroker::new(flow).unwrap();
    let policies = broker.policies().await;
    let wanted = "rabbitmqctl set_policy -p '/' --apply-to queues 'orders.retry.10s' '^orders\\.retry\\.10s$' \
                  '{\"dead-letter-exchange\":\"orders.retry\",\"dead-letter-strategy\":\"at-least-once\",\
                  \"message-ttl\":10000,\"overflow\":\"reject-publish\"}'";
    assert!(policies.iter().any(|policy| policy == wanted), "{policies:#?}");
    let level = "rabbitmqctl set_policy -p '/' --apply-to exchanges 'orders.retry.l10.exchange' \
                 '^orders\\.retry\\.l10$' '{\"alternate-exchange\":\"orders.stray\"}'";
    assert!(policies.iter().any(|policy| policy == level), "{policies:#?}");
    let ways = r"orders\.retry(\..*)?|orders\.stray";
    let own = format!(r"{ways}|orders\.resolved|orders\.dlq|orders\.parking|orders\.in");
    let written = format!(r"{ways}|orders\.in|amq\.default");
    assert_eq!(
        broker.permissions(),
        [format!(r"rabbitmqctl set_permissions -p '/' 'guest' '^({own})$' '^({written})$' '^({own})$'")]
    );
}
