//! Kills the real binary at every named moment, and at random ones, and counts.
//!
//! Nothing is lost, every message ends in exactly one final state, and no message is tried more often than its budget
//! and the one attempt that was in flight.

mod http;
mod lanes;
mod process;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::{Journal, post};
use process::{Process, was_killed};
use redrive::core::{Random as _, SplitMix64};
use redrive::engine::fail::EMBEDDED;
use redrive::engine::port::{Broker as _, EntryState, Filter, Ledger as _, Page};
use redrive::sqlite::{Options, Store};

/// Attempts that the policy of the test allows: one and three retries.
const BUDGET: usize = 4;

struct Run<'a> {
    order_by: &'a str,
    data: &'a Path,
    journal: &'a Journal,
    /// The point to die at, until it has been died at.
    fail: Option<String>,
    deaths: usize,
}

impl Run<'_> {
    fn start(&mut self) -> Process {
        loop {
            let handler = format!("http://{}/orders", self.journal.address);
            match Process::start(self.data, &handler, self.order_by, self.fail.as_deref()) {
                Some(process) => return process,
                None => self.died(),
            }
        }
    }

    fn died(&mut self) {
        self.deaths += 1;
        self.fail = None;
    }

    /// Calls the API until it answers, on as many processes as that takes.
    fn call(&mut self, mut process: Process, path: &str, kind: &str, body: &str) -> (Process, u16) {
        loop {
            match post(&process.address(), &process.file("token"), path, kind, body) {
                Ok((status, _)) => return (process, status),
                Err(_) => {
                    assert!(was_killed(process.end()));
                    self.died();
                    process = self.start();
                }
            }
        }
    }

    /// Pauses or resumes the flow. An order that was cut off may have been taken; it then changes nothing any more.
    fn order(&mut self, process: Process, verb: &str) -> Process {
        let path = format!("/v1/flows/orders/{verb}");
        let (process, status) = self.call(process, &path, "application/json", r#"{ "reason": "test" }"#);
        assert!(status == 200 || (status == 409 && self.deaths > 0), "{verb}: {status}");
        process
    }

    /// Waits until it ends because nothing is left to do.
    fn finish(&mut self, mut process: Process) {
        loop {
            let status = process.end();
            if status.success() {
                return;
            }
            assert!(was_killed(status), "it failed: {status}");
            self.died();
            process = self.start();
        }
    }
}

fn ids(count: usize) -> Vec<(String, &'static str)> {
    let bodies = ["ok", "flaky", "bad", "down"];
    (0..count).map(|i| (format!("message-{i}"), bodies[i % bodies.len()])).collect()
}

/// Publishes, lets everything run out, mends the handler, and brings everything back; dies at one point on the way.
fn scenario(point: &str, nth: u32) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("kill.db");
    let journal = Journal::start();
    let fail = Some(format!("{point}:{nth}"));
    let mut run = Run { order_by: "none", data: &data, journal: &journal, fail, deaths: 0 };
    let messages = ids(8);

    let mut process = run.start();
    process = run.order(process, "pause");
    for (id, body) in &messages {
        let path = format!("/v1/queues/orders/messages?id={id}");
        let status;
        (process, status) = run.call(process, &path, "text/plain", body);
        // A call that was cut off may have been taken; the same id is then refused while it is queued.
        assert!(status == 201 || status == 409, "{point}: {status}");
    }
    process = run.order(process, "resume");
    run.finish(process);
    check(&data, &journal, &messages, false, point);

    journal.fix();
    let process = run.start();
    let filter =
        r#"{ "filter": { "state": ["dead"] }, "deed": "retry-now", "reason": "fixed", "by": "test" }"#;
    let (process, status) = run.call(process, "/v1/messages/act", "application/json", filter);
    assert!(status < 300, "{point}: {status}");
    let replay = r#"{ "filter": { "state": ["parked"] }, "reason": "fixed", "by": "test" }"#;
    let (process, status) = run.call(process, "/v1/replays", "application/json", replay);
    assert!(status < 300, "{point}: {status}");
    run.finish(process);
    check(&data, &journal, &messages, true, point);
    run.deaths
}

/// Reads the file and the handler's journal, and holds them against each other.
fn check(data: &Path, journal: &Journal, messages: &[(String, &str)], fixed: bool, when: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        let problems = store.check().await.unwrap();
        assert!(problems.is_empty(), "{when}: {problems:?}");
        for queue in store.queues().await.unwrap() {
            assert_eq!(
                (queue.depth.ready, queue.depth.waiting),
                (0, 0),
                "{when}: {} is not empty",
                queue.name
            );
        }
        let page = Page { limit: 1_000, after: None };
        let entries = store.search(&Filter::default(), &page).await.unwrap().entries;
        let mut states: BTreeMap<String, EntryState> = BTreeMap::new();
        for entry in &entries {
            let again = states.insert(entry.message.id.clone(), entry.state);
            // A call that was cut off and given again after the message had gone makes a second message of that id.
            assert!(again.is_none() || again == Some(EntryState::Recovered), "{when}: {entries:?}");
        }
        let calls = journal.calls();
        for (id, body) in messages {
            let answers = calls.get(id).cloned().unwrap_or_default();
            let succeeded = answers.contains(&200);
            let state = states.get(id).copied();
            match *body {
                "ok" => assert!(succeeded, "{when}: {id} is lost"),
                "flaky" => {
                    assert!(succeeded, "{when}: {id} is lost");
                    // A failure that was in flight when the process died left no entry.
                    assert!(
                        state.is_none_or(|state| state == EntryState::Recovered),
                        "{when}: {id} is {state:?}"
                    );
                }
                _ if fixed => {
                    assert!(succeeded, "{when}: {id} is lost");
                    assert_eq!(state, Some(EntryState::Recovered), "{when}: {id}");
                }
                "bad" => assert_eq!(state, Some(EntryState::Parked), "{when}: {id}"),
                _ => {
                    assert_eq!(state, Some(EntryState::Dead), "{when}: {id}");
                    assert!(
                        (BUDGET..=BUDGET + 1).contains(&answers.len()),
                        "{when}: {id} was tried {} times",
                        answers.len()
                    );
                }
            }
        }
    });
}

#[test]
fn nothing_is_lost_at_any_named_moment() {
    for point in EMBEDDED {
        // The second time it is passed, when there is one: the first is often before anything of interest.
        let deaths = match scenario(point, 2) {
            0 => scenario(point, 1),
            deaths => deaths,
        };
        assert!(deaths > 0, "{point} was never passed");
    }
}

/// How many rounds of random kills; a soak asks for more.
fn rounds() -> u32 {
    std::env::var("REDRIVE_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

#[test]
fn nothing_is_lost_when_it_is_killed_at_random() {
    let seed = 0x5eed;
    let mut rng = SplitMix64::new(seed);
    for round in 0..rounds() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("kill.db");
        let journal = Journal::start();
        let mut run = Run { order_by: "none", data: &data, journal: &journal, fail: None, deaths: 0 };
        let messages = ids(40);
        let lines: Vec<_> =
            messages.iter().map(|(id, body)| format!(r#"{{"id":"{id}","body":"{body}"}}"#)).collect();
        let process = run.start();
        let (process, status) =
            run.call(process, "/v1/queues/orders/messages", "application/x-ndjson", &lines.join("\n"));
        assert_eq!(status, 201, "round {round}");
        let mut process = process;
        for _ in 0..3 {
            // Not a wait for something: the moment of the kill is what is random here.
            std::thread::park_timeout(Duration::from_millis(rng.between(0, 60)));
            process.kill();
            process = run.start();
        }
        run.finish(process);
        check_random(&data, &journal, &messages, &format!("round {round} of seed {seed:#x}"));
    }
}

/// As above, but an attempt may have been in flight at each of three kills.
fn check_random(data: &Path, journal: &Journal, messages: &[(String, &str)], when: &str) {
    let calls = journal.calls();
    for (id, body) in messages.iter().filter(|(_, body)| *body == "down") {
        let tried = calls.get(id).map_or(0, Vec::len);
        assert!((BUDGET..=BUDGET + 3).contains(&tried), "{when}: {id} ({body}) was tried {tried} times");
    }
    let others: Vec<_> = messages.iter().filter(|(_, body)| *body != "down").cloned().collect();
    check(data, journal, &others, false, when);
}
