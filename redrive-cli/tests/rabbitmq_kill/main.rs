//! Kills the real binary on a real RabbitMQ at every named moment, and at random ones, and counts.
//!
//! Nothing is lost. A copy is confirmed before its original is acknowledged, and no transaction spans the two: a kill in
//! between leaves both, so a message may be tried and dead-lettered once more for each kill, and never more often.

#[path = "../kill/http.rs"]
#[allow(dead_code, reason = "the embedded test uses more of it")]
mod http;
#[path = "../kill/member.rs"]
mod member;
#[path = "../kill/scenario.rs"]
mod scenario;
mod server;

use std::path::Path;

use http::Journal;
use member::{Member, Seat};
use redrive::core::{Random as _, SplitMix64};
use redrive::engine::fail;
use redrive::engine::port::{EntryState, Ledger as _};
use redrive::sqlite::{Options, Store};
use scenario::{
    AT_HOME, BUDGET, beside_the_broker, budget, check_ledger, each, messages, most_calls_for_copies,
    passings, rounds,
};
use server::{Rabbit, eventually};

/// How many scenarios run at once: most of their time they wait.
const AT_ONCE: usize = 4;

/// Where messages wait, and by which schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In a queue of the one step that there is.
    Step,
    /// Through the levels: no wait is a step's.
    Levels,
    /// In the ledger, which is written first.
    Ledger,
    /// In the queue of a step that is shorter than the wait: the message is moved on until it is due.
    Ring,
}

impl Way {
    fn config(self, rabbit: &Rabbit, journal: &Journal) -> String {
        let (delay, retry) = match self {
            Self::Step => ("cascade", "20ms x3"),
            Self::Levels => ("cascade", "20ms x3 jitter 50%"),
            Self::Ledger => ("ledger", "20ms x3"),
            Self::Ring => ("ring", "100ms x3"),
        };
        rabbit.config(journal.address, delay, retry)
    }
}

/// What is counted in the end.
struct Count<'a> {
    rabbit: &'a Rabbit,
    journal: &'a Journal,
    /// How often all that was in flight may have come again.
    kills: usize,
    when: &'a str,
}

impl Count<'_> {
    /// How many messages lie there twice, or were tried beyond their budget.
    fn check(&self, messages: &[(String, &str)]) -> usize {
        let Self { rabbit, journal, kills, when } = self;
        let (dead, parked) = (rabbit.found(".dlq"), rabbit.found(".parking"));
        let left = rabbit.found("");
        assert!(left.is_empty(), "{when}: still in the source: {left:?}");
        let calls = journal.calls();
        let mut twice = 0;
        for (id, body) in messages {
            let answers = calls.get(id).cloned().unwrap_or_default();
            let (dead, parked) = (dead.get(id).copied().unwrap_or(0), parked.get(id).copied().unwrap_or(0));
            let found =
                format!("{when}: {id} ({body}): {answers:?}, {dead} times dead, {parked} times parked");
            match *body {
                "ok" | "flaky" => {
                    assert!(answers.contains(&200), "lost: {found}");
                    assert_eq!((dead, parked), (0, 0), "{found}");
                }
                "bad" => assert!(parked > 0 && dead == 0, "lost: {found}"),
                _ => assert!(dead > 0 && parked == 0, "lost: {found}"),
            }
            assert!(dead + parked <= 1 + kills, "there more often than killed: {found}");
            let most = most_calls_for_copies(body, *kills);
            assert!((budget(body)..=most).contains(&answers.len()), "over its budget: {found}");
            twice += usize::from(dead + parked > 1 || answers.len() > budget(body));
        }
        let known = |id: &String| messages.iter().any(|(other, _)| other == id);
        assert!(dead.keys().chain(parked.keys()).all(known), "{when}: {dead:?} {parked:?}");
        twice
    }
}

/// Whatever the moment of the kill, in the end the ledger of the only member knows of everything that was given up.
fn check_known(data: &Path, messages: &[(String, &str)], when: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        for (id, body) in messages {
            let expected = match *body {
                "bad" => EntryState::Parked,
                "down" => EntryState::Dead,
                _ => continue,
            };
            let entry = store.entry(id).await.unwrap();
            let found = entry.map(|entry| entry.state);
            assert_eq!(found, Some(expected), "{when}: {id} ({body})");
        }
    });
}

/// Lets one member run until nothing is left; it dies when a point is passed for the nth time. How often it died; nothing
/// where there is no RabbitMQ to be had.
fn scenario(point: &str, nth: usize, way: Way, messages: &[(String, &str)]) -> Option<usize> {
    let rabbit = Rabbit::shared("point")?;
    let when = format!("{point}:{nth} ({way:?})");
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    let config = way.config(&rabbit, &journal);
    Rabbit::make_source(&config);
    match way {
        Way::Ring => rabbit.produce_later(&config, messages),
        Way::Step | Way::Levels | Way::Ledger => rabbit.produce(messages),
    }
    let seat = Seat { config: &config, data: folder.path().join("kill.db") };
    let fail = format!("{point}:{nth}");
    let mut fail = Some(fail.as_str());
    let mut deaths = 0;
    while !seat.start(true, fail.take()).is_some_and(Member::ended) {
        deaths += 1;
    }
    let twice = Count { rabbit: &rabbit, journal: &journal, kills: deaths, when: &when }.check(messages);
    assert!(deaths > 0 || twice == 0, "{when}: {twice} came twice, and nobody was killed");
    check_ledger(&seat.data, Some(messages), &when);
    check_known(&seat.data, messages, &when);
    Some(deaths)
}

#[test]
fn nothing_is_lost_at_any_named_moment() {
    let of_broker = fail::RABBITMQ.iter().copied();
    let step = of_broker.chain(beside_the_broker()).map(|point| (point, Way::Step));
    let levels = fail::RABBITMQ.iter().map(|point| (*point, Way::Levels));
    let ledger = fail::LEDGER_FIRST.iter().copied().chain([AT_HOME]).map(|point| (point, Way::Ledger));
    let moved = fail::RABBITMQ_MOVES.iter().map(|point| (*point, Way::Ring));
    let all: Vec<(&str, Way)> = step.chain(levels).chain(ledger).chain(moved).collect();
    each(AT_ONCE, &all, |_, (point, way)| {
        let messages = messages(0, 8);
        let died = passings(point).into_iter().any(|nth| {
            // Nothing to say where there is no RabbitMQ to be had.
            scenario(point, nth, *way, &messages).is_none_or(|deaths| deaths > 0)
        });
        assert!(died, "{point} was never passed ({way:?})");
    });
}

/// The last settlement of a message that is given up is its dead letter. When the ledger does not learn of it from the
/// process that wrote it, it must not take the message for one that came through.
#[test]
fn a_dead_letter_that_the_ledger_was_not_told_of_is_not_taken_for_recovered() {
    let down = [("message-3".to_owned(), "down")];
    if let Some(deaths) = scenario("apart.after_broker", BUDGET, Way::Step, &down) {
        assert_eq!(deaths, 1);
    }
}

/// Two members, and messages that arrive in waves. In the middle of each wave one of them is killed, and a new process
/// takes its seat; in the middle of the last one both are.
fn random(round: usize, seed: u64) {
    const WAVES: usize = 3;
    const WAVE: usize = 24;
    let mut rng = SplitMix64::new(seed);
    // In every round but each third the broker is killed as well.
    let breaks = !round.is_multiple_of(3);
    let way = if round.is_multiple_of(2) { Way::Step } else { Way::Levels };
    let rabbit = if breaks { Rabbit::own("random") } else { Rabbit::shared("random") };
    let Some(rabbit) = rabbit else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    let config = way.config(&rabbit, &journal);
    Rabbit::make_source(&config);
    let seats = ["a.db", "b.db"].map(|name| Seat { config: &config, data: folder.path().join(name) });
    let mut members: Vec<Member> = seats.iter().map(|seat| seat.start(false, None).unwrap()).collect();
    let (mut kills, mut written) = (0, Vec::new());
    for wave in 0..WAVES {
        let messages = messages(wave * WAVE, WAVE);
        rabbit.produce(&messages);
        let enough = rng.between(1, WAVE as u64) as usize;
        eventually("a wave is under way", || {
            let calls = journal.calls();
            let begun = messages.iter().filter(|(id, _)| calls.contains_key(id)).count();
            if begun >= enough { Ok(()) } else { Err(format!("{begun} of {enough}")) }
        });
        written.extend(messages);
        if breaks && wave == 1 {
            rabbit.kill_and_start();
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
    let twice = Count { rabbit: &rabbit, journal: &journal, kills, when: &when }.check(&written);
    eprintln!("{when}: {kills} kills, {twice} of {} messages came more than once", written.len());
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

/// Where messages were to go from the queue in which they waited is deleted, and the process dies. The next one makes it again,
/// and the broker tries again when its timer has run down: 3 minutes by itself, as a soak waits for.
#[test]
fn nothing_is_lost_that_is_stuck_in_the_broker_when_a_member_is_killed() {
    const SOAK: usize = 50;
    let after = (rounds() < SOAK).then_some(3_000);
    let Some(rabbit) = Rabbit::own_that_tries_again("stuck", after) else { return };
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::start();
    let config = Way::Step.config(&rabbit, &journal);
    Rabbit::make_source(&config);
    let seat = Seat { config: &config, data: folder.path().join("kill.db") };
    let member = seat.start(false, None).unwrap();
    // More than the broker has in hand at once between two queues.
    let messages: Vec<(String, &str)> =
        (0..40).map(|number| (format!("message-{number}"), "flaky")).collect();
    rabbit.delete_exchange(".retry");
    rabbit.produce(&messages);
    eventually("each has been tried once", || {
        let tried = journal.calls().len();
        if tried == messages.len() { Ok(()) } else { Err(tried.to_string()) }
    });
    eventually("all are between two queues", || {
        let waits: usize = ["", ".retry.20ms", ".stray"].map(|queue| rabbit.ready(queue)).iter().sum();
        if waits == 0 { Ok(()) } else { Err(waits.to_string()) }
    });
    member.kill();
    let member = seat.start(false, None).unwrap();
    eventually("all are through", || {
        let calls = journal.calls();
        let through = messages.iter().filter(|(id, _)| calls.get(id).is_some_and(|all| all.contains(&200)));
        let through = through.count();
        if through == messages.len() { Ok(()) } else { Err(through.to_string()) }
    });
    member.kill();
    // All of it is settled, or comes again.
    let last = seat.start(true, None).unwrap();
    assert!(last.ended(), "a member was killed by nobody");
    let when = format!("stuck for {after:?}");
    Count { rabbit: &rabbit, journal: &journal, kills: 2, when: &when }.check(&messages);
    check_ledger(&seat.data, Some(&messages), &when);
}
