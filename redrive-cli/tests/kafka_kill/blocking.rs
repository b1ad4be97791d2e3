//! A message that its partition stands still for, in a process that is killed.

use std::path::Path;

use redrive::engine::fail;
use redrive::engine::port::{Entry, EntryState, Ledger as _};
use redrive::sqlite::{Options, Store};

use crate::cluster::{Cluster, eventually};
use crate::each;
use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::setting::Setting;

/// One attempt and three that block; each wait is long enough for a process to be killed in.
const RETRIES: &str = "blocking: 1500ms x3";
pub(crate) const BUDGET: usize = 4;

pub(crate) fn setting<'a>(cluster: &'a Cluster, journal: &Journal) -> Setting<'a> {
    Setting {
        cluster,
        handler: journal.address,
        settle: "transactional",
        delay: "cascade",
        retries: RETRIES,
        concurrency: 1,
        order_by: "none",
    }
}

/// A source of one partition: a message that always fails, and two behind it.
fn source(test: &str) -> Option<(Cluster, Journal)> {
    let cluster = Cluster::shared(test)?;
    cluster.make_source(1);
    let messages = [("head", "down"), ("behind-1", "ok"), ("behind-2", "ok")];
    cluster.produce(&messages.map(|(id, body)| (id.to_owned(), body)), 1);
    Some((cluster, Journal::start()))
}

pub(crate) fn calls(journal: &Journal, id: &str) -> usize {
    journal.calls().get(id).map_or(0, Vec::len)
}

fn tried(journal: &Journal, times: usize) {
    eventually("the head is tried", || {
        let found = calls(journal, "head");
        if found >= times { Ok(()) } else { Err(format!("{found} times")) }
    });
}

pub(crate) fn entry(data: &Path) -> Entry {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        store.entry("head").await.unwrap().unwrap()
    })
}

/// With the same data file nothing is tried more often than its budget and the attempt in flight, whenever the process is
/// killed; and nothing that stands behind it runs first.
#[test]
fn a_blocked_message_goes_on_where_it_stood() {
    let between = (1..BUDGET).map(|nth| (None, nth));
    let points = fail::KAFKA_BLOCKING.iter().flat_map(|point| (1..BUDGET).map(|nth| (Some(*point), nth)));
    let all: Vec<(Option<&str>, usize)> = between.chain(points).collect();
    each(crate::AT_ONCE, &all, |_, (point, nth)| {
        let Some((cluster, journal)) = source("blocked") else { return };
        let folder = tempfile::tempdir().unwrap();
        let config = setting(&cluster, &journal).config();
        let seat = Seat { config: &config, data: folder.path().join("kill.db") };
        let when = format!("{point:?} {nth}");
        if let Some(point) = point {
            let fail = format!("{point}:{nth}");
            let died = seat.start(true, Some(&fail)).is_none_or(|member| !member.ended());
            assert!(died, "{when}: it was not passed");
        } else {
            let member = seat.start(false, None).unwrap();
            tried(&journal, *nth);
            member.kill();
        }
        assert_eq!(journal.order(), [""; 0], "{when}: what stands behind it waits");
        assert!(seat.start(true, None).is_some_and(Member::ended), "{when}");
        let found = calls(&journal, "head");
        // Killed from outside, it may not have come to write the last one down.
        let most = BUDGET + usize::from(point.is_none());
        assert!((BUDGET..=most).contains(&found), "{when}: tried {found} times");
        assert_eq!(journal.order(), ["behind-1", "behind-2"], "{when}");
        assert_eq!(cluster.found(".dlq").get("head"), Some(&1), "{when}");
        let entry = entry(&seat.data);
        assert_eq!((entry.state, entry.attempts as usize), (EntryState::Dead, BUDGET), "{when}");
        if point.is_some() {
            assert!(
                entry.because.contains(&format!("went on from attempt {nth}")),
                "{when}: {}",
                entry.because
            );
        }
    });
}

/// Another data file knows nothing of the attempts before: they are made again, and the entry says so.
#[test]
fn a_blocked_message_starts_over_where_nobody_knows_of_it() {
    let Some((cluster, journal)) = source("over") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = setting(&cluster, &journal).config();
    let [first, second] =
        ["a.db", "b.db"].map(|name| Seat { config: &config, data: folder.path().join(name) });
    let member = first.start(false, None).unwrap();
    tried(&journal, 2);
    member.kill();
    assert!(second.start(true, None).is_some_and(Member::ended));
    let found = calls(&journal, "head");
    assert!((BUDGET + 2..=BUDGET + 3).contains(&found), "tried {found} times");
    assert_eq!(journal.order(), ["behind-1", "behind-2"]);
    let entry = entry(&second.data);
    assert_eq!((entry.state, entry.attempts as usize), (EntryState::Dead, BUDGET));
    assert!(entry.because.contains("counted from 1"), "{}", entry.because);
}
