//! `jsonl:`, one long-lived process that reads a message a line and answers a line each.
//!
//! Starting a process costs more than most messages do, and a process that stays keeps its connections. It is
//! started at the first message and started again when it ends, after 100 ms and up to 10 s.
//!
//! In, on its standard input:
//! ```json
//! {"id":"o-1","attempt":1,"key":"k","headers":{"type":"OrderPlaced"},"body":"…","deadline":"2026-07-01T09:00:30Z"}
//! ```
//! `body` is text, or null for a tombstone; a body that is not UTF-8 comes as `body_base64` instead, a key as
//! `key_base64`, a header in `headers_base64`. `key` is left out when there is none.
//!
//! Out, on its standard output, in any order:
//! ```json
//! {"id":"o-1"}
//! {"id":"o-2","error":{"type":"OutOfStock","message":"none left"},"reason":"NO_STOCK"}
//! {"id":"o-3","verdict":"retry-after=30s","calls_used":2,"cost":1}
//! ```
//! | field | meaning |
//! |---|---|
//! | `id` | the message that is answered |
//! | `verdict` | as in an HTTP handler's `redrive-verdict`; beats `error`. An unknown one fails the message |
//! | `error` | a text, or an object with `type` and `message`: the message failed, also when it is empty |
//! | `reason`, `calls_used`, `cost` | as an HTTP handler's headers |
//! | `attempt` | the attempt that is answered, if told; another attempt's answer is passed over |
//!
//! Lines that are no answer, answers that nobody waits for and lines over 1 MB are counted and passed over. What it
//! writes to standard error goes to the log at level debug, and its last lines into the failures of the calls that
//! were in flight when it died; these are transient. A call whose time is over is forgotten here, not in the process:
//! its late answer is taken for the next attempt's, unless it says its `attempt`.
//!
//! At the end its input is closed; it has to finish what it has and end.

mod lines;
mod pending;
mod wire;
mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::classify::IoKind;
use redrive_core::{Failure, Message};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use self::pending::{Outgoing, Pending};
use self::worker::Worker;
use super::process::CommandLine;
use super::{Attempted, Context, Handler};

/// A long-lived process that speaks JSON lines.
#[derive(Debug)]
pub struct JsonlHandler {
    line: CommandLine,
    pending: Arc<Pending>,
    ignored: Arc<AtomicU64>,
    worker: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Idle,
    Running { lines: UnboundedSender<Outgoing>, task: JoinHandle<()> },
    Closed,
}

impl JsonlHandler {
    /// A handler that talks to this command. It is started with the first message.
    pub fn new(line: CommandLine) -> Self {
        Self {
            line,
            pending: Arc::new(Pending::default()),
            ignored: Arc::default(),
            worker: Mutex::new(State::Idle),
        }
    }

    /// Hands a line to the worker, which is started if need be. Refuses after the shutdown.
    fn send(&self, outgoing: Outgoing) -> bool {
        let mut state = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let outgoing = match &*state {
            State::Closed => return false,
            State::Idle => outgoing,
            State::Running { lines, .. } => match lines.send(outgoing) {
                Ok(()) => return true,
                // Its runtime is gone, and with it the task.
                Err(refused) => refused.0,
            },
        };
        let worker = Worker {
            line: self.line.clone(),
            pending: Arc::clone(&self.pending),
            ignored: Arc::clone(&self.ignored),
        };
        let (lines, received) = unbounded_channel();
        let sent = lines.send(outgoing).is_ok();
        *state = State::Running { lines, task: tokio::spawn(worker.run(received)) };
        sent
    }
}

#[async_trait]
impl Handler for JsonlHandler {
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        let (place, answer) = self.pending.enter(&message.id, context.attempt).await;
        let line = match wire::call_line(message, &context) {
            Ok(line) => line,
            Err(error) => return Attempted::failure(Failure::from_error(error)),
        };
        let sent = self.send(place.outgoing(line));
        if sent && let Ok(attempted) = answer.await {
            return attempted;
        }
        let text = format!("`{}` has been shut down", self.line.program());
        Attempted::failure(Failure::from_message(text).with_type("jsonl").with_io(IoKind::BrokenPipe))
    }

    fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    async fn shutdown(&self, grace: Duration) {
        let state = std::mem::replace(
            &mut *self.worker.lock().unwrap_or_else(PoisonError::into_inner),
            State::Closed,
        );
        let State::Running { lines, mut task } = state else { return };
        drop(lines);
        if tokio::time::timeout(grace, &mut task).await.is_err() {
            // Dropping the conversation kills the process and everything it started.
            task.abort();
            let _ = task.await;
        }
    }
}
