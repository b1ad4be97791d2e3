//! Members come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{Broker as _, Delivery, Outcome, PortError, Refusal, Settlement};
use redrive_kafka::{KafkaFlow, SettleMode};

use crate::stage::{Seat, Stage, StillClock, eventually, numbers, sorted};

fn member(stage: &Stage, name: &str, settle: SettleMode) -> KafkaFlow {
    let mut flow = KafkaFlow { settle, instance: name.to_owned(), ..stage.flow() };
    flow.drain = Duration::from_secs(20);
    flow
}

/// What each record came to, over all members: how often it came, how often it was settled.
pub(crate) struct Tally {
    all: BTreeMap<usize, (u32, u32)>,
    /// Those that went to the dead letters.
    dead: BTreeSet<usize>,
    outcome: fn(&Delivery) -> Outcome,
}

impl Tally {
    /// Every third one goes to the dead letters.
    pub(crate) fn of_thirds() -> Self {
        Self::with(|one| if one.tag.number.is_multiple_of(3) { Outcome::DeadLetter } else { Outcome::Ack })
    }

    /// All of them go to the dead letters.
    pub(crate) fn of_dead() -> Self {
        Self::with(|_| Outcome::DeadLetter)
    }

    fn with(outcome: fn(&Delivery) -> Outcome) -> Self {
        Self { all: BTreeMap::new(), dead: BTreeSet::new(), outcome }
    }

    /// Settles what a member has.
    pub(crate) async fn settle(&mut self, seat: &Seat, deliveries: &[Delivery]) {
        let mut open: Vec<Delivery> = deliveries.to_vec();
        for number in numbers(deliveries) {
            self.all.entry(number).or_default().0 += 1;
        }
        eventually("a batch is settled", async || {
            let batch: Vec<Settlement> =
                open.iter().map(|one| Settlement::plain(one.clone(), (self.outcome)(one))).collect();
            let answers = seat.broker.settle(&batch).await;
            let mut again = Vec::new();
            for (one, answer) in open.drain(..).zip(answers) {
                match answer {
                    Ok(_) => {
                        let number = numbers(std::slice::from_ref(&one))[0];
                        self.all.entry(number).or_default().1 += 1;
                        if (self.outcome)(&one) == Outcome::DeadLetter {
                            self.dead.insert(number);
                        }
                    }
                    Err(PortError::Unavailable(_)) => again.push(one),
                    // Whoever has its partition now will have it again.
                    Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. })) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            open = again;
            open.is_empty().then_some(())
        })
        .await;
    }

    pub(crate) fn settled(&self) -> usize {
        self.all.values().filter(|(_, settled)| *settled > 0).count()
    }

    pub(crate) fn each_was_settled_once(&self) {
        for (number, (_, settled)) in &self.all {
            assert_eq!(*settled, 1, "{number}");
        }
    }

    /// For where an answer may have been lost.
    pub(crate) fn none_was_settled_twice(&self) {
        for (number, (_, settled)) in &self.all {
            assert!(*settled <= 1, "{number}");
        }
    }

    /// The numbers that have to be among the dead letters.
    pub(crate) fn dead(&self) -> Vec<usize> {
        self.dead.iter().copied().collect()
    }
}

/// Members join, leave, and stand still for longer than their group waits for them, while all of them settle: every record is
/// settled once, its dead letter written once, and no commit is lost. Who stood still settles nothing of what went to others.
async fn members_come_and_go(mode: SettleMode) {
    const ALL: usize = 3_000;
    let Some(stage) = Stage::shared("rebalance") else { return };
    stage.topics(6).await;
    for partition in 0..6 {
        let first = usize::try_from(partition).unwrap() * ALL / 6;
        stage.produce(&stage.name, partition, first..first + ALL / 6).await;
    }
    let mut tally = Tally::of_thirds();
    let mut first = Seat::new(member(&stage, "first", mode)).await;
    let some = first.take(100).await;
    tally.settle(&first, &some).await;

    // A second one joins while the first has records in hand.
    let in_hand = first.take(300).await;
    let clock = Arc::new(StillClock::default());
    let mut flow = member(&stage, "second", mode);
    for timeout in ["session.timeout.ms", "max.poll.interval.ms"] {
        flow.client.options.insert(timeout.to_owned(), "6000".to_owned());
    }
    let mut second = Seat::with_clock(flow, clock.clone()).await;
    tally.settle(&first, &in_hand).await;
    let of_second = second.take(100).await;
    tally.settle(&second, &of_second).await;
    assert!(of_second.iter().all(|one| !in_hand.iter().any(|other| other.message.id == one.message.id)));

    // A third one joins while both have.
    let (a, b) = (first.take(100).await, second.take(100).await);
    let mut third = Seat::new(member(&stage, "third", mode)).await;
    tally.settle(&first, &a).await;
    tally.settle(&second, &b).await;
    let of_third = third.take(50).await;
    tally.settle(&third, &of_third).await;

    // One leaves in an orderly way with nothing in hand, one is gone without a word with its hands full.
    third.leave().await;
    let lost = second.take(50).await;
    clock.stand_still(true);

    while tally.settled() < ALL {
        let taken = first.take(1).await;
        tally.settle(&first, &taken).await;
        let more = first.take_now(500).await;
        tally.settle(&first, &more).await;
    }
    tally.each_was_settled_once();
    // It has the answers of its calls, and its group has given it up. Plainly settled, copies come first whoever it is.
    let outcome = if mode == SettleMode::Transactional { Outcome::DeadLetter } else { Outcome::Ack };
    let late = second.settle(&lost, &outcome).await;
    assert!(late.iter().all(Result::is_err), "{mode:?}, while it stands still: {late:?}");
    clock.stand_still(false);
    eventually("it knows that they are not its own", async || {
        let late = second.settle(&lost, &outcome).await;
        assert!(late.iter().all(Result::is_err), "{mode:?}, when it goes on: {late:?}");
        let gone = |one: &Result<_, PortError>| {
            matches!(one, Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. })))
        };
        late.iter().all(gone).then_some(())
    })
    .await;
    second.leave().await;
    let dead = sorted(&stage.read(&format!("{}.dlq", stage.name)).await);
    let expected: Vec<usize> = (0..ALL).filter(|number| (number % (ALL / 6)).is_multiple_of(3)).collect();
    assert_eq!(dead, expected, "{mode:?}: each dead letter once");
    for partition in 0..6 {
        let committed = stage.committed(&stage.name, &stage.name, partition).await;
        assert_eq!(committed, Some((i64::try_from(ALL / 6).unwrap(), String::new())));
    }
    first.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_with_transactions() {
    members_come_and_go(SettleMode::Transactional).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_plainly() {
    members_come_and_go(SettleMode::Plain).await;
}

/// The flow is told which streams it loses, what is in hand may be settled until the drain ends, and then it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_partition_is_drained_and_then_refused() {
    let Some(stage) = Stage::shared("revoked") else { return };
    stage.topics(2).await;
    stage.produce(&stage.name, 0, 0..10).await;
    stage.produce(&stage.name, 1, 10..20).await;
    let mut flow = member(&stage, "first", SettleMode::Transactional);
    flow.drain = Duration::from_secs(30);
    let mut first = Seat::new(flow).await;
    let mut revoked = first.source.revoked().unwrap();
    let taken = first.take(20).await;
    let mut second = Seat::new(member(&stage, "second", SettleMode::Transactional)).await;
    let lost = tokio::time::timeout(crate::stage::PATIENCE, revoked.recv()).await.unwrap().unwrap();
    let (gone, kept): (Vec<_>, Vec<_>) = taken.into_iter().partition(|one| one.tag.stream == lost.stream);
    assert!(gone.iter().all(|one| one.tag.epoch == lost.epoch));
    assert_eq!(gone.len(), 10);
    // Half of it ends in time.
    assert!(first.settle(&gone[..5], &Outcome::DeadLetter).await.iter().all(Result::is_ok));
    let of_second = second.take(5).await;
    assert_eq!(numbers(&of_second), numbers(&gone[5..]), "what was not settled comes to the other");
    let late = first.settle(&gone[5..], &Outcome::DeadLetter).await;
    assert!(
        late.iter()
            .all(|one| matches!(one, Err(PortError::Refused(Refusal::NotFound { what: "delivery", .. })))),
        "{late:?}"
    );
    second.end(&of_second, &Outcome::Ack).await;
    first.end(&kept, &Outcome::Ack).await;
    assert_eq!(stage.read(&format!("{}.dlq", stage.name)).await.len(), 5);
    for partition in 0..2 {
        assert_eq!(stage.committed(&stage.name, &stage.name, partition).await, Some((10, String::new())));
    }
    second.leave().await;
    first.leave().await;
}

/// A handler may take longer than `max.poll.interval.ms`: polling goes on without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_handler_keeps_its_partitions() {
    let Some(stage) = Stage::shared("slow") else { return };
    stage.topics(1).await;
    stage.produce(&stage.name, 0, 0..10).await;
    let mut flow = member(&stage, "slow", SettleMode::Transactional);
    flow.client.options.insert("session.timeout.ms".to_owned(), "6000".to_owned());
    flow.client.options.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let mut seat = Seat::new(flow).await;
    let taken = seat.take(10).await;
    // The handler itself is slow here; nothing is waited for.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let settled = seat.settle(&taken, &Outcome::DeadLetter).await;
    assert!(settled.iter().all(Result::is_ok), "{settled:?}");
    assert_eq!(stage.committed(&stage.name, &stage.name, 0).await, Some((10, String::new())));
    seat.leave().await;
}
