//! Members that are killed while others run, which have to go on with what these had.

use crate::blocking;
use crate::cluster::{Cluster, eventually};
use crate::count::{Count, Way};
use crate::http::Journal;
use crate::member::Seat;
use crate::standing::given_up;
use crate::{check_ledger, messages};

/// Each of two members has a handler of its own, which tells who has which partition.
#[test]
fn a_blocked_message_goes_on_at_another_member() {
    let Some(cluster) = Cluster::shared("taken") else { return };
    let folder = tempfile::tempdir().unwrap();
    cluster.make_source(2);
    let journals = [Journal::start(), Journal::start()];
    let configs = [0, 1].map(|which| blocking::setting(&cluster, &journals[which]).config());
    let seats = [("a.db", &configs[0]), ("b.db", &configs[1])]
        .map(|(name, config)| Seat { config, data: folder.path().join(name) });
    let mut members = Vec::from([0, 1].map(|which| seats[which].start(false, None).unwrap()));
    let mut asked = 0;
    eventually("each has a partition", || {
        asked += 1;
        let ids = [0, 1].map(|partition| format!("probe-{asked}-{partition}"));
        cluster.produce_keyed(&[(&ids[0], "", "ok", 0), (&ids[1], "", "ok", 1)]);
        let found = [0, 1].map(|which| journals[which].calls().len());
        if found.iter().all(|calls| *calls > 0) { Ok(()) } else { Err(format!("{found:?}")) }
    });
    cluster.produce_keyed(&[("head", "", "down", 0), ("behind-1", "", "ok", 0), ("behind-2", "", "ok", 0)]);
    let tried = |which: usize| blocking::calls(&journals[which], "head");
    let owner = eventually("somebody tries the head", || {
        [0, 1].into_iter().find(|which| tried(*which) >= 2).ok_or_else(|| format!("{:?}", [0, 1].map(tried)))
    });
    let other = 1 - owner;
    members.remove(owner).kill();
    // The other one has its own partition all the while.
    cluster.produce_keyed(&[("beside", "", "ok", 1)]);
    eventually("the other one goes on", || {
        let all = journals[other].calls();
        if all.contains_key("behind-2") && all.contains_key("beside") {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    });
    members.remove(0).stop();
    let ids = |which: usize| -> Vec<String> {
        let all = journals[which].in_turn().into_iter().map(|(id, _)| id);
        all.filter(|id| id == "head" || id.starts_with("behind")).collect()
    };
    let of_owner = ids(owner);
    assert!(of_owner.iter().all(|id| id == "head"), "what stands behind it waits: {of_owner:?}");
    let expected = [["head"; blocking::BUDGET].as_slice(), &["behind-1", "behind-2"]].concat();
    assert_eq!(ids(other), expected, "it is tried anew, and what stands behind it comes after it");
    assert_eq!(cluster.found(".dlq").into_iter().collect::<Vec<_>>(), [("head".to_owned(), 1)]);
    let entry = blocking::entry(&seats[other].data);
    assert!(entry.because.contains("counted from 1"), "{}", entry.because);
}

/// One of three members dies in a transaction that holds dead letters, retry records and positions. The other two have its
/// partitions then, and settle what it did not; who reads committed records sees nothing of its transaction.
#[test]
fn two_members_settle_what_a_third_one_left_in_its_transaction() {
    const PARTITIONS: i32 = 6;
    const WAVE: usize = 24;
    let Some(cluster) = Cluster::shared("left") else { return };
    let (folder, journal) = (tempfile::tempdir().unwrap(), Journal::start());
    cluster.make_source(PARTITIONS);
    let config = Way::Transactional.setting(&cluster, &journal).config();
    let seats = ["a.db", "b.db", "c.db"].map(|name| Seat { config: &config, data: folder.path().join(name) });
    // What comes through at once needs no transaction: it tells that there is a member that has partitions.
    let mut written: Vec<(String, &str)> = messages(0, 1);
    cluster.produce(&written, PARTITIONS);
    let mut dies = seats[0].start(false, Some("kafka.before_commit:2")).expect("there is nothing to settle");
    eventually("it has partitions", || if journal.begun() > 0 { Ok(()) } else { Err("no call".to_owned()) });
    let others = [1, 2].map(|which| seats[which].start(false, None).unwrap());
    while !dies.is_dead() {
        let wave = messages(written.len(), WAVE);
        cluster.produce(&wave, PARTITIONS);
        written.extend(wave);
        eventually("a wave is called for, or it dies", || {
            let begun = journal.calls().len();
            if dies.is_dead() || begun == written.len() { Ok(()) } else { Err(format!("{begun} calls")) }
        });
    }
    let lost = written.iter().filter(|(_, body)| matches!(*body, "bad" | "down")).count();
    given_up(&cluster, lost);
    eventually("all else comes through", || {
        let through = journal.order().len();
        if through + lost == written.len() { Ok(()) } else { Err(format!("{through} of {}", written.len())) }
    });
    for other in others {
        other.stop();
    }
    let count =
        Count { cluster: &cluster, journal: &journal, way: Way::Transactional, kills: 1, when: "left" };
    count.check(&written);
    for seat in &seats {
        check_ledger(&seat.data, None, "left");
    }
}
