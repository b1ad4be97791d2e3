//! Small programs for the tests of process handlers, and a way to see that a process is gone.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::path::Path;
use std::time::Duration;

use redrive_core::{Failure, Message, Timestamp};
use redrive_engine::handler::{Attempted, CommandLine, Context, Handler};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// A folder with one program in it.
pub struct Script {
    pub folder: TempDir,
    interpreter: &'static str,
}

impl Script {
    pub fn sh(text: &str) -> Self {
        Self::new("sh", text)
    }

    pub fn python(text: &str) -> Self {
        Self::new("python3", text)
    }

    fn new(interpreter: &'static str, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("script"), text).unwrap();
        Self { folder, interpreter }
    }

    /// The command line, with the folder and what follows as arguments.
    pub fn line(&self, more: &str) -> CommandLine {
        let folder = self.folder.path().display();
        format!("{} '{folder}/script' '{folder}' {more}", self.interpreter).parse().unwrap()
    }

    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

pub fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

pub fn message(id: &str, body: impl Into<bytes::Bytes>) -> Message {
    Message { id: id.into(), body: Some(body.into()), ..Message::default() }
}

pub fn context() -> Context {
    let now = Timestamp::from_millis(1_782_896_400_000);
    Context::detached("orders", 2, Duration::from_secs(30), now)
}

pub async fn call(handler: &dyn Handler, message: &Message) -> Attempted {
    handler.call(message, context()).await
}

pub fn failure(attempted: Attempted) -> Failure {
    *attempted.result.expect_err("a failure")
}

/// A port on which processes report: their connection lasts as long as they do.
pub struct Lifeline(TcpListener);

impl Lifeline {
    pub async fn open() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub fn port(&self) -> String {
        self.0.local_addr().unwrap().port().to_string()
    }

    pub async fn report(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }
}

/// Waits until the process at the other end is gone.
pub async fn gone(mut report: TcpStream) {
    while matches!(report.read(&mut [0; 64]).await, Ok(1..)) {}
}
