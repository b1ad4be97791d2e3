//! Topics that change while they are read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::Message as _;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{FutureProducer, FutureRecord};
use redrive_core::headers::Trail;
use redrive_engine::port::{Broker as _, Clock as _, Outcome, Settlement, Subscription, SystemClock};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow};

use crate::stage::{PATIENCE, Seat, Stage, StillClock, eventually, numbers, sorted};

#[tokio::test(flavor = "multi_thread")]
async fn new_partitions_are_read() {
    let Some(stage) = Stage::shared("grown") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..10).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(10).await;
    grow(&stage, 4).await;
    stage.produce(&stage.name, 3, 10..20).await;
    let more = seat.take(10).await;
    assert_eq!(numbers(&more), (10..20).collect::<Vec<_>>());
    assert!(more.iter().all(|one| one.source.partition == Some(3)));
    // The dead letters have one partition only.
    seat.end(&more, &Outcome::DeadLetter).await;
    seat.end(&taken, &Outcome::Ack).await;
    assert_eq!(stage.read(&format!("{}.dlq", stage.name)).await.len(), 10);
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((10, String::new())));
    assert_eq!(stage.committed(&stage.name, &stage.name, 3).await, Some((10, String::new())));
    seat.leave().await;
}

/// Delay topics stay as they are when the source grows: a record of a new partition waits where a producer of Kafka would
/// send its key, and comes when it is due, whose ever it lies between.
#[tokio::test(flavor = "multi_thread")]
async fn what_new_partitions_bring_waits_in_fewer() {
    const EACH: usize = 10;
    let Some(stage) = Stage::shared("outgrown") else { return };
    let like = format!("{}.like", stage.name);
    stage.topic(&stage.name, 2, &[]).await;
    stage.topic(&like, 2, &[]).await;
    let step = Duration::from_secs(5);
    let flow =
        KafkaFlow { delay: DelayMode::Cascade, steps: vec![step], longest_delay: step * 2, ..stage.flow() };
    let subscription = Subscription::new(flow.flow.clone(), stage.name.as_str());
    let broker = KafkaBroker::new(flow.clone()).unwrap();
    broker.apply(&broker.plan(&subscription).await.unwrap()).await.unwrap();
    tokio::task::spawn_blocking(move || drop(broker)).await.unwrap();
    let mut seat = Seat::new(flow).await;
    grow(&stage, 4).await;
    let mut config = stage.config();
    let producer: FutureProducer = config.set("partitioner", "murmur2_random").create().unwrap();
    let mut expected = BTreeMap::new();
    for (partition, from) in [(0, 0), (3, EACH)] {
        stage.produce(&stage.name, partition, from..from + EACH).await;
        for number in from..from + EACH {
            let key = number.to_string();
            let sent = producer.send(FutureRecord::<_, str>::to(&like).key(&key), PATIENCE).await.unwrap();
            expected.insert(number, if partition < 2 { partition } else { sent.partition });
        }
    }
    let taken = seat.take(2 * EACH).await;
    // Those of both partitions by turns, and the last one that is written first.
    let begun = SystemClock::default().now() + step;
    let due = |number: usize| {
        let place = 2 * (EACH - 1 - number % EACH) + number / EACH;
        begun + Duration::from_millis(50 * u64::try_from(place).unwrap())
    };
    let batch: Vec<Settlement> = taken
        .iter()
        .zip(numbers(&taken))
        .map(|(one, number)| {
            let mut settlement = Settlement::plain(one.clone(), Outcome::Delay { until: due(number) });
            let mut trail = Trail { attempt: 1, ..Trail::default() };
            trail.origin.topic = Some((&*one.source.name).into());
            (trail.origin.partition, trail.origin.offset) = (one.source.partition, one.source.offset);
            settlement.trail = Some(Box::new(trail));
            settlement
        })
        .collect();
    assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
    let mut again = Vec::new();
    while again.len() < 2 * EACH {
        for one in seat.take(1).await {
            let number = numbers(std::slice::from_ref(&one))[0];
            assert!(SystemClock::default().now() >= due(number), "never early");
            assert_eq!(one.ready_at, due(number));
            assert_eq!(one.trail.origin.partition, Some(if number < EACH { 0 } else { 3 }));
            again.push(one);
        }
    }
    let came = numbers(&again);
    let mut in_order: Vec<usize> = (0..2 * EACH).collect();
    in_order.sort_by_key(|number| due(*number));
    assert_eq!(came, in_order, "in the order of their due times, each once");
    seat.end(&again, &Outcome::Ack).await;
    let waited = stage.read(&format!("{}.retry.5s", stage.name)).await;
    let by_number = |one: &OwnedMessage| (sorted(std::slice::from_ref(one))[0], one.partition());
    assert_eq!(waited.iter().map(by_number).collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(waited.len(), 2 * EACH);
    seat.leave().await;
}

/// With `latest`, a partition that is added is read from where it ended when it was found.
#[tokio::test(flavor = "multi_thread")]
async fn new_partitions_are_read_from_their_end_where_that_is_said() {
    let Some(stage) = Stage::shared("latest") else { return };
    stage.topics(1).await;
    let mut flow = stage.flow();
    flow.client.options.insert("auto.offset.reset".to_owned(), "latest".to_owned());
    let clock = Arc::new(StillClock::default());
    stage.produce(&stage.name, 0, 0..5).await;
    let mut seat = Seat::with_clock(flow, clock.clone()).await;
    // Whatever is written once the partition is found comes.
    let mut next = 10;
    let mut comes = async |seat: &mut Seat, partition: i32, least: usize| {
        let taken = eventually("something comes", async || {
            stage.produce(&stage.name, partition, next..next + 1).await;
            next += 1;
            let taken = seat.take_now(100).await;
            (!taken.is_empty()).then_some(taken)
        })
        .await;
        assert!(numbers(&taken).iter().all(|number| *number >= least), "{:?}", numbers(&taken));
        // All that were written behind it do.
        let rest = seat.take(next - 1 - numbers(&taken).last().unwrap()).await;
        seat.end(&taken, &Outcome::Ack).await;
        seat.end(&rest, &Outcome::Ack).await;
        next
    };
    let before = comes(&mut seat, 0, 10).await;
    clock.stand_still(true);
    grow(&stage, 2).await;
    stage.produce(&stage.name, 1, 5..10).await;
    clock.stand_still(false);
    let after = comes(&mut seat, 1, before).await;
    let written = i64::try_from(after - before).unwrap() + 5;
    assert_eq!(stage.committed(&stage.name, &stage.name, 1).await, Some((written, String::new())));
    seat.leave().await;
}

async fn grow(stage: &Stage, partitions: usize) {
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let new = NewPartitions::new(&stage.name, partitions);
    let grown = stage.admin().create_partitions(&[new], &options).await.unwrap();
    assert!(grown.iter().all(Result::is_ok), "{grown:?}");
}

/// Where dead letters have fewer partitions than the source, the plan says what is lost by it. What has no partition of its
/// own number goes where a producer of Kafka would send its key.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_with_fewer_partitions_go_by_their_key() {
    let Some(stage) = Stage::shared("fewer") else { return };
    let (dead, like) = (format!("{}.dlq", stage.name), format!("{}.like", stage.name));
    stage.topic(&stage.name, 4, &[]).await;
    stage.topic(&dead, 2, &[]).await;
    stage.topic(&like, 2, &[]).await;
    let broker = KafkaBroker::new(stage.flow()).unwrap();
    let plan = broker.plan(&Subscription::new(stage.flow().flow, stage.name.as_str())).await.unwrap();
    let found = plan.iter().find(|one| one.name == dead).unwrap();
    assert!(found.exists && found.drift.iter().any(|drift| drift.contains("order")), "{found:?}");
    drop(broker);

    let mut config = stage.config();
    let producer: FutureProducer = config.set("partitioner", "murmur2_random").create().unwrap();
    let mut expected = BTreeMap::new();
    for partition in 0..4 {
        let numbers = usize::try_from(partition).unwrap() * 10..usize::try_from(partition + 1).unwrap() * 10;
        stage.produce(&stage.name, partition, numbers.clone()).await;
        for number in numbers {
            let key = number.to_string();
            let sent = producer.send(FutureRecord::<_, str>::to(&like).key(&key), PATIENCE).await.unwrap();
            expected.insert(number, if partition < 2 { partition } else { sent.partition });
        }
    }
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(40).await;
    seat.end(&taken, &Outcome::DeadLetter).await;
    let letters = stage.read(&dead).await;
    let by_number = |one: &OwnedMessage| (sorted(std::slice::from_ref(one))[0], one.partition());
    assert_eq!(letters.iter().map(by_number).collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(letters.len(), 40);
    seat.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_made_anew_is_read_from_its_beginning() {
    let Some(stage) = Stage::shared("anew") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..25).await;
    stage.produce(&stage.name, 1, 25..50).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(50).await;
    seat.end(&taken[..40], &Outcome::Ack).await;
    let admin = stage.admin();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let deleted = admin.delete_topics(&[&stage.name], &options).await.unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    // Some of the old one is still in hand. Its commit may be refused; it must not harm the new one.
    let _ = seat.settle(&taken[45..], &Outcome::Ack).await;
    eventually("the topic is made anew", async || {
        let made = rdkafka::admin::NewTopic::new(&stage.name, 2, rdkafka::admin::TopicReplication::Fixed(1));
        let made = admin.create_topics([&made], &options).await.ok()?;
        made.first()?.is_ok().then_some(())
    })
    .await;
    stage.produce(&stage.name, 0, 100..110).await;
    stage.produce(&stage.name, 1, 110..120).await;
    let mut new = Vec::new();
    while new.len() < 20 {
        // What was in hand of the old one may have come again before it went.
        let more = seat.take(20 - new.len()).await;
        new.extend(more.into_iter().filter(|one| numbers(std::slice::from_ref(one))[0] >= 100));
    }
    let mut came = numbers(&new);
    came.sort_unstable();
    assert_eq!(came, (100..120).collect::<Vec<_>>());
    seat.end(&new, &Outcome::Ack).await;
    for partition in 0..2 {
        let committed = stage.committed(&stage.name, &stage.name, partition).await;
        assert_eq!(committed, Some((10, String::new())), "{partition}");
    }
    seat.leave().await;
}

/// A source that is not there yet is named, and read once it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_comes_later_is_read() {
    let Some(stage) = Stage::shared("later") else { return };
    let mut seat = Seat::new(stage.flow()).await;
    eventually("the missing source is named", async || {
        seat.broker.alarms().iter().any(|alarm| alarm.name == "source_missing").then_some(())
    })
    .await;
    stage.topics(2).await;
    stage.produce(&stage.name, 1, 0..5).await;
    let taken = seat.take(5).await;
    assert_eq!(numbers(&taken), (0..5).collect::<Vec<_>>());
    seat.end(&taken, &Outcome::Ack).await;
    assert_eq!(seat.broker.alarms(), []);
    seat.leave().await;
}
