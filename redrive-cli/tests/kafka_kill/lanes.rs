//! A flow that keeps the order of its keys, in a process that is killed, on a broker that is killed as well.

use redrive::core::{Random as _, SplitMix64};
use redrive::engine::fail;
use redrive::engine::port::Ledger as _;
use redrive::sqlite::{Options, Store};

use crate::cluster::{Cluster, eventually};
use crate::count::{Count, Way};
use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::{check_ledger, each, rounds};

/// The lanes, some of them in one partition: what each message of them does, in order.
const LANES: [(&str, &[&str]); 5] = [
    ("plain", &["ok", "ok", "ok", "ok"]),
    ("late", &["flaky", "ok", "flaky", "ok"]),
    ("twice", &["ok", "flaky", "flaky", "ok"]),
    ("first", &["flaky", "ok", "ok", "ok"]),
    // What was kept behind another one goes from the data file to the parking lot.
    ("parked", &["flaky", "ok", "bad"]),
];
const PARTITIONS: i32 = 2;

/// In every lane all come through, in their order, whenever the process is killed: a follower is known as one before its
/// place in Kafka is given up.
#[test]
fn lanes_keep_their_order_at_any_named_moment() {
    // The ledger is written before what it keeps in order is released.
    let points = fail::KAFKA.iter().copied().chain(["apart.after_ledger"]);
    let twice = points.flat_map(|point| [(point, 1), (point, 3)]);
    let all: Vec<(&str, usize)> = twice.chain([("apart.after_copy", 1)]).collect();
    each(crate::AT_ONCE, &all, |_, (point, nth)| {
        let Some(cluster) = Cluster::shared("lanes") else { return };
        let (folder, journal) = (tempfile::tempdir().unwrap(), Journal::start());
        cluster.make_source(PARTITIONS);
        let longest = LANES.iter().map(|(_, bodies)| bodies.len()).max().unwrap_or(0);
        let named = |n: usize| {
            let lanes = (0..).zip(LANES);
            lanes.filter_map(move |(lane, (key, bodies))| Some((n, lane, key, *bodies.get(n)?)))
        };
        let messages: Vec<(String, &str, &str, i32)> = (0..longest)
            .flat_map(named)
            .map(|(n, lane, key, body)| (format!("{key}-{n}"), key, body, lane % PARTITIONS))
            .collect();
        let records: Vec<_> = messages
            .iter()
            .map(|(id, key, body, partition)| (id.as_str(), *key, *body, *partition))
            .collect();
        cluster.produce_keyed(&records);
        let config = Way::Lanes.setting(&cluster, &journal).config();
        let seat = Seat { config: &config, data: folder.path().join("kill.db") };
        let when = format!("{point}:{nth}");
        let died = !seat.start(true, Some(&when)).is_some_and(Member::ended);
        assert!(died || *nth > 1, "{when}: it was not passed");
        if died {
            assert!(seat.start(true, None).is_some_and(Member::ended), "{when}");
        }
        let order = journal.order();
        for (key, bodies) in LANES {
            let lane: Vec<String> = (0..bodies.len()).map(|n| format!("{key}-{n}")).collect();
            assert_eq!(journal.too_early(&lane), [""; 0], "{when}");
            let through = lane.iter().zip(bodies).filter(|(_, body)| **body != "bad").map(|(id, _)| id);
            let found = order.iter().filter(|id| id.starts_with(key));
            assert!(found.eq(through), "{when}: {order:?}");
        }
        assert!(cluster.found(".dlq").is_empty(), "{when}");
        let parked = cluster.found(".parking");
        let of_bad = parked.get("parked-2").copied().unwrap_or(0);
        // It is written before the data file lets go of it, in no transaction with it.
        let most = 1 + usize::from(died);
        assert!(parked.len() == 1 && (1..=most).contains(&of_bad), "{when}: {parked:?}");
        check_ledger(&seat.data, None, &when);
        assert_eq!(held_lanes(&cluster, &seat), 1, "{when}: only the lane of the parked message is held");
    });
}

fn held_lanes(cluster: &Cluster, seat: &Seat<'_>) -> u64 {
    let store = Store::open(&seat.data, Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.held_lanes(&cluster.name)).unwrap()
}

/// Lanes that go on for as long as messages arrive. In the middle of one wave the process is killed, in that of the next one
/// the broker, and then both; in every lane the order is kept, for calls that fail too.
fn random(round: usize, seed: u64) {
    const WAVES: usize = 4;
    const KEYS: usize = 6;
    /// Messages of a lane in a wave.
    const WAVE: usize = 4;
    let mut rng = SplitMix64::new(seed);
    let Some(cluster) = Cluster::own("order") else { return };
    let (folder, journal) = (tempfile::tempdir().unwrap(), Journal::start());
    cluster.make_source(PARTITIONS);
    let config = Way::Lanes.setting(&cluster, &journal).config();
    let seat = Seat { config: &config, data: folder.path().join("kill.db") };
    let mut member = seat.start(false, None).unwrap();
    let mut written: Vec<(String, &str)> = Vec::new();
    for wave in 0..WAVES {
        let mut messages: Vec<(String, String, &str, i32)> = Vec::new();
        for n in wave * WAVE..(wave + 1) * WAVE {
            for (key, partition) in (0..KEYS).zip((0..PARTITIONS).cycle()) {
                let body = if rng.between(0, 2) == 0 { "flaky" } else { "ok" };
                messages.push((format!("lane{key}-{n}"), format!("lane{key}"), body, partition));
            }
        }
        let records: Vec<_> = messages
            .iter()
            .map(|(id, key, body, partition)| (id.as_str(), key.as_str(), *body, *partition))
            .collect();
        cluster.produce_keyed(&records);
        let enough = rng.between(1, messages.len() as u64) as usize;
        eventually("a wave is under way", || {
            let calls = journal.calls();
            let begun = messages.iter().filter(|(id, ..)| calls.contains_key(id)).count();
            if begun >= enough { Ok(()) } else { Err(format!("{begun} of {enough}")) }
        });
        written.extend(messages.into_iter().map(|(id, _, body, _)| (id, body)));
        match wave % 3 {
            0 => {
                member.kill();
                member = seat.start(false, None).unwrap();
            }
            1 => cluster.kill_and_start(),
            _ => {
                member.kill();
                cluster.kill_and_start();
                member = seat.start(false, None).unwrap();
            }
        }
    }
    member.kill();
    assert!(seat.start(true, None).is_some_and(Member::ended), "round {round}: it was killed by nobody");
    let when = format!("round {round} of seed {seed:#x}");
    for key in 0..KEYS {
        let lane: Vec<String> = (0..WAVES * WAVE).map(|n| format!("lane{key}-{n}")).collect();
        assert_eq!(journal.too_early(&lane), [""; 0], "{when}");
        let order = journal.order();
        let found = order.iter().filter(|id| id.starts_with(&format!("lane{key}-")));
        assert!(found.eq(&lane), "{when}: {order:?}");
    }
    // The process and the broker, each time: what was in flight may have come again.
    let kills = 2 * WAVES + 1;
    Count { cluster: &cluster, journal: &journal, way: Way::Lanes, kills, when: &when }.check(&written);
    check_ledger(&seat.data, Some(&written), &when);
    assert_eq!(held_lanes(&cluster, &seat), 0, "{when}: a lane is still held");
}

#[test]
fn lanes_keep_their_order_when_the_process_and_the_broker_are_killed_at_random() {
    let mut rng = SplitMix64::new(0x1a9e5);
    // Each has a broker of its own.
    let seeds: Vec<u64> = (0..rounds().div_ceil(3)).map(|_| rng.next_u64()).collect();
    each(2, &seeds, |round, seed| random(round, *seed));
}
