//! A folder with a data file, the built command in it, and an instance that runs on it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::engine::port::{EntryState, Ledger};
use redrive::{Class, Context, Flow, Instance, Message, Ready};
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_redrive");

/// A folder with a data file, and the commands that are run in it.
pub(crate) struct Desk {
    folder: TempDir,
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("redrive.db")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = Command::new(BINARY)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .env("REDRIVE_USER", "tester")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses early does not read.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Commands one after the other, each with everything it said; what differs from run to run is masked.
    pub(crate) fn session(&self, commands: &[&[&str]]) -> String {
        let mut told = String::new();
        for arguments in commands {
            let words: Vec<_> = arguments
                .iter()
                .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() })
                .collect();
            let ran = self.run(arguments);
            write!(told, "$ redrive {}\n{}", words.join(" "), ran.text()).unwrap();
            if !ran.stderr.is_empty() {
                write!(told, "--- stderr\n{}", ran.stderr).unwrap();
            }
            write!(told, "--- exit {}\n\n", ran.code).unwrap();
        }
        masked(&told)
    }
}

/// Ids become numbers in the order in which they are met, times one time; both stay as wide as they are.
pub(crate) fn masked(text: &str) -> String {
    fn fits(shape: &[u8], bytes: &[u8]) -> bool {
        bytes.len() >= shape.len()
            && shape.iter().zip(bytes).all(|(shape, byte)| match shape {
                b'x' => byte.is_ascii_hexdigit(),
                b'd' => byte.is_ascii_digit(),
                other => other == byte,
            })
    }
    const ID: &[u8] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    const TIME: &[u8] = b"dddd-dd-dd dd:dd:dd";
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = if fits(ID, rest.as_bytes()) {
            let fresh = numbers.len() + 1;
            let number = *numbers.entry(&rest[..ID.len()]).or_insert(fresh);
            write!(out, "{:-<36}", format!("id-{number}")).unwrap();
            ID.len()
        } else if fits(TIME, rest.as_bytes()) {
            out.push_str("2026-07-01 09:00:00");
            TIME.len()
        } else {
            out.push(next);
            next.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

#[derive(Debug, thiserror::Error)]
#[error("order {0} has no address")]
pub(crate) struct NoAddress(String);

#[derive(Debug, thiserror::Error)]
#[error("the stock service said no")]
pub(crate) struct OutOfStock;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) fn text_of(message: &Message) -> String {
    message.body.as_ref().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default()
}

/// An instance whose flow `orders` parks what has no address and gives up on everything else.
pub(crate) async fn orders(data: &Path, broken: Arc<AtomicBool>) -> Instance {
    orders_flow(data, broken).start().await.unwrap()
}

pub(crate) fn orders_flow(data: &Path, broken: Arc<AtomicBool>) -> Ready {
    Flow::from("queue:orders")
        .data(data)
        .attempts(1)
        .concurrency(1)
        .park_on::<NoAddress>("NO_ADDRESS")
        .on::<OutOfStock>(Class::Transient, "OUT_OF_STOCK")
        .handle(move |message: Message, _: Context| {
            let broken = broken.load(Ordering::SeqCst);
            async move {
                match text_of(&message).as_str() {
                    _ if !broken => Ok(()),
                    "stock" => Err(OutOfStock.into()),
                    text => Err::<(), BoxError>(NoAddress(text.to_owned()).into()),
                }
            }
        })
}

/// Waits until so many entries of a flow stand in a state.
pub(crate) async fn until(instance: &Instance, flow: &str, state: EntryState, count: u64) {
    let arrive = async {
        while instance.store().count(flow, state).await.unwrap() != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_secs(30), arrive).await;
    let counts = instance.store().counts().await;
    assert!(arrived.is_ok(), "{count} of {flow} should be {state}: {counts:?}");
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
