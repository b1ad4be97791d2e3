//! Members that stand still, and go on after others have given them up.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::http::Journal;
use crate::member::{Member, Seat};
use crate::{BUDGET, Cluster, Count, Way, check_ledger, eventually, messages};

/// What a counter of a member has reached, over all flows.
fn counted(address: &str, counter: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let of_counter = text.lines().filter(|line| line.starts_with(counter));
    of_counter.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Waits until so many dead letters and parked messages are there for who reads committed records.
pub(crate) fn given_up(cluster: &Cluster, count: usize) {
    eventually("everything that is given up is there", || {
        let found = [".dlq", ".parking"].map(|suffix| cluster.found(suffix).len());
        if found.iter().sum::<usize>() >= count { Ok(()) } else { Err(format!("{found:?} of {count}")) }
    });
}

/// A settler that hangs in the middle of a transaction until the broker has given that up: it is told so, and settles once
/// more what is not settled.
#[test]
fn a_transaction_that_takes_too_long_is_made_again() {
    let Some(cluster) = Cluster::shared("late") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (journal, messages) = (Journal::start(), messages(0, 8));
    cluster.make_source(2);
    cluster.produce(&messages, 2);
    let setting = Way::Transactional.setting(&cluster, &journal);
    let config = setting.config();
    let seat = Seat { config: &config, data: folder.path().join("late.db") };
    // The broker gives a transaction ten seconds, and looks for those that have had them every ten.
    let member = seat.start_listening(Some("kafka.before_commit:2:22000")).expect("nobody kills it");
    let address = member.address();
    eventually("the broker gives a transaction up", || {
        let aborts = counted(&address, "redrive_kafka_transaction_aborts_total");
        if aborts > 0 { Ok(()) } else { Err(format!("{aborts} aborts")) }
    });
    let lost = messages.iter().filter(|(_, body)| matches!(*body, "bad" | "down")).count();
    given_up(&cluster, lost);
    member.stop();
    assert!(seat.start(true, None).is_some_and(Member::ended));
    let count =
        Count { cluster: &cluster, journal: &journal, way: Way::Transactional, kills: 0, when: "late" };
    count.check(&messages);
    check_ledger(&seat.data, Some(&messages), "late");
}

/// A process stands still for longer than its session with calls in hand. Another one gets its partitions and ends what lies
/// in them. When the first one goes on, it is told the answers of its calls, and may settle nothing by them.
#[test]
fn a_member_that_stood_still_settles_nothing_that_went_to_another() {
    let Some(cluster) = Cluster::shared("still") else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    cluster.make_source(2);
    // They are answered once the handler is mended, and not before.
    let wave = |from: usize| -> Vec<(String, &str)> {
        (from..from + 8).map(|number| (format!("message-{number}"), "refused")).collect()
    };
    cluster.produce(&wave(0), 2);
    let setting = Way::Transactional.setting(&cluster, &journal);
    let config = setting.config();
    let seats = ["a.db", "b.db"].map(|name| Seat { config: &config, data: folder.path().join(name) });
    let still = seats[0].start(false, None).unwrap();
    eventually("all places are taken by calls", || {
        let begun = journal.begun();
        if begun >= setting.concurrency { Ok(()) } else { Err(format!("{begun} calls")) }
    });
    still.stand_still();
    let other = seats[1].start(false, None).unwrap();
    eventually("the other one has them too", || {
        let begun = journal.begun();
        if begun >= 2 * setting.concurrency { Ok(()) } else { Err(format!("{begun} calls")) }
    });
    journal.fix();
    given_up(&cluster, 8);
    let answered = journal.calls().values().map(Vec::len).sum::<usize>();
    assert_eq!(answered, 8 + setting.concurrency, "those of the one that stands still were answered as well");
    still.go_on();
    // Both go on, and what is new is settled by whoever has its partition then.
    cluster.produce(&wave(8), 2);
    given_up(&cluster, 16);
    still.stop();
    other.stop();
    for seat in &seats {
        assert!(seat.start(true, None).is_some_and(Member::ended));
        check_ledger(&seat.data, None, "still");
    }
    let (dead, parked) = (cluster.found(".dlq"), cluster.found(".parking"));
    assert!(dead.is_empty(), "{dead:?}");
    assert_eq!(parked.len(), 16, "{parked:?}");
    assert!(parked.values().all(|times| *times == 1), "there twice: {parked:?}");
    assert!(journal.calls().values().all(|answers| answers.len() <= BUDGET), "{:?}", journal.calls());
}
