//! A message that takes its process with it.
//!
//! The test runs itself again as a process whose handler aborts on one message, as often as it takes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redrive::engine::port::{Broker as _, EntryState, Filter, Ledger as _, NewMessage, Page};
use redrive::sqlite::{Options, Store};
use redrive::{Context, Flow, Message};

const FOLDER: &str = "REDRIVE_TEST_CRASH_FOLDER";
const POISON: &str = "message-077";

fn data(folder: &Path) -> PathBuf {
    folder.join("redrive.db")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What the process does: handles everything, and dies of one message.
fn handle_and_die(folder: &Path) {
    let journal = folder.join("handled");
    let flow = Flow::from("queue:orders").data(data(folder)).concurrency(8).handle(
        move |message: Message, _: Context| {
            let journal = journal.clone();
            async move {
                if message.id == *POISON {
                    std::process::abort();
                }
                // Others are being handled at the same moment.
                tokio::time::sleep(Duration::from_millis(2)).await;
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(journal)?;
                // In one piece, since others write too.
                file.write_all(format!("{}\n", message.id).as_bytes())
            }
        },
    );
    runtime().block_on(async {
        let instance = flow.start().await.unwrap();
        instance.idle(Duration::from_millis(300)).await;
        instance.stop(std::future::pending()).await;
    });
}

#[test]
fn a_message_that_kills_its_process_is_parked_and_its_neighbours_are_not_charged() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return handle_and_die(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = data(folder.path());
    let ids: Vec<String> = (0..200).map(|n| format!("message-{n:03}")).collect();
    runtime().block_on(async {
        let store = Store::open(&file, Options::default()).unwrap();
        let message = |id: &String| NewMessage { id: Some(id.clone()), ..NewMessage::default() };
        store.publish("orders", ids.iter().map(message).collect()).await.unwrap();
    });

    let mut deaths = 0;
    loop {
        let status = Command::new(std::env::current_exe().unwrap())
            .env(FOLDER, folder.path())
            .arg("a_message_that_kills_its_process_is_parked_and_its_neighbours_are_not_charged")
            .output()
            .unwrap()
            .status;
        if status.success() {
            break;
        }
        deaths += 1;
        assert!(deaths <= 4, "it dies again and again");
    }
    assert_eq!(deaths, 2, "once among others, once alone");

    runtime().block_on(async {
        let store = Store::open(&file, Options::default()).unwrap();
        let page = Page { limit: 1_000, after: None };
        let entries = store.search(&Filter::default(), &page).await.unwrap().entries;
        assert_eq!(entries.len(), 1, "nobody else was charged: {entries:?}");
        let entry = &entries[0];
        assert_eq!((entry.message.id.as_str(), entry.state), (POISON, EntryState::Parked));
        assert_eq!((entry.class.as_str(), entry.reason.as_str()), ("POISON", "HANDLER_CRASHED"));
        assert_eq!(store.check().await.unwrap(), []);
        for queue in store.queues().await.unwrap() {
            assert_eq!((queue.depth.ready, queue.depth.waiting), (0, 0));
        }
    });
    let handled = std::fs::read_to_string(folder.path().join("handled")).unwrap();
    for id in ids.iter().filter(|id| *id != POISON) {
        assert!(handled.lines().any(|line| line == id), "{id} is lost");
    }
}
