//! The same with lanes on: order is kept in every lane, and no follower is left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use redrive::core::{Random as _, SplitMix64};
use redrive::engine::fail::EMBEDDED;
use redrive::engine::port::{EntryState, Filter, Ledger as _, Page};
use redrive::sqlite::{Options, Store};

use crate::http::Journal;
use crate::process::Process;
use crate::{Run, rounds};

/// The lanes: what each message of them does, in order.
const LANES: [(&str, &[&str]); 4] = [
    ("plain", &["ok", "ok", "ok", "ok"]),
    ("late", &["flaky", "ok", "flaky", "ok"]),
    ("parked", &["ok", "bad", "ok", "flaky", "ok"]),
    ("dead", &["down", "ok", "bad", "ok"]),
];

fn messages() -> Vec<(String, &'static str, &'static str)> {
    let longest = LANES.iter().map(|(_, bodies)| bodies.len()).max().unwrap_or(0);
    let place = |n: usize| LANES.iter().filter_map(move |(key, bodies)| Some((*key, n, *bodies.get(n)?)));
    (0..longest).flat_map(place).map(|(key, n, body)| (format!("{key}-{n}"), key, body)).collect()
}

fn publish(run: &mut Run<'_>, mut process: Process) -> Process {
    for (id, key, body) in messages() {
        let path = format!("/v1/queues/orders/messages?id={id}&key={key}");
        let status;
        (process, status) = run.call(process, &path, "text/plain", body);
        assert!(status == 201 || status == 409, "{status}");
    }
    process
}

/// Everything that stopped a lane is mended and sent again, as often as it takes.
fn mend(run: &mut Run<'_>) {
    run.journal.fix();
    let again = r#"{ "filter": { "state": ["dead", "parked"] }, "deed": "retry-now", "reason": "fixed", "by": "test" }"#;
    let process = run.start();
    let (process, status) = run.call(process, "/v1/messages/act", "application/json", again);
    assert!(status < 300, "{status}");
    run.finish(process);
}

fn check(data: &Path, journal: &Journal, when: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        let problems = store.check().await.unwrap();
        assert!(problems.is_empty(), "{when}: {problems:?}");
        assert_eq!(store.held_lanes("orders").await.unwrap(), 0, "{when}: a lane is still held");
        let page = Page { limit: 1_000, after: None };
        for entry in store.search(&Filter::default(), &page).await.unwrap().entries {
            assert_eq!(
                entry.state,
                EntryState::Recovered,
                "{when}: {} because {}",
                entry.message.id,
                entry.because
            );
        }
    });
    let mut lanes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let messages = messages();
    let order = journal.order();
    for id in &order {
        let (_, key, _) = messages.iter().find(|(known, ..)| known == id).unwrap();
        lanes.entry(key).or_default().push(id.clone());
    }
    for (key, bodies) in LANES {
        let expected: Vec<String> = (0..bodies.len()).map(|n| format!("{key}-{n}")).collect();
        assert_eq!(lanes.get(key), Some(&expected), "{when}: {order:?}");
        assert_eq!(journal.too_early(&expected), [""; 0], "{when}");
    }
}

#[test]
fn lanes_keep_their_order_at_any_named_moment() {
    for point in EMBEDDED {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("kill.db");
        let journal = Journal::start();
        let fail = Some(format!("{point}:6"));
        let mut run = Run { order_by: "key", data: &data, journal: &journal, fail, deaths: 0 };
        let process = run.start();
        let process = publish(&mut run, process);
        run.finish(process);
        mend(&mut run);
        check(&data, &journal, point);
    }
}

#[test]
fn lanes_keep_their_order_when_it_is_killed_at_random() {
    let seed = 0x1a9e5;
    let mut rng = SplitMix64::new(seed);
    for round in 0..rounds() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("kill.db");
        let journal = Journal::start();
        let mut run = Run { order_by: "key", data: &data, journal: &journal, fail: None, deaths: 0 };
        let process = run.start();
        let mut process = publish(&mut run, process);
        for _ in 0..3 {
            // Not a wait for something: the moment of the kill is what is random here.
            std::thread::park_timeout(Duration::from_millis(rng.between(0, 60)));
            process.kill();
            process = run.start();
        }
        run.finish(process);
        mend(&mut run);
        check(&data, &journal, &format!("round {round} of seed {seed:#x}"));
    }
}
