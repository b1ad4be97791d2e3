//! Connections that are refused, and connections that are lost.

use std::time::Duration;

use redrive_engine::port::{Broker as _, Delivery, NewMessage, Outcome, PortError, Refusal, Room};
use redrive_rabbitmq::RabbitBroker;

use crate::stage::{PATIENCE, Stage, eventually, later, named, receive, settle, subscription};

async fn refused(stage: &Stage, change: impl FnOnce(&mut redrive_rabbitmq::Login)) -> String {
    let mut flow = stage.flow();
    change(&mut flow.login);
    let subscription = subscription(&flow);
    let broker = RabbitBroker::new(flow).unwrap();
    let planned = broker.plan(&subscription).await.expect_err("a plan");
    let begun = broker.subscribe(&subscription).await.err().expect("a source");
    assert!(!format!("{planned} {begun} {broker:?}").contains("open sesame"), "a secret is shown");
    begun.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_let_in_is_told_the_place_and_the_way_out() {
    let Some(stage) = Stage::shared("refused") else { return };
    let said = refused(&stage, |login| login.password = "open sesame".to_owned()).await;
    assert!(said.contains("does not let the user `guest` in"), "{said}");
    let said = refused(&stage, |login| login.vhost = "nowhere".to_owned()).await;
    assert!(said.contains("no virtual host `nowhere`"), "{said}");
    let said = refused(&stage, |login| login.port = 1).await;
    assert!(said.contains("127.0.0.1:1 does not answer") || said.contains(":1 "), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_lives_in_a_virtual_host_whose_name_has_a_slash() {
    let Some(stage) = Stage::shared("elsewhere") else { return };
    if !stage.server.ours_to_order() {
        return;
    }
    let vhost = format!("{}/b", stage.name);
    stage.server.tool(&["add_vhost", &vhost]);
    stage.server.tool(&["set_permissions", "-p", &vhost, "guest", ".*", ".*", ".*"]);
    let mut flow = stage.flow();
    flow.login.vhost.clone_from(&vhost);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let new = NewMessage { body: Some("body".into()), ..NewMessage::default() };
    broker.publish(&stage.name, vec![new]).await.unwrap();
    let first = receive(&mut source, 1).await.remove(0);
    settle(&broker, &first, later(Duration::from_millis(100))).await.unwrap();
    let second = receive(&mut source, 1).await.remove(0);
    assert_eq!(second.trail.attempt, 1);
    settle(&broker, &second, Outcome::DeadLetter).await.unwrap();
    let dead = format!("{}.dlq", stage.name);
    let queues = broker.queues().await.unwrap();
    assert_eq!(queues.iter().find(|queue| queue.name == dead).unwrap().depth.ready, 1, "{queues:?}");
    assert_eq!(stage.ready(&dead).await, None, "nothing of it is in the usual one");
    drop((source, broker));
    stage.server.tool(&["delete_vhost", &vhost]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_not_there_is_named() {
    let Some(stage) = Stage::shared("missing") else { return };
    let mut flow = stage.flow();
    flow.owned = false;
    let broker = RabbitBroker::new(flow.clone()).unwrap();
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    let source = plan.iter().find(|thing| thing.name == stage.name).unwrap();
    assert!(!source.exists && source.drift[0].contains("not the flow's own"), "{source:?}");
    let refused = broker.apply(&plan).await.expect_err("it is not ours to make");
    assert!(refused.to_string().contains(&stage.name), "{refused}");
    let refused = broker.subscribe(&subscription(&flow)).await.err().expect("nothing to read");
    assert_eq!(refused, Refusal::NotFound { what: "queue", name: stage.name.clone() }.into());
    assert_eq!(broker.alarms()[0].name, "queue_missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_under_the_flow_is_made_again_and_read() {
    let Some(stage) = Stage::shared("deleted") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let mut revoked = source.revoked().expect("losses");
    stage.publish("lost with its queue", named("a")).await;
    let before = receive(&mut source, 1).await.remove(0);
    stage.delete(&stage.name).await;
    let lost = tokio::time::timeout(PATIENCE, revoked.recv()).await.unwrap().expect("a loss");
    assert!(lost.had(before.tag));
    let gone = settle(&broker, &before, later(Duration::from_millis(100))).await;
    assert!(matches!(gone, Err(PortError::Refused(Refusal::NotFound { .. }))), "{gone:?}");
    // Whether the flow asks before it is over or afterwards depends on the machine.
    eventually("the queue", async || stage.ready(&stage.name).await).await;
    eventually("the end of the alarm", async || broker.alarms().is_empty().then_some(())).await;
    stage.publish("body", named("b")).await;
    let after = receive(&mut source, 1).await.remove(0);
    assert_ne!(after.tag.epoch, before.tag.epoch);
    // The binding was made again, too: nothing comes by the way of what has gone astray.
    let astray = format!("{}-astray", stage.name);
    stage.queue(&astray, Vec::new()).await;
    stage.bind(&format!("{}.stray", stage.name), &astray, "").await;
    settle(&broker, &after, later(Duration::from_millis(100))).await.unwrap();
    assert_eq!(&*receive(&mut source, 1).await[0].message.id, "b");
    assert_eq!(stage.ready(&astray).await, Some(0));
    stage.delete(&astray).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_closes_are_made_again() {
    let Some(stage) = Stage::shared("closed") else { return };
    let flow = stage.flow();
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for id in ["in-hand", "waits"] {
        stage.publish(id, named(id)).await;
    }
    let read = receive(&mut source, 2).await;
    settle(&broker, &read[1], later(Duration::from_millis(300))).await.unwrap();
    if !tokio::task::block_in_place(|| stage.close_connections()) {
        return;
    }
    let mut again: Vec<Delivery> = Vec::new();
    while ["in-hand", "waits"].iter().any(|id| !again.iter().any(|one| *one.message.id == **id)) {
        let mut into = Vec::new();
        // It says that it is away, and that it is back.
        let _ = tokio::time::timeout(PATIENCE, source.receive(Room::of(1), &mut into)).await.unwrap();
        again.extend(into);
    }
    let gone = settle(&broker, &read[0], Outcome::Ack).await;
    assert!(matches!(gone, Err(PortError::Refused(Refusal::NotFound { .. }))), "{gone:?}");
    for delivery in &again {
        let attempts = u32::from(&*delivery.message.id != "in-hand");
        // What was acknowledged in the last moment may come again, since nobody confirms an acknowledgement.
        assert!(delivery.trail.attempt <= attempts, "nobody is charged for a lost connection");
        settle(&broker, delivery, Outcome::Ack).await.unwrap();
    }
    eventually("no alarm", async || broker.alarms().is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_loses_nothing() {
    let Some(stage) = Stage::own("restart") else { return };
    let mut flow = stage.flow();
    flow.confirm_timeout = Duration::from_secs(5);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for id in ["in-hand", "waits", "dead"] {
        stage.publish(id, named(id)).await;
    }
    let read = receive(&mut source, 3).await;
    settle(&broker, &read[1], later(Duration::from_millis(900))).await.unwrap();
    settle(&broker, &read[2], Outcome::DeadLetter).await.unwrap();
    let server = &stage.server;
    tokio::task::block_in_place(|| server.kill());
    let mut into = Vec::new();
    let away = eventually("an answer that it is away", async || {
        source.receive(Room::of(1), &mut Vec::new()).await.err()
    })
    .await;
    assert!(matches!(away, PortError::Unavailable(_)), "{away:?}");
    let mut apart = crate::stage::settlement(&read[0], Outcome::Park);
    apart.delivery.tag = redrive_engine::port::Tag::APART;
    let answer = broker.settle(&[apart]).await.remove(0);
    assert!(matches!(answer, Err(PortError::Unavailable(_))), "{answer:?}");
    tokio::task::block_in_place(|| server.start());
    tokio::time::timeout(PATIENCE, source.receive(Room::of(1), &mut into)).await.unwrap().unwrap();
    assert!(into.is_empty(), "it says that it is back");
    // What was acknowledged in the last moment may come again, since nobody confirms an acknowledgement.
    let mut again = Vec::new();
    while ["in-hand", "waits"]
        .iter()
        .any(|id| !again.iter().any(|delivery: &Delivery| *delivery.message.id == **id))
    {
        again.extend(receive(&mut source, 1).await);
    }
    let gone = settle(&broker, &read[0], Outcome::Ack).await;
    assert!(matches!(gone, Err(PortError::Refused(Refusal::NotFound { .. }))), "{gone:?}");
    for delivery in &again {
        settle(&broker, delivery, Outcome::Ack).await.unwrap();
    }
    assert_eq!(stage.get(&format!("{}.dlq", stage.name)).await.expect("a dead letter").data, b"dead");
    drop((source, broker));
    while let Some(left) = stage.get(&stage.name).await {
        assert_ne!(left.data, b"in-hand", "it was acknowledged");
    }
}
