//! A data file is free as soon as its instance has stopped.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use redrive::{Context, Flow, Instance, Message};

async fn started(data: &Path) -> Instance {
    let flow = Flow::from("queue:orders")
        .data(data)
        .handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
    flow.start().await.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Stops at many different moments of a flow that looks at its queue.
#[test]
fn a_stopped_instance_leaves_nothing_at_work_on_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redrive.db");
    runtime().block_on(async {
        for round in 0..60_u64 {
            let instance = started(&data).await;
            // Not a wait for something: the moment of the stop is what differs.
            tokio::time::sleep(Duration::from_micros(round * 120)).await;
            instance.stop(std::future::pending()).await;
        }
    });
}

/// What goes on beside the flows, as their looks at a broker's queues do, may end a moment after them.
#[test]
fn a_stop_waits_until_nobody_works_on_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redrive.db");
    runtime().block_on(async {
        let instance = started(&data).await;
        let store = instance.store().clone();
        let mut stopping = tokio::spawn(instance.stop(std::future::pending()));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut stopping).await;
        assert!(early.is_err(), "it did not wait");
        drop(store);
        stopping.await.unwrap();
        started(&data).await.stop(std::future::pending()).await;
    });
}

/// A program that is just being started has a copy of every open file, and of the lock among them.
#[test]
fn a_program_that_is_being_started_does_not_keep_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("redrive.db");
    let (done, ends) = mpsc::channel::<()>();
    let starting = std::thread::spawn(move || {
        while ends.try_recv() == Err(mpsc::TryRecvError::Empty) {
            assert!(Command::new("true").stdin(Stdio::null()).status().unwrap().success());
        }
    });
    runtime().block_on(async {
        for _ in 0..60 {
            started(&data).await.stop(std::future::pending()).await;
        }
    });
    drop(done);
    starting.join().unwrap();
}
