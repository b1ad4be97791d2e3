//! Kills the real binary on a real Kafka at every named moment, and at random ones, and counts.
//!
//! Nothing is lost, no message is tried more often than its budget and the attempts that were in flight, and with
//! transactions every retry record, dead letter and parked message is there exactly once for who reads committed records.

mod blocking;
mod cluster;
mod count;
mod hops;
#[path = "../kill/http.rs"]
#[allow(dead_code, reason = "the embedded test uses more of it")]
mod http;
mod lanes;
#[path = "../kill/member.rs"]
mod member;
#[path = "../kill/scenario.rs"]
mod scenario;
mod setting;
mod standing;
mod taking_over;

use cluster::{Cluster, eventually};
use count::{Count, Way};
use http::Journal;
use member::{Member, Seat};
use redrive::core::{Random as _, SplitMix64};
use redrive::engine::fail;
use scenario::{AT_HOME, BUDGET, beside_the_broker, check_ledger, each, messages, passings, rounds};

/// How many scenarios run at once: most of their time they wait until Kafka has noticed that a member is gone.
const AT_ONCE: usize = 8;

/// Lets one member run until nothing is left; it dies when a point is passed for the nth time. How often it died.
fn scenario(point: &str, nth: usize, way: Way, messages: &[(String, &str)]) -> usize {
    // Nothing to say where there is no Kafka to be had.
    let Some(cluster) = Cluster::shared("point") else { return 1 };
    let when = format!("{point}:{nth}");
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    cluster.make_source(2);
    cluster.produce(messages, 2);
    let setting = way.setting(&cluster, &journal);
    let config = setting.config();
    let seat = Seat { config: &config, data: folder.path().join("kill.db") };
    let mut fail = Some(when.as_str());
    let mut deaths = 0;
    while !seat.start(true, fail.take()).is_some_and(Member::ended) {
        deaths += 1;
    }
    Count { cluster: &cluster, journal: &journal, way, kills: deaths, when: &when }.check(messages);
    check_ledger(&seat.data, Some(messages), &when);
    deaths
}

#[test]
fn nothing_is_lost_at_any_named_moment() {
    let of_broker = fail::KAFKA.iter().copied();
    let transactional = of_broker.chain(beside_the_broker()).map(|point| (point, Way::Transactional));
    let plain =
        fail::KAFKA_PLAIN.iter().copied().chain(["apart.after_broker"]).map(|point| (point, Way::Plain));
    let ledger = fail::LEDGER_FIRST.iter().copied().chain([AT_HOME]).map(|point| (point, Way::LedgerFirst));
    let elsewhere = [Way::Single, Way::Tiered, Way::Pointer]
        .into_iter()
        .flat_map(|way| ["kafka.before_commit", "kafka.after_commit"].map(|point| (point, way)));
    let all: Vec<(&str, Way)> = transactional.chain(plain).chain(ledger).chain(elsewhere).collect();
    each(AT_ONCE, &all, |_, (point, way)| {
        // Without a transaction only positions are committed, of what came through.
        let no_copies = *way == Way::Transactional && *point == "kafka.after_release";
        let mut messages = messages(0, 8);
        if no_copies {
            for (_, body) in &mut messages {
                *body = "ok";
            }
        }
        let died = passings(point).into_iter().any(|nth| scenario(point, nth, *way, &messages) > 0);
        assert!(died, "{point} was never passed ({way:?})");
    });
}

/// The last settlement of a message that is given up is its dead letter. When the ledger does not learn of it from the
/// process that wrote it, it must not take the message for one that came through.
#[test]
fn a_dead_letter_that_the_ledger_was_not_told_of_is_not_taken_for_recovered() {
    let down = [("message-3".to_owned(), "down")];
    assert_eq!(scenario("apart.after_broker", BUDGET, Way::Transactional, &down), 1);
}

/// Two members, and messages that arrive in waves. In the middle of each wave one of them is killed, and a new process
/// takes its seat; in the middle of the last one both are.
fn random(round: usize, seed: u64) {
    const WAVES: usize = 3;
    const WAVE: usize = 24;
    const PARTITIONS: i32 = 4;
    let mut rng = SplitMix64::new(seed);
    // In every third round the broker is killed as well, and every second one settles plainly.
    let breaks = round % 3 == 2;
    let way = if round % 2 == 1 { Way::Plain } else { Way::Transactional };
    let cluster = if breaks { Cluster::own("random") } else { Cluster::shared("random") };
    let Some(cluster) = cluster else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    cluster.make_source(PARTITIONS);
    let setting = way.setting(&cluster, &journal);
    let config = setting.config();
    let seats = ["a.db", "b.db"].map(|name| Seat { config: &config, data: folder.path().join(name) });
    let mut members: Vec<Member> = seats.iter().map(|seat| seat.start(false, None).unwrap()).collect();
    let (mut kills, mut written) = (0, Vec::new());
    for wave in 0..WAVES {
        let messages = messages(wave * WAVE, WAVE);
        cluster.produce(&messages, PARTITIONS);
        let enough = rng.between(1, WAVE as u64) as usize;
        eventually("a wave is under way", || {
            let calls = journal.calls();
            let begun = messages.iter().filter(|(id, _)| calls.contains_key(id)).count();
            if begun >= enough { Ok(()) } else { Err(format!("{begun} of {enough}")) }
        });
        written.extend(messages);
        if breaks && wave == 1 {
            cluster.kill_and_start();
            // All that is in flight may come again, at both members.
            kills += 2;
            continue;
        }
        let which = rng.between(0, 1) as usize;
        members.remove(which).kill();
        members.insert(which, seats[which].start(false, None).unwrap());
        kills += 1;
    }
    for member in members.drain(..) {
        member.kill();
        kills += 1;
    }
    // Both at once: who comes first has everything until the other one comes.
    let last: Vec<Member> = seats.iter().map(|seat| seat.start(true, None).unwrap()).collect();
    assert!(last.into_iter().all(Member::ended), "round {round}: a member was killed by nobody");
    let when = format!("round {round} of seed {seed:#x}");
    Count { cluster: &cluster, journal: &journal, way, kills, when: &when }.check(&written);
    for seat in &seats {
        check_ledger(&seat.data, None, &when);
    }
}

#[test]
fn nothing_is_lost_when_members_and_the_broker_are_killed_at_random() {
    let mut rng = SplitMix64::new(0x5eed);
    let seeds: Vec<u64> = (0..rounds()).map(|_| rng.next_u64()).collect();
    each(AT_ONCE, &seeds, |round, seed| random(round, *seed));
}
