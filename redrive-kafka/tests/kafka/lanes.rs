//! Lanes that lie on several members.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rdkafka::producer::FutureRecord;
use redrive_core::{Failure, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Context};
use redrive_engine::port::{
    Broker, Capabilities, Delivery, Depth, Ledger, NewMessage, PortError, Published, QueueInfo, Room,
    Settled, Settlement, Source, Subscription, SystemClock, Topology,
};
use redrive_engine::{Apart, ApartOptions, Flow, FlowSpec};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow};
use redrive_sqlite::{Options, Store};
use serde_json::json;
use testkit::handler::{Scripted, Step};

use crate::stage::{PATIENCE, Stage, eventually, headers};

const LANES: usize = 12;

/// The ledger's own queue for a member that does not read it: in a file it has one reader.
#[derive(Debug)]
pub(crate) struct Unread(pub(crate) Arc<dyn Broker>);

struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn receive(&mut self, _: Room, _: &mut Vec<Delivery>) -> Result<(), PortError> {
        std::future::pending().await
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        Ok(Depth::default())
    }
}

#[async_trait]
impl Broker for Unread {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        self.0.plan(subscription).await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        self.0.apply(topology).await
    }

    async fn subscribe(&self, _: &Subscription) -> Result<Box<dyn Source>, PortError> {
        Ok(Box::new(Nothing))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        self.0.settle(batch).await
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        self.0.publish(target, messages).await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        self.0.queues().await
    }
}

/// The head of each lane lies in one partition and its follower in another one, which another member reads. The follower
/// is published while the head's last attempt runs, so that it arrives when the head is being settled: before, after, and in
/// the middle of it. None is left behind, and none overtakes.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_arrives_elsewhere_while_its_head_finishes() {
    let Some(stage) = Stage::shared("lanes") else { return };
    stage.topics(2).await;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("ledger.db"), Options::default()).unwrap());
    let calls: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let producer = Arc::new(stage.producer());

    let mut flows = Vec::new();
    for member in 0..2 {
        let (calls, producer, topic) = (Arc::clone(&calls), Arc::clone(&producer), stage.name.clone());
        let handler = Scripted::new();
        handler.otherwise(Step::run(move |message: Message, context: Context| {
            let (calls, producer, topic) = (Arc::clone(&calls), Arc::clone(&producer), topic.clone());
            async move {
                let lane = message.headers.get_text("lane", 64).unwrap().to_string();
                let body = String::from_utf8(message.body.unwrap().to_vec()).unwrap();
                if body == "head" && context.attempt == 1 {
                    return Attempted::failure(Failure::from_message("not yet").with_status(503));
                }
                if body == "head" {
                    publish(&producer, &topic, 1, &lane, "follower").await;
                }
                calls.lock().unwrap().push((member, format!("{lane} {body}")));
                Attempted::success()
            }
        }));
        let mut kafka = KafkaFlow { instance: format!("member{member}"), ..stage.flow() };
        kafka.delay = DelayMode::Cascade;
        kafka.steps = vec![std::time::Duration::from_millis(200)];
        kafka.ledger = true;
        let mut spec = FlowSpec::new(&kafka.flow, &stage.name, handler);
        let policy: PolicySpec = serde_json::from_value(json!({ "retry": "200ms x3" })).unwrap();
        spec.policy = Arc::new(policy.build().unwrap());
        spec.breaker = None;
        spec.order_by = "header:lane".parse().unwrap();
        let outer: Arc<dyn Broker> = Arc::new(KafkaBroker::new(kafka).unwrap());
        let ledger: Arc<dyn Ledger> = Arc::clone(&store) as _;
        let mut home = Arc::clone(&store) as Arc<dyn Broker>;
        if member > 0 {
            home = Arc::new(Unread(home));
        }
        let clock = Arc::new(SystemClock::default());
        let apart =
            Apart::new(outer, home, Arc::clone(&ledger), &spec.name, clock.clone(), ApartOptions::default());
        flows.push(Flow::start(spec, Arc::new(apart), ledger, clock).await.unwrap());
    }
    // Both have a part before anything begins.
    let mut probes = 0;
    eventually("both members have a partition", async || {
        for partition in 0..2 {
            publish(&producer, &stage.name, partition, &format!("probe{partition}.{probes}"), "probe").await;
        }
        probes += 1;
        let calls = calls.lock().unwrap();
        (0..2).all(|member| calls.iter().any(|(by, _)| *by == member)).then_some(())
    })
    .await;
    for lane in 0..LANES {
        publish(&producer, &stage.name, 0, &format!("lane{lane}"), "head").await;
    }
    let mut order: BTreeMap<String, Vec<String>> = BTreeMap::new();
    eventually("all followers came through", async || {
        order.clear();
        for (_, call) in &*calls.lock().unwrap() {
            let (lane, body) = call.split_once(' ').unwrap();
            order.entry(lane.to_owned()).or_default().push(body.to_owned());
        }
        (0..LANES)
            .all(|lane| {
                order
                    .get(&format!("lane{lane}"))
                    .is_some_and(|bodies| bodies.iter().any(|body| body == "follower"))
            })
            .then_some(())
    })
    .await;
    for lane in 0..LANES {
        assert_eq!(order[&format!("lane{lane}")], ["head", "follower"], "lane {lane}");
    }
    eventually("no lane is held", async || (store.held_lanes(&stage.name).await.ok()? == 0).then_some(()))
        .await;
    for flow in flows {
        flow.stop().await;
    }
    let problems = store.check().await.unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

async fn publish(
    producer: &rdkafka::producer::FutureProducer,
    topic: &str,
    partition: i32,
    lane: &str,
    body: &str,
) {
    let id = format!("{lane}-{body}");
    let headers = headers(&[("lane", Some(lane.as_bytes())), ("message-id", Some(id.as_bytes()))]);
    let record = FutureRecord::to(topic).partition(partition).key(lane).payload(body).headers(headers);
    producer.send(record, PATIENCE).await.unwrap();
}
