//! What every test has in common that kills members of a flow on a broker.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive::engine::fail;
use redrive::engine::port::{EntryState, Filter, Ledger as _, Page};
use redrive::sqlite::{Options, Store};

/// Attempts that the policy of the test allows: one and three retries.
pub(crate) const BUDGET: usize = 4;

/// The points that every flow passes whose broker stands apart: those of the engine and of its ledger. What a ledger's
/// queue takes from people, and what people order, no message does by itself.
pub(crate) fn beside_the_broker() -> impl Iterator<Item = &'static str> {
    const NOT_PASSED: [&str; 5] = [
        "sqlite.after_publish_insert",
        AT_HOME,
        "sqlite.after_deed",
        "sqlite.after_order",
        "sqlite.after_replay_send",
    ];
    fail::EMBEDDED.iter().copied().filter(|point| !NOT_PASSED.contains(point))
}

/// The point of what comes from the ledger's own queue.
pub(crate) const AT_HOME: &str = "sqlite.after_settle_write";

/// Which passing of a point a process dies at, and which one instead when there are not so many: the first ones are often
/// before anything of interest, and a ledger is written a few times before the first message.
pub(crate) fn passings(point: &str) -> [usize; 2] {
    if point.starts_with("sqlite.") { [6, 2] } else { [2, 1] }
}

/// How often a message is called for when nobody is killed, by what the handler does with its body.
pub(crate) fn budget(body: &str) -> usize {
    match body {
        "ok" | "bad" => 1,
        "later" => 2,
        "flaky" => 3,
        _ => BUDGET,
    }
}

/// The most calls for a message of which a kill leaves two, its original and a copy: each has its budget, and the call for
/// either may have been in flight. What the handler takes or refuses for good at once has no copy that waits, and what it
/// refuses twice only is taken from then on.
pub(crate) fn most_calls_for_copies(body: &str, kills: usize) -> usize {
    match body {
        "ok" | "bad" => 1 + kills,
        "down" => BUDGET * (1 + kills) + kills,
        _ => budget(body) + 2 * kills,
    }
}

/// Messages that come through, come through late, are bad, and never come through.
pub(crate) fn messages(from: usize, count: usize) -> Vec<(String, &'static str)> {
    let bodies = ["ok", "flaky", "bad", "down"];
    (from..from + count).map(|number| (format!("message-{number}"), bodies[number % bodies.len()])).collect()
}

/// Opens a ledger that nobody has open any more: it does not contradict itself. The only member's also says of no message
/// that it came through, or did not, when that is not so; one of several may not have seen yet what others did.
pub(crate) fn check_ledger(data: &Path, of_all: Option<&[(String, &str)]>, when: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        let problems = store.check().await.unwrap();
        assert!(problems.is_empty(), "{when}: {problems:?}");
        let Some(messages) = of_all else { return };
        let page = Page { limit: 1_000, after: None };
        for entry in store.search(&Filter::default(), &page).await.unwrap().entries {
            let (_, body) = messages.iter().find(|(id, _)| *id == entry.message.id).unwrap();
            let (id, state) = (&entry.message.id, entry.state);
            let said = format!("{when}: {id} ({body}) is {state} because {}", entry.because);
            match *body {
                "bad" | "down" => assert_ne!(state, EntryState::Recovered, "{said}"),
                _ => assert!(!matches!(state, EntryState::Dead | EntryState::Parked), "{said}"),
            }
        }
    });
}

/// Runs work for each of these, a few at a time.
pub(crate) fn each<T: Sync>(at_once: usize, all: &[T], work: impl Fn(usize, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(all.len()) {
            scope.spawn(|| {
                while let Some((place, one)) = {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    all.get(place).map(|one| (place, one))
                } {
                    work(place, one);
                }
            });
        }
    });
}

/// How many rounds of random kills; a soak asks for more.
pub(crate) fn rounds() -> usize {
    std::env::var("REDRIVE_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}
