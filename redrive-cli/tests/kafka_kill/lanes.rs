//! A flow that keeps the order of its keys, in a process that is killed.

use redrive::engine::fail;
use redrive::engine::port::Ledger as _;
use redrive::sqlite::{Options, Store};

use crate::cluster::Cluster;
use crate::each;
use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::setting::Setting;

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

fn setting<'a>(cluster: &'a Cluster, journal: &Journal) -> Setting<'a> {
    Setting {
        cluster,
        handler: journal.address,
        settle: "transactional",
        delay: "cascade",
        retries: "retry: 20ms x3",
        concurrency: 4,
        order_by: "key",
    }
}

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
        let config = setting(&cluster, &journal).config();
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
        crate::check_ledger(&seat.data, None, &when);
        assert_eq!(held_lanes(&cluster, &seat), 1, "{when}: only the lane of the parked message is held");
    });
}

fn held_lanes(cluster: &Cluster, seat: &Seat<'_>) -> u64 {
    let store = Store::open(&seat.data, Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.held_lanes(&cluster.name)).unwrap()
}
