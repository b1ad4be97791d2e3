//! Messages that wait in topics and come when they are due.

use std::time::Duration;

use rdkafka::producer::FutureRecord;
use redrive_core::Timestamp;
use redrive_core::headers::Trail;
use redrive_engine::port::{
    Broker as _, Clock as _, Delivery, Outcome, Settlement, Subscription, SystemClock,
};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow, Role};

use crate::ahead::write_waiting;
use crate::stage::{PATIENCE, Seat, Stage, eventually, numbers};

fn now() -> Timestamp {
    SystemClock::default().now()
}

fn flow(stage: &Stage, delay: DelayMode) -> KafkaFlow {
    KafkaFlow {
        delay,
        steps: vec![Duration::from_secs(1)],
        longest_delay: Duration::from_secs(10),
        ..stage.flow()
    }
}

/// Makes what the flow needs.
async fn make(flow: &KafkaFlow) {
    let broker = KafkaBroker::new(flow.clone()).unwrap();
    let subscription = Subscription::new(flow.flow.clone(), flow.topics[0].as_str());
    let plan = broker.plan(&subscription).await.unwrap();
    broker.apply(&plan).await.unwrap();
    tokio::task::spawn_blocking(move || drop(broker)).await.unwrap();
}

fn trail(delivery: &Delivery) -> Trail {
    let mut trail = Trail { attempt: delivery.trail.attempt + 1, ..(*delivery.trail).clone() };
    if trail.origin.topic.is_none() {
        trail.origin.topic = Some((&*delivery.source.name).into());
        trail.origin.partition = delivery.source.partition;
        trail.origin.offset = delivery.source.offset;
    }
    trail
}

fn delay(delivery: &Delivery, until: Timestamp) -> Settlement {
    let mut settlement = Settlement::plain(delivery.clone(), Outcome::Delay { until });
    settlement.trail = Some(Box::new(trail(delivery)));
    settlement
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_comes_when_it_is_due_in_every_mode() {
    for mode in [DelayMode::Cascade, DelayMode::Tiered, DelayMode::Single, DelayMode::Pointer] {
        let Some(stage) = Stage::shared("delayed") else { return };
        stage.topic(&stage.name, 2, &[]).await;
        let flow = flow(&stage, mode);
        make(&flow).await;
        stage.produce(&stage.name, 0, 0..10).await;
        stage.produce(&stage.name, 1, 10..20).await;
        let mut seat = Seat::new(flow.clone()).await;
        let taken = seat.take(20).await;
        let begun = now();
        let due = |one: &Delivery| begun + Duration::from_millis(400 + 150 * one.tag.number);
        let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, due(one))).collect();
        let answers = seat.broker.settle(&batch).await;
        let copies: Vec<_> = answers.into_iter().map(|one| one.unwrap().copy.unwrap()).collect();
        assert_eq!(seat.broker.passed(&copies).await.unwrap(), vec![false; 20]);

        let mut again = Vec::new();
        while again.len() < 20 {
            for one in seat.take(1).await {
                let original = taken.iter().find(|other| other.message.id == one.message.id).unwrap();
                assert!(now() >= due(original), "{mode:?}: never early");
                assert_eq!(one.ready_at, due(original));
                assert_eq!(one.message.body, original.message.body, "{mode:?}");
                assert_eq!(one.message.key, original.message.key);
                assert_eq!(one.source.partition, original.source.partition, "the same partition");
                assert_eq!(one.trail.attempt, 1);
                again.push(one);
            }
        }
        let mut all = numbers(&again);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>(), "{mode:?}");
        seat.end(&again, &Outcome::Ack).await;
        assert_eq!(seat.broker.passed(&copies).await.unwrap(), vec![true; 20], "{mode:?}");
        eventually("nothing is left", async || {
            let depth = seat.source.depth().await.ok()?;
            (depth.ready == 0 && depth.waiting == 0).then_some(())
        })
        .await;
        seat.leave().await;
    }
}

/// What waits outlives the process, and is run once.
/// What waits has left its body where it lay, and the topic there is deleted and made anew meanwhile: other records lie at
/// the same offsets. None of them is handed out in its place.
#[tokio::test(flavor = "multi_thread")]
async fn another_records_body_is_never_taken_for_the_messages_own() {
    let Some(stage) = Stage::shared("another-body") else { return };
    let kept = format!("{}.kept", stage.name);
    stage.topic(&stage.name, 1, &[]).await;
    stage.topic(&kept, 1, &[]).await;
    let flow =
        KafkaFlow { topics: vec![stage.name.clone(), kept.clone()], ..flow(&stage, DelayMode::Pointer) };
    make(&flow).await;
    stage.produce(&stage.name, 0, 0..2).await;
    stage.produce(&kept, 0, 2..3).await;
    let mut seat = Seat::new(flow.clone()).await;
    let taken = seat.take(3).await;
    let until = now() + Duration::from_secs(1);
    let batch: Vec<Settlement> = taken
        .iter()
        .map(|one| {
            let mut settlement = delay(one, until);
            // The second is a copy of one that said nothing of its time: it is known by its key.
            let said = settlement.trail.as_mut().filter(|_| numbers(std::slice::from_ref(one)) != [1]);
            if let Some(trail) = said {
                trail.origin.timestamp = Some(one.ready_at);
            }
            settlement
        })
        .collect();
    assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
    seat.leave().await;

    stage.make_anew(&stage.name, 1).await;
    let producer = stage.producer();
    for (key, body) in [("0", "10"), ("another", "11")] {
        let record = FutureRecord::to(&stage.name).partition(0).key(key).payload(body);
        producer.send(record, PATIENCE).await.unwrap();
    }
    let mut seat = Seat::new(flow).await;
    let mut copies = Vec::new();
    while copies.len() < 3 {
        let more = seat.take(1).await;
        copies.extend(more.into_iter().filter(|one| one.trail.attempt == 1));
    }
    copies.sort_by_key(|one| one.message.key.clone());
    let found: Vec<_> = copies
        .iter()
        .map(|one| (one.message.body.as_deref(), one.trail.body_is_gone(), one.message.key.as_deref()))
        .collect();
    let gone = |key: &'static str| (None, true, Some(key.as_bytes()));
    assert_eq!(found, [gone("0"), gone("1"), (Some(&b"2"[..]), false, Some(&b"2"[..]))]);
    seat.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_what_waits() {
    let Some(stage) = Stage::shared("waits") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    let flow = flow(&stage, DelayMode::Cascade);
    make(&flow).await;
    stage.produce(&stage.name, 0, 0..10).await;
    let mut seat = Seat::new(flow.clone()).await;
    let taken = seat.take(10).await;
    let until = now() + Duration::from_secs(3);
    let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, until)).collect();
    assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
    seat.leave().await;

    let mut next = Seat::new(flow.clone()).await;
    let again = next.take(10).await;
    assert!(now() >= until);
    assert_eq!(numbers(&again), (0..10).collect::<Vec<_>>());
    next.end(&again[..5], &Outcome::Ack).await;
    next.leave().await;

    let mut last = Seat::new(flow).await;
    let rest = last.take(5).await;
    assert_eq!(numbers(&rest), (5..10).collect::<Vec<_>>());
    last.end(&rest, &Outcome::Ack).await;
    last.leave().await;
}

/// Three processes, each with its part: one reads the source, one moves what waits, one runs what is due.
#[tokio::test(flavor = "multi_thread")]
async fn roles_can_run_apart() {
    let Some(stage) = Stage::shared("roles") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    let flow = flow(&stage, DelayMode::Cascade);
    make(&flow).await;
    stage.produce(&stage.name, 0, 0..10).await;
    let part = |role: Role| KafkaFlow { role, instance: format!("{role:?}"), ..flow.clone() };
    let mut main = Seat::new(part(Role::Main)).await;
    let mover = Seat::new(part(Role::Delay)).await;
    let mut retry = Seat::new(part(Role::Retry)).await;
    let taken = main.take(10).await;
    let begun = now();
    let due = |one: &Delivery| begun + Duration::from_millis(1_000 + 300 * one.tag.number);
    let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, due(one))).collect();
    assert!(main.broker.settle(&batch).await.iter().all(Result::is_ok));
    let again = retry.take(10).await;
    let mut all = numbers(&again);
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    retry.end(&again, &Outcome::Ack).await;
    // What is written behind them all, there and in the source, comes next: each came once.
    stage.produce(&stage.name, 0, 10..11).await;
    let behind = main.take(1).await;
    assert_eq!(numbers(&behind), [10]);
    let batch: Vec<Settlement> = behind.iter().map(|one| delay(one, now())).collect();
    assert!(main.broker.settle(&batch).await.iter().all(Result::is_ok));
    let last = retry.take(1).await;
    assert_eq!(numbers(&last), [10]);
    retry.end(&last, &Outcome::Ack).await;
    for seat in [main, mover, retry] {
        seat.leave().await;
    }
}

/// The delay mode changes while records that the retry part has passed are still the mover's: they are moved all the same,
/// and come once, whether the parts run apart afterwards or not.
async fn a_mode_changes_under_what_was_left_to_the_mover(mode: DelayMode, together: bool) {
    let Some(stage) = Stage::shared("modes") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    // A wait of more than twice the longest level goes through it twice.
    let level = format!("{}.retry.5s", stage.name);
    let flow = KafkaFlow { longest_delay: Duration::from_secs(5), ..flow(&stage, DelayMode::Cascade) };
    make(&flow).await;
    let part = |role: Role| KafkaFlow { role, instance: format!("{role:?}"), ..flow.clone() };
    let passed = async |group: &str, offset: i64| {
        eventually("a group has passed a record", async || {
            stage.committed(group, &level, 0).await.filter(|(position, _)| *position >= offset)
        })
        .await;
    };
    // The mover has begun, so that the others do not wait for it, and is not there now.
    let mover = Seat::new(part(Role::Delay)).await;
    passed(&flow.groups.delay, 0).await;
    mover.leave().await;
    let (mut main, retry) = (Seat::new(part(Role::Main)).await, Seat::new(part(Role::Retry)).await);
    stage.produce(&stage.name, 0, 0..5).await;
    let taken = main.take(5).await;
    let until = now() + Duration::from_millis(10_500);
    let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, until)).collect();
    assert!(main.broker.settle(&batch).await.iter().all(Result::is_ok));
    passed(&flow.groups.retry, 5).await;
    main.leave().await;
    retry.leave().await;

    let after = |role: Role| KafkaFlow { delay: mode, ..part(role) };
    make(&after(Role::Main)).await;
    let mut mover = Some(Seat::new(after(Role::Delay)).await);
    let mut reader = Seat::new(after(if together { Role::All } else { Role::Retry })).await;
    if together {
        eventually("it waits for the mover", async || {
            reader.broker.alarms().iter().any(|alarm| alarm.name == "delay_left").then_some(())
        })
        .await;
        passed(&flow.groups.delay, 5).await;
        mover.take().unwrap().leave().await;
    }
    let again = reader.take(5).await;
    assert!(now() >= until, "{mode:?}: never early");
    assert_eq!(numbers(&again), (0..5).collect::<Vec<_>>(), "{mode:?}");
    reader.end(&again, &Outcome::Ack).await;
    // What is written behind them comes next.
    write_waiting(&stage, &level, 5..6, now()).await;
    let last = reader.take(1).await;
    assert_eq!(numbers(&last), [5], "{mode:?}: each once");
    reader.end(&last, &Outcome::Ack).await;
    reader.leave().await;
    if let Some(mover) = mover {
        mover.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_may_change_under_what_was_left_to_the_mover() {
    tokio::join!(
        a_mode_changes_under_what_was_left_to_the_mover(DelayMode::Single, false),
        a_mode_changes_under_what_was_left_to_the_mover(DelayMode::Ledger, false),
        a_mode_changes_under_what_was_left_to_the_mover(DelayMode::Single, true),
    );
}

/// One process that did all is followed by one for each part, and the other way round: nothing is left to somebody who is
/// not there, and nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn roles_may_be_divided_and_put_together_again() {
    let Some(stage) = Stage::shared("divided") else { return };
    stage.topic(&stage.name, 1, &[]).await;
    // The longest level has 6 s: a longer wait goes through it twice.
    let level = format!("{}.retry.6s", stage.name);
    let flow = KafkaFlow {
        steps: vec![Duration::from_secs(1), Duration::from_secs(6)],
        longest_delay: Duration::from_secs(6),
        ..flow(&stage, DelayMode::Cascade)
    };
    make(&flow).await;
    let part = |role: Role| KafkaFlow { role, instance: format!("{role:?}"), ..flow.clone() };
    let twice = Duration::from_millis(11_500);
    let divert = async |seat: &mut Seat, numbers: std::ops::Range<usize>, wait: Duration| {
        let count = numbers.len();
        stage.produce(&stage.name, 0, numbers).await;
        let taken = seat.take(count).await;
        let until = now() + wait;
        let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, until)).collect();
        assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
    };
    let mut all = Seat::new(part(Role::All)).await;
    divert(&mut all, 0..5, twice).await;
    all.leave().await;

    // The retry part alone does not begin, and says why.
    let mut retry = Seat::new(part(Role::Retry)).await;
    eventually("the alarm", async || {
        retry.broker.alarms().iter().any(|alarm| alarm.name == "delay_missing").then_some(())
    })
    .await;
    let mover = Seat::new(part(Role::Delay)).await;
    let mut main = Seat::new(part(Role::Main)).await;
    divert(&mut main, 5..10, twice).await;
    let mut again = retry.take(5).await;
    again.extend(retry.take(5).await);
    let mut came = numbers(&again);
    came.sort_unstable();
    assert_eq!(came, (0..10).collect::<Vec<_>>(), "each once");
    retry.end(&again, &Outcome::Ack).await;
    assert_eq!(retry.broker.alarms(), []);

    // What was left to the mover keeps the one that does all from reading past it, also behind one that was not: that goes
    // through the level once, and is the retry group's own.
    let passed = async |group: &str| {
        // The last offset is the mark of the transaction.
        let end = stage.end(&level, 0).await - 1;
        eventually("the group has passed them", async || {
            let (offset, _) = stage.committed(group, &level, 0).await?;
            (offset >= end).then_some(())
        })
        .await;
    };
    divert(&mut main, 10..11, Duration::from_millis(5_900)).await;
    passed(&flow.groups.delay).await;
    mover.leave().await;
    divert(&mut main, 11..15, twice).await;
    eventually("the retry group has passed what is not its own", async || {
        let (_, beyond) = stage.committed(&flow.groups.retry, &level, 0).await?;
        (!beyond.is_empty()).then_some(())
    })
    .await;
    for seat in [main, retry] {
        seat.leave().await;
    }
    let mut all = Seat::new(part(Role::All)).await;
    eventually("the alarm", async || {
        all.broker.alarms().iter().any(|alarm| alarm.name == "delay_left").then_some(())
    })
    .await;
    let mover = Seat::new(part(Role::Delay)).await;
    passed(&flow.groups.delay).await;
    mover.leave().await;
    let last = all.take(5).await;
    let mut came = numbers(&last);
    came.sort_unstable();
    assert_eq!(came, (10..15).collect::<Vec<_>>());
    all.end(&last, &Outcome::Ack).await;
    assert_eq!(all.broker.alarms(), []);
    all.leave().await;
}

/// Another schedule or mode means other topics. What waits in those of the old one is read all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_by_an_earlier_schedule_is_read() {
    for (mode, steps) in [
        (DelayMode::Cascade, vec![Duration::from_secs(7)]),
        (DelayMode::Single, Vec::new()),
        (DelayMode::Ledger, Vec::new()),
    ] {
        let Some(stage) = Stage::shared("earlier") else { return };
        stage.topic(&stage.name, 1, &[]).await;
        let before = flow(&stage, DelayMode::Cascade);
        make(&before).await;
        stage.produce(&stage.name, 0, 0..5).await;
        let mut seat = Seat::new(before).await;
        let taken = seat.take(5).await;
        let until = now() + Duration::from_secs(1);
        let batch: Vec<Settlement> = taken.iter().map(|one| delay(one, until)).collect();
        assert!(seat.broker.settle(&batch).await.iter().all(Result::is_ok));
        seat.leave().await;

        let after = KafkaFlow { steps, ..flow(&stage, mode) };
        make(&after).await;
        let mut seat = Seat::new(after.clone()).await;
        let again = seat.take(5).await;
        assert!(now() >= until, "{mode:?}: never early");
        assert_eq!(numbers(&again), (0..5).collect::<Vec<_>>(), "{mode:?}");
        seat.end(&again, &Outcome::Ack).await;
        seat.leave().await;

        // Nothing is left there: it is not read any more.
        stage.produce(&stage.name, 0, 5..6).await;
        let mut seat = Seat::new(after.clone()).await;
        let last = seat.take(1).await;
        assert_eq!(numbers(&last), [5], "{mode:?}");
        seat.end(&last, &Outcome::Ack).await;
        seat.leave().await;

        // Something is there again: it comes, and nothing that lies before it.
        write_waiting(&stage, &format!("{}.retry.1s", stage.name), 6..7, now()).await;
        let mut seat = Seat::new(after).await;
        let behind = seat.take(1).await;
        assert_eq!(numbers(&behind), [6], "{mode:?}: each once");
        seat.end(&behind, &Outcome::Ack).await;
        seat.leave().await;
    }
}
