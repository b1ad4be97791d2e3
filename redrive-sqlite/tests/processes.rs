//! What only another process can show: a kill at every fail point, a file in use, a file that may only be read.
//!
//! Run without arguments this is the test; with a role in the environment it is the other process.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redrive_core::fingerprint::Fingerprint;
use redrive_core::headers::Trail;
use redrive_core::{Class, ErrorLink, Reason};
use redrive_engine::fail;
use redrive_engine::port::{
    Actor, AttemptRecord, Broker, Clock as _, ControlKind, Deed, Delivery, EntryId, EntryState, Filter,
    Ledger, NewMessage, NewReplay, Order, Outcome, Page, Record, ReplayState, Room, Selection, Settlement,
    Source, Subscription, SystemClock,
};
use redrive_sqlite::{Options, Store};

/// Each fail point is met so often before this gives it up as passed.
const ROUNDS: u32 = 6;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let path = std::env::var_os("STORE_TEST_FILE");
    match (std::env::var("STORE_TEST_ROLE").as_deref(), path) {
        (Ok("work"), Some(path)) => runtime.block_on(work(Path::new(&path))),
        (Ok("hold"), Some(path)) => hold(Path::new(&path)),
        (Ok("open"), Some(path)) => println!("{}", open_error(Path::new(&path))),
        _ => {
            runtime.block_on(a_kill_at_any_point_loses_nothing());
            a_second_process_is_refused_by_name();
            #[cfg(unix)]
            a_file_that_may_only_be_read_is_refused_when_it_is_opened();
            println!("processes: ok");
        }
    }
}

fn role(role: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("STORE_TEST_ROLE", role).env("STORE_TEST_FILE", file).stdout(Stdio::piped());
    command
}

// The other processes.

fn hold(path: &Path) {
    let _store = Store::open(path, Options::default()).unwrap();
    say("open");
    let _ = std::io::stdin().read(&mut [0]);
}

fn open_error(path: &Path) -> String {
    Store::open(path, Options::default()).map_or_else(|error| error.to_string(), |_| "opened".to_owned())
}

/// A line for the parent, before whatever comes next.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// A small life of a queue. Says what was accepted, and says that a message is being released before it is.
async fn work(path: &Path) {
    let store = Store::open(path, Options::default()).unwrap();
    let now = || SystemClock::default().now();
    let mut source = subscribe(&store).await;
    let messages = |from: usize, to: usize| {
        (from..to).map(|n| NewMessage { id: Some(format!("m{n}")), ..NewMessage::default() }).collect()
    };
    for (from, to) in [(0, 3), (3, 6)] {
        store.publish("orders", messages(from, to)).await.unwrap();
        (from..to).for_each(|n| say(&format!("accepted m{n}")));
    }
    for delivery in take(&mut source, 6).await {
        let id = delivery.message.id.to_string();
        let settlement = if id == "m0" || id == "m1" {
            say(&format!("releases {id}"));
            plain(&delivery, Outcome::Ack)
        } else {
            failed(&delivery)
        };
        store.settle(&[settlement]).await.remove(0).unwrap();
    }
    let actor = Actor { who: "ann".to_owned(), why: "test".to_owned() };
    let discard = Selection::Ids(vec!["m5".to_owned()]);
    store.act(&Deed::Discard, &discard, &actor, now()).await.unwrap();
    for order in [Order::Pause, Order::PauseRetries, Order::Resume] {
        store.order("orders", &order, &actor, now()).await.unwrap();
        say(&format!("ordered {}", order.name()));
    }
    let id = EntryId::now_v7();
    let dead = Filter { state: vec![EntryState::Dead], ..Filter::default() };
    let new = NewReplay { filter: dead, ids: Vec::new(), rate: None, max: None, canary: None };
    store.begin_replay(id, &new, &actor, now()).await.unwrap();
    while store.step_replay(id, 1, now()).await.unwrap().sent > 0 {}
    for delivery in take(&mut source, 3).await {
        say(&format!("releases {}", delivery.message.id));
        store.settle(&[plain(&delivery, Outcome::Ack)]).await.remove(0).unwrap();
    }
    assert_eq!(store.replay(id).await.unwrap().unwrap().state, ReplayState::Done);
    say("finished");
}

async fn subscribe(store: &Store) -> Box<dyn Source> {
    let subscription = Subscription::new("orders", "orders");
    store.subscribe(&subscription).await.unwrap()
}

async fn take(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let received = source.receive(Room::of(100), &mut taken);
        tokio::time::timeout(Duration::from_secs(30), received).await.expect("nothing came").unwrap();
    }
    taken
}

fn plain(delivery: &Delivery, outcome: Outcome) -> Settlement {
    Settlement::plain(delivery.clone(), outcome)
}

fn failed(delivery: &Delivery) -> Settlement {
    let (now, entry, reason) = (SystemClock::default().now(), EntryId::now_v7(), Reason::DOWNSTREAM_TIMEOUT);
    let attempt = AttemptRecord {
        number: 1,
        started_at: now,
        took: Duration::ZERO,
        calls: 1,
        class: Class::Transient,
        group: Fingerprint::of(Class::Transient, &reason, None, None, "503"),
        reason,
        chain: vec![ErrorLink { kind: String::new(), message: "503".to_owned() }],
        status: Some(503),
        response: None,
        decision: "dead_letter",
        because: "the budget is spent".to_owned(),
        handler_version: None,
    };
    let record = Record {
        entry,
        flow: "orders".into(),
        state: EntryState::Dead,
        at: now,
        due_at: None,
        attempt: Some(attempt),
        succeeded: None,
        earlier: Vec::new(),
        attempts: 1,
        message_type: None,
        entity: None,
        tenant: None,
        correlation_id: None,
        causation_id: None,
        owner: None,
        held: None,
        replay: None,
    };
    let trail = Trail { attempt: 1, entry_id: Some(entry.to_string().into()), ..Trail::default() };
    Settlement {
        trail: Some(Box::new(trail)),
        record: Some(Box::new(record)),
        ..plain(delivery, Outcome::DeadLetter)
    }
}

// The tests.

async fn a_kill_at_any_point_loses_nothing() {
    let points = fail::EMBEDDED.iter().filter(|name| name.starts_with("sqlite."));
    let mut kills = 0;
    for point in points {
        let mut finished = false;
        for round in 1..=ROUNDS {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("redrive.db");
            let child = role("work", &file)
                .env("REDRIVE_FAIL", format!("{point}:{round}"))
                .stderr(Stdio::null())
                .output();
            let child = child.unwrap();
            let said = String::from_utf8(child.stdout).unwrap();
            finished = said.lines().any(|line| line == "finished");
            kills += u32::from(!finished);
            if !finished {
                assert!(child.status.code().is_none(), "{point}:{round} ended by itself: {}", child.status);
            }
            assert_nothing_lost(&file, &said, &format!("{point}:{round}")).await;
            if finished {
                assert!(round > 1 || cfg!(not(debug_assertions)), "the work never passes {point}");
                break;
            }
        }
        println!("killed at {point}{}", if finished { " every time" } else { "" });
    }
    assert!(kills > 0 || cfg!(not(debug_assertions)));
}

/// What was accepted and not being released is in the queue or in the ledger, in one place.
async fn assert_nothing_lost(file: &Path, said: &str, at: &str) {
    let store = Store::open(file, Options::default()).unwrap();
    assert_eq!(store.check().await.unwrap(), [], "{at}");
    let named = |what: &str| -> BTreeSet<String> {
        said.lines().filter_map(|line| line.strip_prefix(what).map(str::to_owned)).collect()
    };
    let mut source = subscribe(&store).await;
    let depth = source.depth().await.unwrap();
    let queued: BTreeSet<String> = take(&mut source, (depth.ready + depth.waiting) as usize)
        .await
        .iter()
        .map(|delivery| delivery.message.id.to_string())
        .collect();
    let entries = store.search(&Filter::default(), &Page::default()).await.unwrap().entries;
    for id in named("accepted ") {
        let entry = entries.iter().find(|entry| entry.message.id == id);
        let rests = entry.is_some_and(|entry| {
            !matches!(entry.state, EntryState::Waiting | EntryState::Replaying | EntryState::Recovered)
        });
        let held = usize::from(rests) + usize::from(queued.contains(&id));
        if named("releases ").contains(&id) {
            assert!(held <= 1, "{at}: {id} is in {held} places");
        } else {
            assert_eq!(held, 1, "{at}: {id} is in {held} places");
        }
    }
    assert_orders_stand(&store, &named("ordered "), at).await;
}

/// What was ordered stands, on the record and in force; the one that the kill met stands whole or not at all.
async fn assert_orders_stand(store: &Store, said: &BTreeSet<String>, at: &str) {
    let lines: BTreeSet<String> =
        store.audit(None, 100).await.unwrap().into_iter().map(|line| line.what).collect();
    for order in said {
        assert!(lines.contains(order), "{at}: {order} is not on the record");
    }
    let controls = store.controls().await.unwrap();
    let in_force = |kind| controls.iter().any(|control| control.kind == kind);
    let paused = lines.contains("pause") && !lines.contains("resume");
    assert_eq!(in_force(ControlKind::Pause), paused, "{at}: {lines:?}");
    assert_eq!(in_force(ControlKind::PauseRetries), lines.contains("pause --retries"), "{at}: {lines:?}");
}

fn wait_for(child: &mut Child, line: &str) {
    let mut said = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().unwrap());
    out.read_line(&mut said).unwrap();
    assert_eq!(said.trim(), line);
}

fn a_second_process_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redrive.db");
    let mut child = role("hold", &file).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, "open");
    let refused = open_error(&file);
    assert!(refused.contains(&format!("is in use by process {}", child.id())), "{refused}");
    // Killed, it leaves no lock behind.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open_error(&file), "opened");
}

#[cfg(unix)]
fn a_file_that_may_only_be_read_is_refused_when_it_is_opened() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;

    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redrive.db");
    drop(Store::open(&file, Options::default()).unwrap());
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    // Root may write whatever a file's rights say, so nobody has to try. He needs a way to this program, too.
    let all_may_write = fs::OpenOptions::new().append(true).open(&file).is_ok();
    let mut child = role("open", &file);
    if all_may_write {
        for name in ["redrive.db.d", "redrive.db.d/lock", ""] {
            let mode = if name.ends_with("lock") { 0o666 } else { 0o777 };
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        let program = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        child = Command::new(program);
        child.env("STORE_TEST_ROLE", "open").env("STORE_TEST_FILE", &file).uid(NOBODY);
    }
    let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
    assert!(said.contains("cannot be written"), "{said}");
}
