//! The samples in examples/handlers, run where their language is installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redrive_core::classify::{Classifier, Seen, Subject};
use redrive_core::{Class, History, Message, Reason, Timestamp, Verdict};
use redrive_engine::handler::http::{HttpHandler, HttpOptions};
use redrive_engine::handler::{Attempted, Context, Handler, JsonlHandler};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/handlers")
}

/// Whether a language is there; says so when it is not.
async fn installed(program: &str, version: &str) -> bool {
    let status =
        Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    let there = status.is_ok_and(|status| status.success());
    if !there {
        eprintln!("{program} is not installed here: its sample is not run");
    }
    there
}

/// Starts a server and waits for the address that it says.
async fn serve(command: &mut Command) -> (Child, HttpHandler) {
    let mut child = command.env("PORT", "0").stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("a line with the address");
    let address = line.strip_prefix("listening on ").unwrap();
    (child, HttpHandler::new(&format!("{address}/orders"), HttpOptions::default()).unwrap())
}

async fn order(handler: &dyn Handler, id: &str, attempt: u32, body: &'static str) -> Attempted {
    let message = Message { id: id.into(), body: Some(body.into()), ..Message::default() };
    let context = Context::detached("orders", attempt, Duration::from_secs(30), Timestamp::from_millis(0));
    tokio::time::timeout(Duration::from_secs(60), handler.call(&message, context)).await.expect("an answer")
}

/// What the samples' README promises.
async fn does_what_the_samples_do(handler: &dyn Handler) {
    let good = order(handler, "o-1", 1, r#"{"id":"o-1","quantity":2}"#).await;
    assert!(good.result.is_ok(), "{good:?}");
    let again = order(handler, "o-1", 2, "not even JSON").await;
    assert!(again.result.is_ok(), "{again:?}");

    let bad = order(handler, "o-2", 1, "not JSON").await.result.unwrap_err();
    let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &bad };
    assert_eq!(Classifier::default().classify(&seen).class, Class::PermanentTechnical, "{bad:?}");

    let flaky = r#"{"id":"o-3","flaky":true}"#;
    let failed = order(handler, "o-3", 1, flaky).await.result.unwrap_err();
    let second = Duration::from_secs(1);
    let asks = failed.retry_after() == Some(second) || failed.verdict() == Some(&Verdict::RetryAfter(second));
    assert!(asks, "{failed:?}");
    assert!(order(handler, "o-3", 2, flaky).await.result.is_ok());

    let parked = order(handler, "o-4", 1, r#"{"id":"o-4","quantity":101}"#).await.result.unwrap_err();
    assert_eq!(parked.verdict(), Some(&Verdict::Park));
    assert_eq!(parked.reason().map(Reason::as_str), Some("TOO_MANY"));
}

#[tokio::test]
async fn python() {
    if installed("python3", "--version").await {
        let (_server, handler) =
            serve(Command::new("python3").arg(samples().join("python/handler.py"))).await;
        does_what_the_samples_do(&handler).await;
    }
}

#[tokio::test]
async fn python_json_lines() {
    if installed("python3", "--version").await {
        let line = format!("python3 '{}'", samples().join("python/worker.py").display());
        let handler = JsonlHandler::new(line.parse().unwrap());
        does_what_the_samples_do(&handler).await;
        handler.shutdown(Duration::from_secs(60)).await;
        assert_eq!(handler.ignored(), 0);
    }
}

#[tokio::test]
async fn node() {
    if installed("node", "--version").await {
        let (_server, handler) = serve(Command::new("node").arg(samples().join("node/handler.mjs"))).await;
        does_what_the_samples_do(&handler).await;
    }
}

#[tokio::test]
async fn go() {
    if installed("go", "version").await {
        let folder = tempfile::TempDir::new().unwrap();
        let program = folder.path().join("handler");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(samples().join("go/handler.go"))
            .status()
            .await
            .unwrap();
        assert!(built.success());
        let (_server, handler) = serve(&mut Command::new(&program)).await;
        does_what_the_samples_do(&handler).await;
    }
}
