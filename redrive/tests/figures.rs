//! The figures that a running instance tells, as its page says.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive::core::Headers;
use redrive::core::headers::{Key, Keyring};
use redrive::engine::FlowSpec;
use redrive::engine::handler::{Attempted, FunctionHandler, Handler};
use redrive::engine::port::{
    Actor, Broker as _, EntryId, EntryState, Filter, Ledger as _, NewMessage, NewReplay,
};
use redrive::{Context, Failure, Instance, InstanceOptions, Message, PolicySpec, Timestamp};

/// Fails until it is mended, and answers with something that nobody understands.
#[derive(Debug, Default)]
struct Odd {
    mended: std::sync::atomic::AtomicBool,
    ignored: AtomicU64,
}

#[async_trait::async_trait]
impl Handler for Odd {
    async fn call(&self, _: &Message, _: Context) -> Attempted {
        self.ignored.fetch_add(1, Ordering::SeqCst);
        if self.mended.load(Ordering::SeqCst) {
            Attempted::success()
        } else {
            Attempted::failure(Failure::from_message("away").with_status(503))
        }
    }

    fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::SeqCst)
    }
}

async fn succeed(_: Message, _: Context) -> Result<(), std::io::Error> {
    Ok(())
}

async fn until(instance: &Instance, state: EntryState, count: u64) {
    let arrive = async {
        while instance.store().count("orders", state).await.unwrap() != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), arrive).await.unwrap();
}

/// The sum of a figure over its samples whose labels contain this text.
fn figure(text: &str, name: &str, labels: &str) -> f64 {
    let samples =
        text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name) && line.contains(labels));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn run(data: &Path) {
    let recorder = redrive::server::Recorder::new();
    let figures = recorder.figures();
    assert!(redrive::server::install(recorder));
    let options = InstanceOptions { listen: None, ..InstanceOptions::new(data) };
    let mut instance = Instance::open(options, Some(figures.clone())).await.unwrap();
    let odd = Arc::new(Odd::default());
    let policy: PolicySpec = serde_json::from_str(r#"{ "local": "1ms", "retry": "5ms" }"#).unwrap();
    let mut spec = FlowSpec::new("orders", "orders", odd.clone());
    spec.policy = Arc::new(policy.build().unwrap());
    spec.breaker = None;
    instance.start(spec, "a test").await.unwrap();
    // Another flow signs its headers, and gets one that nobody signed, with a number that is none.
    let mut spec = FlowSpec::new("signed", "signed", Arc::new(FunctionHandler::new(succeed)));
    spec.headers = spec.headers.signed(Keyring::new(Key::generate([7; 32])));
    instance.start(spec, "a test").await.unwrap();
    let spec = FlowSpec::new("plain", "plain", Arc::new(FunctionHandler::new(succeed)));
    instance.start(spec, "a test").await.unwrap();
    let mut headers = Headers::new();
    headers.push("x-retry-attempt", "-1");
    for queue in ["signed", "plain"] {
        let forged = NewMessage { headers: headers.clone(), ..NewMessage::default() };
        instance.store().publish(queue, vec![forged]).await.unwrap();
    }
    let messages = ["a", "b"].map(|id| NewMessage { id: Some(id.to_owned()), ..NewMessage::default() });
    instance.store().publish("orders", messages.into()).await.unwrap();
    until(&instance, EntryState::Dead, 2).await;
    odd.mended.store(true, Ordering::SeqCst);
    let replay =
        NewReplay { filter: Filter::default(), ids: Vec::new(), rate: None, max: None, canary: None };
    let actor = Actor { who: "ann".to_owned(), why: "mended".to_owned() };
    let id = EntryId::from_u128(7);
    instance.store().begin_replay(id, &replay, &actor, Timestamp::from_millis(1)).await.unwrap();
    until(&instance, EntryState::Recovered, 2).await;
    let told = async {
        while figure(&figures.render(), "redrive_replay_messages_total", "outcome=\"recovered\"") < 2.0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
    let handled = async {
        while figure(&figures.render(), "redrive_attempts_total", "result=\"success\"") < 4.0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), handled).await.unwrap();
    instance.stop(std::future::pending()).await;

    let text = figures.render();
    let is = |name: &str, labels: &str, expected: f64| {
        let found = figure(&text, name, labels);
        assert!((found - expected).abs() < 0.001, "{name}{{{labels}}} is {found}, not {expected}:\n{text}");
    };
    // Two messages: each a call, one retry in place, one delayed, and after the replay one that succeeds.
    is("redrive_attempts_total", "result=\"failure\"", 6.0);
    is("redrive_attempts_total", "flow=\"orders\",result=\"success\"", 2.0);
    is("redrive_answers_ignored_total", "flow=\"orders\"", 8.0);
    is("redrive_retry_age_seconds_count", "flow=\"orders\"", 4.0);
    is("redrive_replay_messages_total", "outcome=\"sent\"", 2.0);
    is("redrive_replay_messages_total", "outcome=\"recovered\"", 2.0);
    is("redrive_replay_messages_total", "outcome=\"failed\"", 0.0);
    is("redrive_signature_failures_total", "flow=\"signed\"", 1.0);
    is("redrive_signature_failures_total", "", 1.0);
    is("redrive_headers_clamped_total", "flow=\"plain\"", 1.0);
    let page = include_str!("../../docs/metrics.md");
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not on its page");
    }
}

#[test]
fn what_happens_is_counted_and_documented() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(&folder.path().join("redrive.db")));
}
