//! Whole flows whose members come and go: in the middle of a hold, of a wait, and of settling.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::message::{Headers as _, Message as _};
use redrive_core::{Failure, Message, PolicySpec};
use redrive_engine::handler::{Attempted, Context};
use redrive_engine::port::{Broker, Ledger, SystemClock};
use redrive_engine::{Apart, ApartOptions, Flow, FlowSpec, NoLedger};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow};
use redrive_sqlite::{Options, Store};
use serde_json::{Value, json};
use testkit::handler::{Scripted, Step};

use crate::lanes::Unread;
use crate::stage::{Stage, eventually, sorted};

/// A call of the handler: by whom, with which message, which attempt, and whether it succeeded.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    member: usize,
    pub(crate) id: String,
    pub(crate) attempt: u32,
    succeeded: bool,
}

/// What the handlers of all members have in common.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Vec<Called>>);

impl Journal {
    pub(crate) fn calls(&self) -> Vec<Called> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, id: &str) -> Vec<Called> {
        self.calls().into_iter().filter(|call| call.id == id).collect()
    }

    /// Waits until this holds of all calls so far.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&[Called]) -> bool) {
        eventually(what, async || holds(&self.calls()).then_some(())).await;
    }
}

/// The id of a record that brings none.
fn id(stage: &Stage, partition: i32, offset: usize) -> String {
    format!("{}/{partition}/{offset}", stage.name)
}

/// Whether an attempt with a message succeeds, by its number.
type Succeeds = dyn Fn(&Message, u32) -> bool + Send + Sync;

pub(crate) struct Company<'a> {
    stage: &'a Stage,
    pub(crate) kafka: KafkaFlow,
    policy: Value,
    pub(crate) journal: Arc<Journal>,
    /// Whether an attempt with this message succeeds.
    succeeds: Arc<Succeeds>,
    /// The ledger that all members share.
    pub(crate) store: Option<Arc<Store>>,
    members: usize,
}

impl<'a> Company<'a> {
    pub(crate) fn new(
        stage: &'a Stage,
        policy: Value,
        succeeds: impl Fn(&Message, u32) -> bool + Send + Sync + 'static,
    ) -> Self {
        let step = Duration::from_secs(2);
        let kafka = KafkaFlow {
            delay: DelayMode::Cascade,
            steps: vec![step],
            longest_delay: step,
            drain: Duration::from_secs(60),
            ..stage.flow()
        };
        Self {
            stage,
            kafka,
            policy,
            journal: Arc::default(),
            succeeds: Arc::new(succeeds),
            store: None,
            members: 0,
        }
    }

    /// Starts another member, with its number.
    pub(crate) async fn join(&mut self) -> (usize, Flow) {
        let member = self.members;
        self.members += 1;
        let (journal, succeeds) = (Arc::clone(&self.journal), Arc::clone(&self.succeeds));
        let handler = Scripted::new();
        handler.otherwise(Step::run(move |message: Message, context: Context| {
            let succeeded = succeeds(&message, context.attempt);
            let called = Called { member, id: message.id.to_string(), attempt: context.attempt, succeeded };
            journal.0.lock().unwrap().push(called);
            async move {
                if succeeded {
                    return Attempted::success();
                }
                Attempted::failure(Failure::from_message("the warehouse is closed").with_status(503))
            }
        }));
        let kafka = KafkaFlow { instance: format!("member{member}"), ..self.kafka.clone() };
        let mut spec = FlowSpec::new(&kafka.flow, &self.stage.name, handler);
        let policy: PolicySpec = serde_json::from_value(self.policy.clone()).unwrap();
        spec.policy = Arc::new(policy.build().unwrap());
        spec.breaker = None;
        spec.concurrency = 1;
        let clock = Arc::new(SystemClock::default());
        let mut broker: Arc<dyn Broker> = Arc::new(KafkaBroker::new(kafka).unwrap());
        let mut ledger: Arc<dyn Ledger> = Arc::new(NoLedger);
        if let Some(store) = &self.store {
            ledger = Arc::clone(store) as _;
            let home = Arc::new(Unread(Arc::clone(store) as _));
            let options = ApartOptions::default();
            let apart = Apart::new(broker, home, Arc::clone(&ledger), &spec.name, clock.clone(), options);
            broker = Arc::new(apart);
        }
        (member, Flow::start(spec, broker, ledger, clock).await.unwrap())
    }

    /// Waits until everything of these partitions is settled.
    async fn settled(&self, partitions: &[usize]) {
        for (partition, records) in partitions.iter().enumerate() {
            let partition = i32::try_from(partition).unwrap();
            eventually("everything is settled", async || {
                let committed = self.stage.committed(&self.stage.name, &self.stage.name, partition).await?;
                (committed.0 == i64::try_from(*records).unwrap()).then_some(())
            })
            .await;
        }
    }
}

/// Drops a flow: what is in hand is given up, and its group is told. A member that is gone without a word is in `groups`, and in
/// the tests that kill the binary.
async fn give_up(flow: Flow) {
    tokio::task::spawn_blocking(move || drop(flow)).await.unwrap();
}

/// A partition stands at a message that fails again and again, while members join, leave and are dropped: another member goes on
/// with that message, the other partitions go on all the while, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_stands_changes_hands() {
    let Some(stage) = Stage::shared("stands") else { return };
    stage.topics(3).await;
    let head = id(&stage, 0, 0);
    let open = Arc::new(AtomicBool::new(false));
    let (stuck, opened) = (head.clone(), Arc::clone(&open));
    let succeeds = move |message: &Message, _| *message.id != *stuck || opened.load(Ordering::SeqCst);
    let mut company = Company::new(&stage, json!({ "blocking": "50ms forever" }), succeeds);
    let journal = Arc::clone(&company.journal);
    let tried = |calls: &[Called]| calls.iter().filter(|call| call.id == head).count();

    stage.produce(&stage.name, 0, 0..1).await;
    let mut flows: BTreeMap<usize, Flow> = BTreeMap::new();
    flows.extend([company.join().await]);
    journal.until("the head is tried again", |calls| tried(calls) >= 2).await;
    stage.produce(&stage.name, 0, 1..6).await;
    let mut written = [6, 0, 0];

    // Two more join. Each has a part once it is called.
    for _ in 0..2 {
        let (member, flow) = company.join().await;
        flows.insert(member, flow);
        eventually("the member has a part", async || {
            for partition in [1, 2] {
                stage.produce(&stage.name, partition, 100..101).await;
                written[usize::try_from(partition).unwrap()] += 1;
            }
            journal.calls().iter().any(|call| call.member == member).then_some(())
        })
        .await;
    }
    // Whoever has the head leaves; whoever has it then is dropped.
    for orderly in [true, false] {
        let before = tried(&journal.calls());
        journal.until("the head is tried by somebody", |calls| tried(calls) > before).await;
        let owner = journal.of(&head).last().unwrap().member;
        let flow = flows.remove(&owner).expect("who is gone calls nobody");
        if orderly {
            flow.stop().await;
        } else {
            give_up(flow).await;
        }
        let others = |calls: &[Called]| {
            calls.iter().rposition(|call| call.member == owner).map_or(0, |last| {
                calls[last..].iter().filter(|call| call.id == head && call.member != owner).count()
            })
        };
        journal.until("another one has the head", |calls| others(calls) >= 2).await;
    }
    open.store(true, Ordering::SeqCst);
    company.settled(&written).await;
    for (partition, records) in written.iter().enumerate() {
        for offset in 0..*records {
            let calls = journal.of(&id(&stage, i32::try_from(partition).unwrap(), offset));
            assert!(calls.iter().any(|call| call.succeeded), "{partition}/{offset}: {calls:?}");
        }
    }
    for (_, flow) in flows {
        flow.stop().await;
    }
    let attempts: Vec<u32> = journal.of(&head).iter().map(|call| call.attempt).collect();
    assert!(journal.of(&head).iter().filter(|call| call.succeeded).count() == 1, "{attempts:?}");
    assert!(stage.read(&format!("{}.dlq", stage.name)).await.is_empty());
}

/// The same with a ledger that the members share: whoever has the partition next goes on with the count, and what stands
/// behind the message waits all the while.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_changes_hands_with_its_partition() {
    let Some(stage) = Stage::shared("counts") else { return };
    stage.topics(1).await;
    let folder = tempfile::tempdir().unwrap();
    let head = id(&stage, 0, 0);
    let stuck = head.clone();
    let open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&open);
    let succeeds = move |message: &Message, _| *message.id != *stuck || opened.load(Ordering::SeqCst);
    let mut company = Company::new(&stage, json!({ "blocking": "500ms x1000" }), succeeds);
    company.store = Some(Arc::new(Store::open(folder.path().join("ledger.db"), Options::default()).unwrap()));
    let journal = Arc::clone(&company.journal);
    stage.produce(&stage.name, 0, 0..3).await;
    let (_, first) = company.join().await;
    journal.until("the head is tried again", |calls| calls.len() >= 2).await;
    let (second, other) = company.join().await;
    first.stop().await;
    journal.until("another one has it", |calls| calls.iter().any(|call| call.member == second)).await;
    open.store(true, Ordering::SeqCst);
    company.settled(&[3]).await;
    let attempts: Vec<u32> = journal.of(&head).iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, (1..).take(attempts.len()).collect::<Vec<u32>>());
    let order: Vec<String> = journal.calls().into_iter().skip(attempts.len()).map(|call| call.id).collect();
    assert_eq!(order, [id(&stage, 0, 1), id(&stage, 0, 2)]);
    other.stop().await;
}

/// Messages wait in a delay topic while members join, leave and are dropped. Each has one copy there, and is tried again once
/// when it is due, by the member that is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_changes_hands() {
    const ALL: usize = 10;
    /// Long enough for all the changes, on a busy machine too.
    const WAIT: Duration = Duration::from_secs(30);
    let Some(stage) = Stage::shared("waits") else { return };
    stage.topics(2).await;
    let marker = id(&stage, 0, ALL);
    let at_once = marker.clone();
    let succeeds = move |message: &Message, attempt| attempt > 1 || *message.id == *at_once;
    let mut company = Company::new(&stage, json!({ "retry": "30s" }), succeeds);
    company.kafka.steps = vec![WAIT];
    company.kafka.longest_delay = WAIT;
    let journal = Arc::clone(&company.journal);
    let all: Vec<String> = (0..2)
        .flat_map(|partition| (0..ALL).map(move |offset| (partition, offset)))
        .map(|(p, o)| id(&stage, p, o))
        .collect();
    let none_was_tried_again =
        |when: &str| assert!(journal.calls().iter().all(|call| call.attempt == 1), "{when}");
    stage.produce(&stage.name, 0, 0..ALL).await;
    stage.produce(&stage.name, 1, ALL..2 * ALL).await;
    let (_, first) = company.join().await;
    company.settled(&[ALL, ALL]).await;
    let (second, other) = company.join().await;
    none_was_tried_again("as the first one begins to stop");
    first.stop().await;
    // It has what the first one had, and with that what waits.
    stage.produce(&stage.name, 0, 2 * ALL..2 * ALL + 1).await;
    journal.until("the second one reads", |calls| calls.iter().any(|call| call.id == marker)).await;
    assert_eq!(journal.of(&marker).last().unwrap().member, second);
    let (third, last) = company.join().await;
    none_was_tried_again("as the second one is dropped");
    give_up(other).await;
    journal
        .until("all were tried again", |calls| {
            all.iter().all(|id| calls.iter().any(|call| call.id == *id && call.attempt == 2))
        })
        .await;
    company.settled(&[ALL + 1, ALL]).await;
    last.stop().await;
    for id in &all {
        let calls: Vec<(u32, bool)> =
            journal.of(id).iter().map(|call| (call.attempt, call.member == third)).collect();
        assert_eq!(calls, [(1, false), (2, true)], "{id}");
    }
    let waited = stage.read(&format!("{}.retry.30s", stage.name)).await;
    assert_eq!(sorted(&waited), (0..2 * ALL).collect::<Vec<_>>(), "one copy of each");
    assert!(stage.read(&format!("{}.dlq", stage.name)).await.is_empty());
}

/// Members join, leave and are dropped while messages are dead-lettered, each after it has had a part: each dead letter is
/// there once.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_settled_once_while_members_come_and_go() {
    const WAVE: usize = 60;
    const PARTITIONS: usize = 3;
    let Some(stage) = Stage::shared("settles") else { return };
    stage.topics(i32::try_from(PARTITIONS).unwrap()).await;
    let number = |message: &Message| -> usize {
        std::str::from_utf8(message.body.as_deref().unwrap()).unwrap().parse().unwrap()
    };
    let dead = |number: usize| number.is_multiple_of(3);
    let mut company = Company::new(&stage, json!({ "budgets": { "attempts": 1 } }), move |message, _| {
        !dead(number(message))
    });
    let journal = Arc::clone(&company.journal);
    let mut written = [0; PARTITIONS];
    let mut all = 0;
    let mut wave = async || {
        let seen = journal.calls().len();
        for (partition, records) in written.iter_mut().enumerate() {
            stage.produce(&stage.name, i32::try_from(partition).unwrap(), all..all + WAVE / PARTITIONS).await;
            *records += WAVE / PARTITIONS;
            all += WAVE / PARTITIONS;
        }
        journal.until("a wave has begun", |calls| calls.len() > seen).await;
        (written, all)
    };
    let (_, first) = company.join().await;
    wave().await;
    let mut flows = Vec::new();
    for _ in 0..2 {
        let (member, flow) = company.join().await;
        flows.push(flow);
        eventually("the member has a part", async || {
            wave().await;
            journal.calls().iter().any(|call| call.member == member).then_some(())
        })
        .await;
    }
    let (third, second) = (flows.pop().unwrap(), flows.pop().unwrap());
    first.stop().await;
    wave().await;
    give_up(second).await;
    let (written, all) = wave().await;
    company.settled(&written).await;
    third.stop().await;
    let letters = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    let expected: Vec<usize> = (0..all).filter(|number| dead(*number)).collect();
    assert_eq!(letters, expected);
    let succeeded: usize = written.iter().sum::<usize>() - expected.len();
    let calls = journal.calls();
    let ids: std::collections::BTreeSet<&str> =
        calls.iter().filter(|call| call.succeeded).map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), succeeded, "each of the others came through");
}

/// Copies wait without their bodies, and the source drops those: without a ledger nobody has them, so that the messages are
/// parked, untried. One whose body is there still goes its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_body_is_gone_is_parked() {
    const ALL: usize = 10;
    let Some(stage) = Stage::shared("gone") else { return };
    stage.topics(1).await;
    let mut company = Company::new(&stage, json!({ "retry": "15s" }), |_, attempt| attempt > 1);
    company.kafka.delay = DelayMode::Pointer;
    let journal = Arc::clone(&company.journal);
    stage.produce(&stage.name, 0, 0..ALL + 1).await;
    let (_, flow) = company.join().await;
    journal.until("each has failed", |calls| calls.len() > ALL).await;
    company.settled(&[ALL + 1]).await;
    stage.drop_before(&stage.name, 0, i64::try_from(ALL).unwrap()).await;
    let parking = format!("{}.parking", stage.name);
    let parked = eventually("they are parked", async || {
        let parked = stage.read(&parking).await;
        (parked.len() == ALL).then_some(parked)
    })
    .await;
    for record in &parked {
        let headers = record.headers().unwrap();
        let header = |name: &str| headers.iter().find(|header| header.key == name).and_then(|one| one.value);
        assert_eq!(header("x-failure-reason"), Some(&b"BODY_GONE"[..]));
        assert!(record.payload().is_none() && header("x-body-at").is_some());
    }
    let last = id(&stage, 0, ALL);
    journal
        .until("the other one succeeds", |calls| calls.iter().any(|call| call.id == last && call.succeeded))
        .await;
    assert_eq!(journal.calls().len(), ALL + 2, "no call without a body");
    flow.stop().await;
}
