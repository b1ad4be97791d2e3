//! Topics that change while they are read.

use std::collections::BTreeMap;

use rdkafka::Message as _;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{FutureProducer, FutureRecord};
use redrive_engine::port::{Broker as _, Outcome, Subscription};
use redrive_kafka::KafkaBroker;

use crate::stage::{PATIENCE, Seat, Stage, eventually, numbers, sorted};

#[tokio::test(flavor = "multi_thread")]
async fn new_partitions_are_read() {
    let Some(stage) = Stage::shared("grown") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..10).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(10).await;
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let grown =
        stage.admin().create_partitions(&[NewPartitions::new(&stage.name, 4)], &options).await.unwrap();
    assert!(grown.iter().all(Result::is_ok), "{grown:?}");
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
