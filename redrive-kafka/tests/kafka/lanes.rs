//! Lanes that lie on several members.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::producer::FutureRecord;
use redrive_core::{Failure, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Context};
use redrive_engine::port::{
    Actor, Broker, Capabilities, Clock as _, Delivery, Depth, EntryState, Ledger, NewMessage, Order,
    PortError, Published, QueueInfo, Room, Settled, Settlement, Source, Subscription, SystemClock, Topology,
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

/// The head of each lane lies in one partition and its followers in another one, which another member reads. One follower
/// arrives while its head waits for its second attempt, one while that attempt runs, and one as it ends: before the head
/// is settled, after, or in the middle of it. None is left behind, and none overtakes.
#[tokio::test(flavor = "multi_thread")]
async fn followers_arrive_elsewhere_while_their_head_waits_runs_and_finishes() {
    let Some(stage) = Stage::shared("lanes") else { return };
    stage.topics(2).await;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path().join("ledger.db"), Options::default()).unwrap());
    let calls = Arc::new(Calls::default());
    let producer = Arc::new(stage.producer());
    let someone = Actor { who: "test".to_owned(), why: "heads wait for as long as it takes".to_owned() };
    let now = || SystemClock::default().now();
    store.order(&stage.name, &Order::PauseRetries, &someone, now()).await.unwrap();

    let mut flows = Vec::new();
    for member in 0..2 {
        let (calls, producer, topic) = (Arc::clone(&calls), Arc::clone(&producer), stage.name.clone());
        let store_of_handler = Arc::clone(&store);
        let handler = Scripted::new();
        handler.otherwise(Step::run(move |message: Message, context: Context| {
            let (calls, producer, topic) = (Arc::clone(&calls), Arc::clone(&producer), topic.clone());
            let store = Arc::clone(&store_of_handler);
            async move {
                let lane = message.headers.get_text("lane", 64).unwrap().to_string();
                let body = String::from_utf8(message.body.unwrap().to_vec()).unwrap();
                calls.add(member, &lane, &body);
                if body == "head" && context.attempt == 1 {
                    return Attempted::failure(Failure::from_message("not yet").with_status(503));
                }
                if body == "head" {
                    // It does not end before the other member had its chance to call the follower.
                    publish(&producer, &topic, 1, &lane, "late").await;
                    held_or_called(&store, &calls, &lane, "late").await;
                    publish(&producer, &topic, 1, &lane, "last").await;
                    calls.add(member, &lane, "head ends");
                }
                Attempted::success()
            }
        }));
        let mut kafka = KafkaFlow { instance: format!("member{member}"), ..stage.flow() };
        kafka.delay = DelayMode::Cascade;
        kafka.steps = vec![Duration::from_millis(200)];
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
    eventually("retries are paused", async || flows.iter().all(|flow| flow.view().paused().1).then_some(()))
        .await;
    // Both have a part before anything begins.
    let mut probes = 0;
    eventually("both members have a partition", async || {
        for partition in 0..2 {
            publish(&producer, &stage.name, partition, &format!("probe{partition}.{probes}"), "probe").await;
        }
        probes += 1;
        (0..2).all(|member| calls.has(member)).then_some(())
    })
    .await;
    let lanes: Vec<String> = (0..LANES).map(|lane| format!("lane{lane}")).collect();
    for lane in &lanes {
        publish(&producer, &stage.name, 0, lane, "head").await;
    }
    for lane in &lanes {
        eventually("the head waits", async || state(&store, lane, "head", EntryState::Waiting).await).await;
        publish(&producer, &stage.name, 1, lane, "early").await;
    }
    for lane in &lanes {
        held_or_called(&store, &calls, lane, "early").await;
        assert_eq!(calls.of(lane), ["head"], "what follows {lane} is called while its head waits");
    }
    store.order(&stage.name, &Order::ResumeRetries, &someone, now()).await.unwrap();
    for lane in &lanes {
        eventually("all followers came through", async || {
            calls.of(lane).iter().any(|body| body == "last").then_some(())
        })
        .await;
        assert_eq!(calls.of(lane), ["head", "head", "head ends", "early", "late", "last"], "{lane}");
    }
    eventually("no lane is held", async || (store.held_lanes(&stage.name).await.ok()? == 0).then_some(()))
        .await;
    for flow in flows {
        flow.stop().await;
    }
    let problems = store.check().await.unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

/// What the handlers of both members were called with: by whom, of which lane.
#[derive(Default)]
struct Calls(Mutex<Vec<(usize, String, String)>>);

impl Calls {
    fn add(&self, member: usize, lane: &str, body: &str) {
        self.0.lock().unwrap().push((member, lane.to_owned(), body.to_owned()));
    }

    fn has(&self, member: usize) -> bool {
        self.0.lock().unwrap().iter().any(|(by, ..)| *by == member)
    }

    /// In their order.
    fn of(&self, lane: &str) -> Vec<String> {
        let calls = self.0.lock().unwrap();
        calls.iter().filter(|(_, of, _)| of == lane).map(|(.., body)| body.clone()).collect()
    }
}

async fn state(store: &Store, lane: &str, body: &str, state: EntryState) -> Option<()> {
    let entry = store.entry(&format!("{lane}-{body}")).await.unwrap()?;
    (entry.state == state).then_some(())
}

/// Waits until a follower has arrived: it is kept, as it should be, or was called.
async fn held_or_called(store: &Store, calls: &Calls, lane: &str, body: &str) {
    let deadline = Instant::now() + PATIENCE;
    while state(store, lane, body, EntryState::Held).await.is_none() {
        if calls.of(lane).iter().any(|other| other == body) {
            return;
        }
        assert!(Instant::now() < deadline, "in vain: {body} of {lane} arrives");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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
