//! A flow and what its handler keeps running between calls.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::Message;
use redrive_engine::handler::{Attempted, CommandLine, Context, Handler, JsonlHandler};
use redrive_engine::port::{Broker as _, NewMessage};
use redrive_engine::{Flow, FlowSpec};
use testkit::clock::TestClock;
use testkit::memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);

/// Notes what it is asked, and never ends a call by itself.
#[derive(Debug, Default)]
struct Worker {
    running: AtomicU32,
    ended: Mutex<Vec<Duration>>,
    hangs: AtomicBool,
}

struct Running<'w>(&'w Worker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Handler for Worker {
    async fn call(&self, _: &Message, _: Context) -> Attempted {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(self);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Attempted::success()
    }

    async fn shutdown(&self, grace: Duration) {
        assert_eq!(self.running.load(Ordering::SeqCst), 0, "a call is in flight");
        self.ended.lock().unwrap().push(grace);
    }
}

async fn running(store: &MemoryStore, clock: &Arc<TestClock>, handler: Arc<dyn Handler>) -> Flow {
    let spec = FlowSpec {
        breaker: None,
        shutdown: SECOND * 3,
        timeout: SECOND * 100,
        ..FlowSpec::new("orders", "orders", handler)
    };
    Flow::start(spec, store.broker(), store.ledger(), clock.clone()).await.unwrap()
}

async fn publish(store: &MemoryStore, id: &str) {
    let message = NewMessage { id: Some(id.to_owned()), ..NewMessage::default() };
    store.broker().publish("orders", vec![message]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_ended_once_after_its_last_call() {
    let clock = Arc::new(TestClock::default());
    let store = MemoryStore::shared(clock.clone());
    for hangs in [false, true] {
        let worker = Arc::new(Worker { hangs: hangs.into(), ..Worker::default() });
        let flow = running(&store, &clock, worker.clone()).await;
        publish(&store, "a").await;
        tokio::time::sleep(SECOND).await;
        assert!(worker.ended.lock().unwrap().is_empty());
        flow.stop().await;
        let ended = worker.ended.lock().unwrap().clone();
        assert!(matches!(ended[..], [grace] if (SECOND..=SECOND * 5).contains(&grace)), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hurried_stop_gives_a_handler_no_time() {
    let clock = Arc::new(TestClock::default());
    let store = MemoryStore::shared(clock.clone());
    let worker = Arc::new(Worker { hangs: true.into(), ..Worker::default() });
    let flow = running(&store, &clock, worker.clone()).await;
    publish(&store, "a").await;
    tokio::time::sleep(SECOND).await;
    flow.force().now();
    flow.stop().await;
    assert_eq!(*worker.ended.lock().unwrap(), [Duration::ZERO]);
}

/// The long-lived process of a real `jsonl:` handler is gone when its flow has stopped.
#[tokio::test]
async fn a_worker_process_ends_with_its_flow() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, bye) = (folder.path().join("pid"), folder.path().join("bye"));
    let script = folder.path().join("worker.sh");
    let text = format!(
        "echo $$ > {}\nwhile read -r line; do\n  echo '{{\"id\":\"a\"}}'\ndone\necho > {}\n",
        pid.display(),
        bye.display()
    );
    std::fs::write(&script, text).unwrap();
    let clock = Arc::new(TestClock::default());
    let store = MemoryStore::shared(clock.clone());
    let line = CommandLine::from_words(&["sh".to_owned(), script.display().to_string()]).unwrap();
    let flow = running(&store, &clock, Arc::new(JsonlHandler::new(line))).await;
    publish(&store, "a").await;
    tokio::time::timeout(SECOND * 30, async {
        while store.broker().queues().await.unwrap().iter().any(|queue| queue.depth.ready > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    flow.stop().await;
    assert!(bye.exists(), "it was not let finish");
    let pid = std::fs::read_to_string(pid).unwrap();
    let gone = !std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(gone || !cfg!(target_os = "linux"), "process {pid} still runs");
}
