//! A flow that keeps the order of its keys, in a process that is killed.

use redrive::engine::fail;
use redrive::engine::port::Ledger as _;
use redrive::sqlite::{Options, Store};

use crate::cluster::Cluster;
use crate::each;
use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::setting::Setting;

/// The lanes, two in a partition: what each message of them does, in order.
const LANES: [(&str, &[&str]); 4] = [
    ("plain", &["ok", "ok", "ok", "ok"]),
    ("late", &["flaky", "ok", "flaky", "ok"]),
    ("twice", &["ok", "flaky", "flaky", "ok"]),
    ("first", &["flaky", "ok", "ok", "ok"]),
];

/// In every lane all come through, in their order, whenever the process is killed: a follower is known as one before its
/// place in Kafka is given up.
#[test]
fn lanes_keep_their_order_at_any_named_moment() {
    // The ledger is written before what it keeps in order is released.
    let points = fail::KAFKA.iter().copied().chain(["apart.after_ledger"]);
    let all: Vec<(&str, usize)> = points.flat_map(|point| [(point, 1), (point, 3)]).collect();
    each(crate::AT_ONCE, &all, |_, (point, nth)| {
        let Some(cluster) = Cluster::shared("lanes") else { return };
        let (folder, journal) = (tempfile::tempdir().unwrap(), Journal::start());
        cluster.make_source(2);
        let named = |n: usize| (0..).zip(LANES).map(move |(lane, (key, bodies))| (n, lane, key, bodies[n]));
        let messages: Vec<(String, &str, &str, i32)> = (0..4)
            .flat_map(named)
            .map(|(n, lane, key, body)| (format!("{key}-{n}"), key, body, lane % 2))
            .collect();
        let records: Vec<_> = messages
            .iter()
            .map(|(id, key, body, partition)| (id.as_str(), *key, *body, *partition))
            .collect();
        cluster.produce_keyed(&records);
        let setting = Setting {
            cluster: &cluster,
            handler: journal.address,
            settle: "transactional",
            delay: "cascade",
            retries: "retry: 20ms x3",
            concurrency: 4,
            order_by: "key",
        };
        let config = setting.config();
        let seat = Seat { config: &config, data: folder.path().join("kill.db") };
        let when = format!("{point}:{nth}");
        let died = !seat.start(true, Some(&when)).is_some_and(Member::ended);
        assert!(died || *nth > 1, "{when}: it was not passed");
        if died {
            assert!(seat.start(true, None).is_some_and(Member::ended), "{when}");
        }
        let order = journal.order();
        for (key, bodies) in LANES {
            let expected: Vec<String> = (0..bodies.len()).map(|n| format!("{key}-{n}")).collect();
            let found: Vec<&String> = order.iter().filter(|id| id.starts_with(key)).collect();
            assert!(found.iter().copied().eq(&expected), "{when}: {order:?}");
        }
        assert!(cluster.found(".dlq").is_empty() && cluster.found(".parking").is_empty(), "{when}");
        crate::check_ledger(&seat.data, None, &when);
        let store = Store::open(&seat.data, Options::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let held = runtime.block_on(store.held_lanes(&cluster.name)).unwrap();
        assert_eq!(held, 0, "{when}: a lane is still held");
    });
}
