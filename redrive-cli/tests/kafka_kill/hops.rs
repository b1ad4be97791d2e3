//! A wait of several hops, and a process that is killed while it moves messages on.

use crate::cluster::{Cluster, eventually};
use crate::count::{Count, Way};
use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::{check_ledger, each};

/// How many messages wait.
const WAITING: usize = 4;

/// A message whose retries come first: whatever is made at the first transaction is there then, and the others' way is planned
/// as soon as they have failed.
const WARM: &str = "warm";

/// The hops of what waits long so far: those that have another one before them, and the last ones.
fn hops(cluster: &Cluster) -> (usize, usize) {
    let hops = cluster.hops().into_iter().filter(|hop| hop.id != WARM);
    let (last, first): (Vec<_>, Vec<_>) = hops.partition(|hop| hop.rest.is_empty());
    (first.len(), last.len())
}

/// A message waits for 21 s, which are 12 s and, within its slack, another level: two hops, also when it is planned late. It is
/// moved on once, and called for when it is due, also when the process dies between two hops: no call was in flight, so none is
/// made again. Without transactions the copy that was written may be there twice.
#[test]
fn what_is_moved_on_is_there_once_whenever_the_process_is_killed() {
    let moved = [Way::Transactional, Way::Pointer].into_iter().flat_map(|way| {
        let points = ["kafka.after_begin", "kafka.before_commit", "kafka.after_commit"];
        points.map(|point| (point, way))
    });
    let all: Vec<(&str, Way)> = moved.chain([("kafka.after_copies", Way::Plain)]).collect();
    each(all.len(), &all, |_, (point, way)| {
        let Some(cluster) = Cluster::shared("hops") else { return };
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::start();
        cluster.make_source(2);
        let config = way.setting(&cluster, &journal).config();
        let seat = Seat { config: &config, data: folder.path().join("kill.db") };
        // Another process than the one that has them moved: what that one commits first is a move.
        let first = seat.start(false, None).unwrap();
        let mut messages = vec![(WARM.to_owned(), "flaky")];
        cluster.produce(&messages, 1);
        eventually("it settles", || {
            if journal.order() == [WARM] { Ok(()) } else { Err(format!("{:?}", journal.calls())) }
        });
        messages.extend((0..WAITING).map(|number| (format!("message-{number}"), "later")));
        cluster.produce(&messages[1..], 2);
        // On a machine that is very busy some may have been planned too late for a second hop.
        let (long, short) = eventually("all wait", || match hops(&cluster) {
            (long, short) if long > 0 && long + short == WAITING => Ok((long, short)),
            other => Err(format!("{other:?}")),
        });
        first.stop();
        let when = format!("{point}:1 of a move");
        let died = !seat.start(true, Some(&format!("{point}:1"))).is_some_and(Member::ended);
        assert!(died, "{when} ({way:?}): it was not passed");
        let calls = journal.calls();
        let once = |(id, _): &(String, &str)| calls.get(id).is_some_and(|answers| answers == &[503]);
        assert!(messages[1..].iter().all(once), "{when}: {calls:?}");
        let found = hops(&cluster);
        // Of a transaction that was not committed nothing is seen.
        let is_seen = *point == "kafka.after_commit" || *way == Way::Plain;
        assert_eq!((found.0, found.1 > short), (long, is_seen), "{when} ({way:?}): {found:?} of {short}");
        assert!(seat.start(true, None).is_some_and(Member::ended), "{when}");
        // No call was in flight: only what is there twice is called for once more.
        let kills = usize::from(*way == Way::Plain);
        Count { cluster: &cluster, journal: &journal, way: *way, kills, when: &when }.check(&messages);
        check_ledger(&seat.data, Some(&messages), &when);
    });
}
