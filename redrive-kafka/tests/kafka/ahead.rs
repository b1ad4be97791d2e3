//! What waits long does not hold up what waits shortly, however much of it there is.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::message::Message as _;
use rdkafka::producer::FutureRecord;
use redrive_core::headers::{Key, Keyring, Spelling, Trail};
use redrive_core::{Headers, Timestamp};
use redrive_engine::port::{Broker as _, Clock as _, HeaderRules, Outcome, Subscription, SystemClock};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow, Window};

use crate::stage::{Seat, Stage, headers, numbers};

fn now() -> Timestamp {
    SystemClock::default().now()
}

/// Not early, nor by much more than a busy machine needs: what it stands behind waits for an hour.
fn is_in_time(due: Timestamp) {
    let now = now();
    assert!(now >= due && now < due + Duration::from_secs(30), "due at {due}, and it is {now}");
}

fn flow(stage: &Stage, delay: DelayMode, steps: &[u64]) -> KafkaFlow {
    KafkaFlow {
        delay,
        steps: steps.iter().map(|seconds| Duration::from_secs(*seconds)).collect(),
        longest_delay: Duration::from_secs(3_600),
        ..stage.flow()
    }
}

/// Makes what the flow needs, and tells the names of it.
async fn make(flow: &KafkaFlow) -> Vec<String> {
    let broker = KafkaBroker::new(flow.clone()).unwrap();
    let subscription = Subscription::new(flow.flow.clone(), flow.topics[0].as_str());
    let plan = broker.plan(&subscription).await.unwrap();
    broker.apply(&plan).await.unwrap();
    tokio::task::spawn_blocking(move || drop(broker)).await.unwrap();
    plan.into_iter().map(|topic| topic.name).collect()
}

/// Writes waiting copies of numbered messages, all with one due time, as settling writes them.
pub(crate) async fn write_waiting(
    stage: &Stage,
    topic: &str,
    numbers: std::ops::Range<usize>,
    due: Timestamp,
) {
    let producer = stage.producer();
    let trail = Trail { attempt: 1, process_after: Some(due), ..Trail::default() };
    let mut all = Headers::new();
    redrive_core::headers::encode(&trail, &mut all, Spelling::Default);
    let all: Vec<(&str, Option<&[u8]>)> =
        all.iter().map(|header| (header.name.as_str(), header.value.as_deref())).collect();
    let bodies: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let sent: Vec<_> = bodies
        .iter()
        .map(|body| {
            let record = FutureRecord::to(topic).partition(0).key(body).payload(body).headers(headers(&all));
            producer.send_result(record).map_err(|(error, _)| error).unwrap()
        })
        .collect();
    for one in sent {
        one.await.unwrap().unwrap();
    }
    tokio::task::spawn_blocking(move || drop(producer)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_of_an_hour_lie_before_one_of_a_second() {
    const LONG: usize = 10_000;
    let Some(stage) = Stage::shared("single") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    let flow = flow(&stage, DelayMode::Single, &[]);
    make(&flow).await;
    let retry = format!("{}-retry", stage.name);
    let hour = now() + Duration::from_secs(3_600);
    write_waiting(&stage, &retry, 0..LONG, hour).await;
    let due = now() + Duration::from_secs(1);
    write_waiting(&stage, &retry, LONG..LONG + 1, due).await;
    let mut seat = Seat::new(flow.clone()).await;
    let first = seat.take(1).await;
    assert_eq!(numbers(&first), [LONG]);
    is_in_time(due);
    seat.end(&first, &Outcome::Ack).await;
    // It is finished beyond all that wait, and a restart does not run it again.
    seat.leave().await;
    write_waiting(&stage, &retry, LONG + 1..LONG + 2, now()).await;
    let mut next = Seat::new(flow).await;
    let second = next.take(1).await;
    assert_eq!(numbers(&second), [LONG + 1]);
    next.end(&second, &Outcome::Ack).await;
    assert!(next.take_now(10).await.is_empty());
    next.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_of_an_hour_that_fills_the_window_does_not_hold_up_a_level_of_a_second() {
    let Some(stage) = Stage::shared("levels") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    let mut flow = flow(&stage, DelayMode::Cascade, &[1, 3_600]);
    // Ten times as many wait for an hour as the window holds.
    flow.window = Window { records: 500, bytes: 1 << 20 };
    let topics = make(&flow).await;
    let (hour, second) = (format!("{}.retry.1h", stage.name), format!("{}.retry.1s", stage.name));
    assert!(topics.contains(&hour) && topics.contains(&second), "{topics:?}");
    write_waiting(&stage, &hour, 0..5_000, now() + Duration::from_secs(3_600)).await;
    let mut seat = Seat::new(flow).await;
    for round in 0..5 {
        let due = now() + Duration::from_secs(1);
        write_waiting(&stage, &second, 5_000 + round * 200..5_200 + round * 200, due).await;
        let taken = seat.take(200).await;
        is_in_time(due);
        assert_eq!(numbers(&taken), (5_000 + round * 200..5_200 + round * 200).collect::<Vec<_>>());
        seat.end(&taken, &Outcome::Ack).await;
    }
    seat.leave().await;
}

/// A way of several hops ends when the message is due, with the bytes that began it, in its partition.
#[tokio::test(flavor = "multi_thread")]
async fn a_way_of_several_hops_is_signed_and_ends_in_time() {
    let Some(stage) = Stage::shared("hops") else { return };
    stage.topic(&stage.name, 3, &[]).await;
    let flow = flow(&stage, DelayMode::Cascade, &[1]);
    make(&flow).await;
    stage.produce(&stage.name, 2, 0..5).await;
    let rules = HeaderRules::new(Spelling::UpperDelay).signed(Keyring::new(Key::generate([3; 32])));
    let mut subscription = Subscription::new(flow.flow.clone(), flow.topics[0].as_str());
    subscription.headers = rules;
    let broker = std::sync::Arc::new(KafkaBroker::new(flow.clone()).unwrap());
    let source = broker.subscribe(&subscription).await.unwrap();
    let mut seat = Seat { broker, source };
    let taken = seat.take(5).await;
    // 19 s are 12 s and, within its slack, 5 s: two hops.
    let due = now() + Duration::from_secs(19);
    let settled: Vec<_> = taken
        .iter()
        .map(|one| {
            let mut settlement =
                redrive_engine::port::Settlement::plain(one.clone(), Outcome::Delay { until: due });
            let mut trail = Trail { attempt: 1, ..Trail::default() };
            trail.origin.topic = Some((&*one.source.name).into());
            trail.origin.partition = one.source.partition;
            trail.origin.offset = one.source.offset;
            settlement.trail = Some(Box::new(trail));
            settlement
        })
        .collect();
    assert!(seat.broker.settle(&settled).await.iter().all(Result::is_ok));
    let again = seat.take(5).await;
    is_in_time(due);
    assert_eq!(numbers(&again), (0..5).collect::<Vec<_>>());
    for one in &again {
        assert_eq!(one.trail.doubt(), None, "every hop is signed");
        assert_eq!((one.trail.attempt, one.ready_at, one.source.partition), (1, due, Some(2)));
    }
    seat.end(&again, &Outcome::Ack).await;
    let mut hops: HashMap<String, usize> = HashMap::new();
    for level in ["12s", "5s"] {
        let topic = format!("{}.retry.{level}", stage.name);
        for record in stage.read(&topic).await {
            assert_eq!(record.partition(), 2);
            *hops.entry(level.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(hops, HashMap::from([("12s".to_owned(), 5), ("5s".to_owned(), 5)]));
    seat.leave().await;
}
