//! Ending deliveries: copies first, then the release, together or one after the other.

use std::collections::BTreeSet;

use bytes::Bytes;
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, FutureRecord, Producer as _};
use redrive_core::headers::Trail;
use redrive_engine::port::{
    Broker as _, Delivery, DeliveryParts, NewMessage, Outcome, PortError, Published, Refusal, Settlement, Tag,
};
use redrive_kafka::{KafkaBroker, KafkaFlow, PartitionBy, SettleMode};

use crate::stage::{PATIENCE, Seat, Stage, eventually, numbers, sorted};

const MODES: [SettleMode; 2] = [SettleMode::Transactional, SettleMode::Plain];

fn with(stage: &Stage, settle: SettleMode) -> KafkaFlow {
    KafkaFlow { settle, ..stage.flow() }
}

/// One of each outcome, in one batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_everything_is_settled_in_both_modes() {
    for mode in MODES {
        let Some(stage) = Stage::shared("outcomes") else { return };
        stage.topics(2).await;
        stage.topic(&format!("{}.elsewhere", stage.name), 2, &[]).await;
        stage.produce(&stage.name, 0, 0..60).await;
        stage.produce(&stage.name, 1, 60..120).await;
        let elsewhere = format!("{}.elsewhere", stage.name);
        let mut seat = Seat::new(with(&stage, mode)).await;
        let taken = seat.take(120).await;
        let event = Bytes::from_static(b"999");
        let outcomes = [
            Outcome::Ack,
            Outcome::DeadLetter,
            Outcome::Park,
            Outcome::Discard,
            Outcome::Reroute { target: elsewhere.clone() },
            Outcome::Reject { event, target: format!("kafka://main/{elsewhere}") },
        ];
        let batch: Vec<Settlement> = taken
            .iter()
            .enumerate()
            .map(|(place, one)| Settlement {
                trail: Some(Box::new(Trail { attempt: 3, ..Trail::default() })),
                ..Settlement::plain(one.clone(), outcomes[place % outcomes.len()].clone())
            })
            .collect();
        let answers = seat.broker.settle(&batch).await;
        for (settlement, answer) in batch.iter().zip(&answers) {
            let copy = answer.as_ref().unwrap().copy.as_ref();
            let expected = match settlement.outcome {
                Outcome::DeadLetter => Some(format!("{}.dlq", stage.name)),
                Outcome::Park => Some(format!("{}.parking", stage.name)),
                Outcome::Reroute { .. } | Outcome::Reject { .. } => Some(elsewhere.clone()),
                _ => None,
            };
            assert_eq!(copy.map(|place| place.name.to_string()), expected);
        }
        let of = |which: usize| -> Vec<usize> {
            let of: Vec<Delivery> = taken
                .iter()
                .enumerate()
                .filter(|(place, _)| place % 6 == which)
                .map(|(_, one)| one.clone())
                .collect();
            let mut all = numbers(&of);
            all.sort_unstable();
            all
        };
        let dead = stage.read(&format!("{}.dlq", stage.name)).await;
        assert_eq!(sorted(&dead), of(1));
        for copy in &dead {
            let number: usize = std::str::from_utf8(copy.payload().unwrap()).unwrap().parse().unwrap();
            assert_eq!(copy.partition(), i32::from(number >= 60), "the same partition");
        }
        assert_eq!(sorted(&stage.read(&format!("{}.parking", stage.name)).await), of(2));
        let moved: Vec<usize> = of(4).into_iter().chain(std::iter::repeat_n(999, 20)).collect();
        assert_eq!(sorted(&stage.read(&elsewhere).await), moved);
        for partition in 0..2 {
            let committed = stage.committed(&stage.name, &stage.name, partition).await;
            assert_eq!(committed, Some((60, String::new())), "{mode:?}");
        }
        seat.leave().await;
    }
}

/// What was not read here is only copied.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_from_apart_is_only_copied() {
    let Some(stage) = Stage::shared("apart") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..2).await;
    let mut seat = Seat::new(stage.flow()).await;
    let taken = seat.take(2).await;
    let apart = Delivery::from(DeliveryParts { tag: Tag::APART, ..taken[0].clone().into_parts() });
    let settled = seat.end(&[apart.clone(), apart], &Outcome::DeadLetter).await;
    assert!(settled.iter().all(|one| one.copy.is_some()));
    assert_eq!(sorted(&stage.read(&format!("{}.dlq", stage.name)).await), [0, 0]);
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, None);
    seat.end(&taken, &Outcome::Ack).await;
    seat.leave().await;
}

/// A topic that is missing holds only what is to go there, by name, until it is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named_and_waited_for() {
    for mode in MODES {
        let Some(stage) = Stage::shared("missing") else { return };
        stage.topic(&stage.name, 1, &[]).await;
        stage.topic(&format!("{}.parking", stage.name), 1, &[]).await;
        stage.produce(&stage.name, 0, 0..3).await;
        let mut seat = Seat::new(with(&stage, mode)).await;
        let taken = seat.take(3).await;
        let batch = [
            Settlement::plain(taken[0].clone(), Outcome::DeadLetter),
            Settlement::plain(taken[1].clone(), Outcome::Ack),
            Settlement::plain(
                taken[2].clone(),
                Outcome::Reroute { target: format!("{}.nowhere", stage.name) },
            ),
        ];
        let answers = seat.broker.settle(&batch).await;
        assert!(matches!(answers[0], Err(PortError::Unavailable(_))), "{answers:?}");
        assert!(answers[1].is_ok(), "{answers:?}");
        assert!(matches!(answers[2], Err(PortError::Refused(Refusal::NotFound { .. }))), "{answers:?}");
        assert!(seat.broker.alarms().iter().any(|alarm| alarm.name == "topic_missing"));
        assert_eq!(stage.committed(&stage.name, &stage.name, 0).await.map(|at| at.0), Some(0));
        stage.topic(&format!("{}.dlq", stage.name), 1, &[]).await;
        seat.end(&taken[..1], &Outcome::DeadLetter).await;
        seat.end(&taken[2..], &Outcome::Ack).await;
        assert_eq!(seat.broker.alarms(), []);
        assert_eq!(sorted(&stage.read(&format!("{}.dlq", stage.name)).await), [0]);
        assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((3, String::new())));
        seat.leave().await;
    }
}

/// A producer is made only when something is to be written, so that this is found late. The value may be a secret.
#[tokio::test(flavor = "multi_thread")]
async fn an_option_that_no_producer_takes_is_named_without_its_value() {
    for mode in MODES {
        let Some(stage) = Stage::shared("wrong") else { return };
        stage.topics(1).await;
        stage.produce(&stage.name, 0, 0..1).await;
        let mut flow = with(&stage, mode);
        flow.client.options.insert("compression.type".to_owned(), "hunter2".to_owned());
        let mut seat = Seat::new(flow).await;
        let taken = seat.take(1).await;
        let answers = seat.settle(&taken, &Outcome::DeadLetter).await;
        let why = answers[0].as_ref().unwrap_err().to_string();
        assert!(why.contains("the option `compression.codec`"), "{mode:?}: {why}");
        assert!(!why.contains("hunter2"), "{mode:?}: {why}");
        seat.leave().await;
    }
}

/// One copy that its topic refuses does not keep the others: they are settled, it stays, by name, until its topic takes
/// it. Nothing of the transactions that were given up is ever seen by who reads committed records.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_copy_is_found_among_the_others() {
    for mode in MODES {
        let Some(stage) = Stage::shared("refused") else { return };
        stage.topics(1).await;
        let dead = format!("{}.dlq", stage.name);
        let producer = stage.producer();
        let large = "7".repeat(20_000);
        for number in 0..40 {
            let small = number.to_string();
            let body = if number == 23 { &large } else { &small };
            let record = FutureRecord::to(&stage.name).partition(0).key("k").payload(body);
            producer.send(record, PATIENCE).await.unwrap();
        }
        let mut seat = Seat::new(with(&stage, mode)).await;
        let taken = seat.take(40).await;
        // The broker learns of it, and the flow does not.
        stage.alter(&dead, "max.message.bytes", "1200").await;
        let answers = seat.settle(&taken, &Outcome::DeadLetter).await;
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(answer.is_ok(), number != 23, "{number}: {answer:?}");
        }
        let why = answers[23].as_ref().unwrap_err();
        assert!(matches!(why, PortError::Unavailable(why) if why.contains("max.message.bytes")), "{why}");
        assert!(seat.broker.alarms().iter().any(|alarm| alarm.name == "copy_refused"));
        let all_but_one: Vec<usize> = (0..40).filter(|number| *number != 23).collect();
        assert_eq!(sorted(&stage.read(&dead).await), all_but_one, "{mode:?}");
        let committed = stage.committed(&stage.name, &stage.name, 0).await.unwrap();
        assert_eq!(committed.0, 23);

        // It is known now, and refused before it is sent.
        let again = seat.settle(&taken[23..24], &Outcome::DeadLetter).await;
        assert!(matches!(again[0], Err(PortError::Unavailable(_))), "{again:?}");
        stage.alter(&dead, "max.message.bytes", "100000").await;
        seat.end(&taken[23..24], &Outcome::DeadLetter).await;
        assert_eq!(stage.read(&dead).await.len(), 40);
        assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((40, String::new())));
        assert_eq!(seat.broker.alarms(), []);
        seat.leave().await;
    }
}

/// Bytes that no codec makes smaller.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

/// A topic's limit is that of what is compressed. Where copies are, a large one is left to the broker: it takes what fits
/// then, and refuses what does not, by name and with nobody else's copy.
#[tokio::test(flavor = "multi_thread")]
async fn what_fits_once_it_is_compressed_is_written() {
    const LARGE: usize = 3_000_000;
    for mode in MODES {
        let Some(stage) = Stage::shared("compressed") else { return };
        let (dead, room) = (format!("{}.dlq", stage.name), [("max.message.bytes", "8000000")]);
        stage.topic(&stage.name, 1, &room).await;
        stage.topic(&dead, 1, &[]).await;
        stage.topic(&format!("{}.parking", stage.name), 1, &[]).await;
        let producer = stage.producer();
        let bodies = [b"small".to_vec(), vec![b'7'; LARGE], noise(LARGE), b"small too".to_vec()];
        for body in &bodies {
            let record = FutureRecord::to(&stage.name).partition(0).key("k").payload(body);
            producer.send(record, PATIENCE).await.unwrap();
        }
        let mut flow = with(&stage, mode);
        flow.client.options.insert("compression.codec".to_owned(), "zstd".to_owned());
        let mut seat = Seat::new(flow).await;
        let taken = seat.take(bodies.len()).await;
        let answers = seat.settle(&taken, &Outcome::DeadLetter).await;
        let taken_in: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(taken_in, [true, true, false, true], "{mode:?}: {answers:?}");
        let why = answers[2].as_ref().unwrap_err();
        assert!(matches!(why, PortError::Unavailable(why) if why.contains("max.message.bytes")), "{why}");
        assert!(seat.broker.alarms().iter().any(|alarm| alarm.name == "copy_refused"));
        let written = |records: Vec<OwnedMessage>| {
            let of = |one: &OwnedMessage| bodies.iter().position(|body| one.payload() == Some(body));
            records.iter().filter_map(of).collect::<BTreeSet<_>>()
        };
        assert_eq!(written(stage.read(&dead).await), BTreeSet::from([0, 1, 3]), "{mode:?}");
        assert_eq!(stage.committed(&stage.name, &stage.name, 0).await.unwrap().0, 2);

        stage.alter(&dead, "max.message.bytes", "8000000").await;
        seat.end(&taken[2..3], &Outcome::DeadLetter).await;
        assert_eq!(stage.read(&dead).await.len(), bodies.len());
        assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((4, String::new())));
        assert_eq!(seat.broker.alarms(), []);
        seat.leave().await;
    }
}

/// What is published together goes to the broker together, which refuses it as a whole: one that is too large costs no
/// other.
#[tokio::test(flavor = "multi_thread")]
async fn one_too_large_among_many_is_refused_alone() {
    let Some(stage) = Stage::shared("one-large") else { return };
    stage.topic(&stage.name, 1, &[("max.message.bytes", "2000")]).await;
    let broker = KafkaBroker::new(stage.flow()).unwrap();
    let large = |number: usize| if number == 30 { 4_000 } else { 300 };
    let message = |number: usize| NewMessage {
        key: Some("k".into()),
        body: Some(vec![b'x'; large(number)].into()),
        ..NewMessage::default()
    };
    let published = broker.publish(&stage.name, (0..60).map(message).collect()).await.unwrap();
    for (number, one) in published.iter().enumerate() {
        assert_eq!(matches!(one, Published::Accepted(_)), number != 30, "{number}: {one:?}");
    }
    assert_eq!(stage.read(&stage.name).await.len(), 59);
    tokio::task::spawn_blocking(move || drop(broker)).await.unwrap();
}

/// Two members under one name fence each other off again and again. Both go on, and each dead letter is written once.
#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_member_goes_on() {
    let Some(stage) = Stage::shared("fenced") else { return };
    stage.topics(2).await;
    let mut flow = stage.flow();
    flow.instance = "twin".to_owned();
    let mut seats = [Seat::new(flow.clone()).await, Seat::new(flow).await];
    let mut settled = [0, 0];
    let mut written = 0;
    // Until both have settled something several times.
    while settled.iter().any(|count| *count < 30) || settled.iter().sum::<usize>() < written {
        let left = written - settled.iter().sum::<usize>();
        if left == 0 {
            stage.produce(&stage.name, 0, written..written + 10).await;
            stage.produce(&stage.name, 1, written + 10..written + 20).await;
            written += 20;
        }
        for (seat, settled) in seats.iter_mut().zip(&mut settled) {
            let mut open = seat.take_now(20).await;
            eventually("a batch is settled", async || {
                let answers = seat.settle(&open, &Outcome::DeadLetter).await;
                let mut answers = answers.into_iter();
                open.retain(|_| match answers.next().unwrap() {
                    Ok(_) => {
                        *settled += 1;
                        false
                    }
                    Err(PortError::Unavailable(_)) => true,
                    // It went to the other one.
                    Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. })) => false,
                    Err(other) => panic!("{other}"),
                });
                open.is_empty().then_some(())
            })
            .await;
        }
        assert!(written < 20_000, "{settled:?}: one of them gets nothing");
    }
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    assert_eq!(dead, (0..written).collect::<Vec<_>>());
    for seat in seats {
        seat.leave().await;
    }
}

/// A transaction has the name of its instance: what a process left open that was killed is ended by the next one of the same
/// name, and nobody has to wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_ends_what_an_earlier_one_of_its_name_left_open() {
    let Some(stage) = Stage::shared("pinned") else { return };
    stage.topics(1).await;
    let dead = format!("{}.dlq", stage.name);
    let (config, to) = (stage.config(), dead.clone());
    let names = [format!("{}-twin", stage.name), format!("{}-twin-2", stage.name)];
    let left = tokio::task::spawn_blocking(move || {
        names.map(|name| {
            let mut config = config.clone();
            config.set("transactional.id", name).set("transaction.timeout.ms", "600000");
            let producer: BaseProducer = config.create().unwrap();
            producer.init_transactions(PATIENCE).unwrap();
            producer.begin_transaction().unwrap();
            producer.send(BaseRecord::to(&to).partition(0).key("k").payload("7")).unwrap();
            producer.flush(PATIENCE).unwrap();
            producer
        })
    });
    let left = left.await.unwrap();
    stage.produce(&stage.name, 0, 0..2).await;
    let flow = KafkaFlow { instance: "twin".to_owned(), ..stage.flow() };
    let mut seat = Seat::new(flow).await;
    let taken = seat.take(2).await;
    for one in taken.chunks(1) {
        // Two producers take turns.
        seat.end(one, &Outcome::DeadLetter).await;
    }
    let fenced =
        tokio::task::spawn_blocking(move || left.map(|producer| producer.commit_transaction(PATIENCE)));
    for ended in fenced.await.unwrap() {
        let error = ended.unwrap_err();
        assert!(matches!(&error, KafkaError::Transaction(said) if said.is_fatal()), "{error}");
    }
    assert_eq!(sorted(&stage.read(&dead).await), [0, 1], "nobody waits, and what was left open is not there");
    seat.leave().await;
}

/// A function says where dead letters and parked messages go, by their partition and their key. One that panics leaves it to
/// the key, and costs nobody anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_chooses_the_partition_of_dead_letters() {
    let Some(stage) = Stage::shared("chosen") else { return };
    stage.topics(4).await;
    stage.produce(&stage.name, 1, 0..10).await;
    let mut flow = stage.flow();
    flow.dead_letter.partition = PartitionBy::Function(|from, key, count| match key {
        Some(b"7") => panic!("somebody else's code"),
        Some(b"8") => count,
        _ => count - from,
    });
    let mut seat = Seat::new(flow).await;
    let taken = seat.take(10).await;
    seat.end(&taken[..9], &Outcome::DeadLetter).await;
    seat.end(&taken[9..], &Outcome::Park).await;
    let lies = async |topic: &str| -> Vec<(usize, i32)> {
        let records = stage.read(&format!("{}.{topic}", stage.name)).await;
        records.iter().map(|one| (sorted(std::slice::from_ref(one))[0], one.partition())).collect()
    };
    let letters = lies("dlq").await;
    assert_eq!(letters.len(), 9);
    assert!(letters.iter().all(|(number, partition)| *number > 6 || *partition == 3), "{letters:?}");
    assert_eq!(lies("parking").await, [(9, 3)]);
    seat.leave().await;
}

/// Keyless copies go where their producer's partitioner puts them: that of dead letters and parked messages is their own.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_have_a_producer_of_their_own() {
    const COUNT: usize = 40;
    let Some(stage) = Stage::shared("own") else { return };
    stage.topics(8).await;
    let elsewhere = format!("{}.elsewhere", stage.name);
    stage.topic(&elsewhere, 8, &[]).await;
    let mut flow = with(&stage, SettleMode::Plain);
    flow.dead_letter.partition = PartitionBy::Key;
    flow.dead_letter.options.insert("partitioner".to_owned(), "consistent".to_owned());
    flow.client.options.insert("sticky.partitioning.linger.ms".to_owned(), "0".to_owned());
    let producer = stage.producer();
    for number in 0..3 * COUNT {
        let body = number.to_string();
        let record = FutureRecord::<(), _>::to(&stage.name).partition(0).payload(&body);
        producer.send(record, PATIENCE).await.unwrap();
    }
    let mut seat = Seat::new(flow.clone()).await;
    let taken = seat.take(3 * COUNT).await;
    seat.end(&taken[..COUNT], &Outcome::DeadLetter).await;
    seat.end(&taken[COUNT..2 * COUNT], &Outcome::Park).await;
    seat.end(&taken[2 * COUNT..], &Outcome::Reroute { target: elsewhere.clone() }).await;
    let partitions = async |topic: &str| -> BTreeSet<i32> {
        let records = stage.read(topic).await;
        assert_eq!(records.len(), COUNT, "{topic}");
        records.iter().map(OwnedMessage::partition).collect()
    };
    assert_eq!(partitions(&format!("{}.dlq", stage.name)).await.len(), 1);
    assert_eq!(partitions(&format!("{}.parking", stage.name)).await.len(), 1);
    assert!(partitions(&elsewhere).await.len() > 1, "all others have the usual one");
    // What is written from the ledger's queue goes the same way.
    let apart: Vec<Delivery> = taken[..4]
        .iter()
        .map(|one| Delivery::from(DeliveryParts { tag: Tag::APART, ..one.clone().into_parts() }))
        .collect();
    let settled = seat.end(&apart, &Outcome::DeadLetter).await;
    let places: BTreeSet<_> = settled.iter().map(|one| one.copy.as_ref().unwrap().partition).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    seat.leave().await;

    // A transaction has one producer, so that cannot be then.
    flow.settle = SettleMode::Transactional;
    let refused = KafkaBroker::new(flow).unwrap_err().to_string();
    assert!(refused.contains("`partitioner`") && refused.contains("settle: plain"), "{refused}");
}
