//! The in-flight journal of an instance: beside its data, in each of its flows, and nothing that a start depends on.

use std::path::Path;

use redrive::engine::port::{Clock as _, SystemClock};
use redrive::engine::{FlowSpec, Journal};
use redrive::{Context, Flow, Instance, Message};

async fn start(data: &Path) -> Instance {
    let flow = Flow::from("queue:orders").data(data);
    flow.handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) }).start().await.unwrap()
}

fn spec(instance: &Instance) -> FlowSpec {
    instance.views().first().unwrap().spec().clone()
}

#[tokio::test]
async fn what_ran_when_the_last_process_died_is_known_to_the_flow() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redrive.db");
    let beside = folder.path().join("redrive.db.d");
    std::fs::create_dir(&beside).unwrap();
    {
        // The process that did not come to its end.
        let journal = Journal::open(&beside.join("inflight"), 64, SystemClock::default().now()).unwrap();
        std::mem::forget(journal.begin(journal.name("orders", "order-1")));
    }
    let instance = start(&data).await;
    let spec = spec(&instance);
    let journal = spec.journal.as_ref().unwrap();
    assert_eq!(journal.suspects(), 1);
    assert_eq!(journal.crashes(journal.name("orders", "order-1")), 1);
    assert_eq!(spec.crash_limit, 2);
    instance.stop(std::future::pending()).await;
}

#[tokio::test]
async fn an_instance_starts_without_a_journal_when_there_can_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redrive.db");
    // In the way of the new file, and not to be removed as one.
    std::fs::create_dir_all(folder.path().join("redrive.db.d/inflight.new")).unwrap();
    let instance = start(&data).await;
    assert!(spec(&instance).journal.is_none());
    instance.stop(std::future::pending()).await;
}
