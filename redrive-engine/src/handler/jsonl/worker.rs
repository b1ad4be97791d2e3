//! The process behind the handler: started when it is needed, started again when it died.

use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_core::classify::IoKind;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::lines::{Line, next_line};
use super::pending::{Outgoing, Pending};
use super::wire::Answer;
use crate::handler::process::{CommandLine, Group};
use crate::handler::tail::Tail;

/// The longest line that is read, in bytes.
const MAX_LINE: usize = 1024 * 1024;
/// The waits before the process is started again: twice as long each time, until it answers.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a process may take to end after its input was closed.
const TO_FINISH: Duration = Duration::from_secs(30);
/// How long it may go on after it stopped reading or writing.
const TO_DIE: Duration = Duration::from_secs(1);
/// How long what it wrote before its end may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) line: CommandLine,
    pub(super) pending: Arc<Pending>,
    pub(super) ignored: Arc<AtomicU64>,
}

/// Why a conversation is over.
enum Over {
    /// The handler has nothing more to send.
    Closed,
    /// The process reads no more.
    Broken,
    /// The process writes no more.
    Silent,
    /// The process has ended.
    Ended,
}

impl Worker {
    /// Runs the process as long as there is somebody to send lines.
    pub(super) async fn run(self, mut lines: UnboundedReceiver<Outgoing>) {
        let mut wait = FIRST_WAIT;
        let mut held = None;
        loop {
            let first = match held.take() {
                Some(first) => first,
                None => match lines.recv().await {
                    Some(first) => first,
                    None => return,
                },
            };
            if !self.pending.send(&first) {
                continue;
            }
            match self.converse(first, &mut lines).await {
                Some(Over::Closed) => return,
                // It has answered, so it can work, and whatever ended it may not come again at once.
                Some(_) => wait = FIRST_WAIT,
                None => {}
            }
            let mut waiting = std::pin::pin!(sleep(wait));
            wait = (wait * 2).min(LONGEST_WAIT);
            loop {
                tokio::select! {
                    () = &mut waiting => break,
                    next = lines.recv(), if held.is_none() => match next {
                        Some(next) => held = Some(next),
                        None => return,
                    },
                }
            }
        }
    }

    /// One life of the process. Answers how it ended, or nothing when it never answered anything.
    async fn converse(&self, first: Outgoing, lines: &mut UnboundedReceiver<Outgoing>) -> Option<Over> {
        let mut command = self.line.command();
        command.stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                tracing::warn!(program = self.line.program(), %error, "a worker cannot be started");
                self.pending.fail(&self.line.not_started(&error), true);
                return None;
            }
        };
        let group = Group::of(&child);
        let answered = Arc::new(AtomicU64::new(0));
        let tail = Arc::new(Mutex::new(Tail::default()));
        let mut reading = Task(tokio::spawn(read(
            child.stdout.take(),
            Arc::clone(&self.pending),
            Arc::clone(&self.ignored),
            Arc::clone(&answered),
        )));
        let mut listening = Task(tokio::spawn(listen(child.stderr.take(), Arc::clone(&tail))));

        let over = tokio::select! {
            over = write(child.stdin.take(), &self.pending, first, lines) => over,
            _ = &mut reading.0 => Over::Silent,
            _ = child.wait() => Over::Ended,
        };
        let limit = match over {
            Over::Closed => TO_FINISH,
            Over::Broken | Over::Silent => TO_DIE,
            Over::Ended => LAST_WORDS,
        };
        let _ = timeout(limit, async {
            if !matches!(over, Over::Silent) {
                let _ = (&mut reading.0).await;
            }
            child.wait().await
        })
        .await;
        group.end();
        let status = child.wait().await;
        let _ = timeout(LAST_WORDS, &mut listening.0).await;
        self.mourn(&status, &tail);
        (answered.load(Ordering::Relaxed) > 0 || matches!(over, Over::Closed)).then_some(over)
    }

    fn mourn(&self, status: &std::io::Result<ExitStatus>, tail: &Mutex<Tail>) {
        let last_words = tail.lock().unwrap_or_else(PoisonError::into_inner).text();
        let failure = self.line.ended(status, &last_words).with_type("jsonl").with_io(IoKind::BrokenPipe);
        tracing::info!(program = self.line.program(), error = failure.message(), "a worker ended");
        self.pending.fail(&failure, false);
    }
}

/// Writes lines as they come. Calls that are no longer waited for are left out.
async fn write(
    stdin: Option<ChildStdin>,
    pending: &Pending,
    first: Outgoing,
    lines: &mut UnboundedReceiver<Outgoing>,
) -> Over {
    let Some(mut stdin) = stdin else { return Over::Broken };
    let mut next = first;
    loop {
        if pending.send(&next) && stdin.write_all(&next.line).await.is_err() {
            return Over::Broken;
        }
        next = match lines.recv().await {
            Some(next) => next,
            None => return Over::Closed,
        };
    }
}

/// Reads answers until the stream ends.
async fn read(
    stdout: Option<ChildStdout>,
    pending: Arc<Pending>,
    ignored: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
) {
    let Some(stdout) = stdout else { return };
    let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
    let pass_over = |what: &str| {
        ignored.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(what, "passed over a part of a worker's answers");
    };
    while let Ok(Some(line)) = next_line(&mut stdout, MAX_LINE).await {
        let answer = match line {
            Line::Whole(line) => Answer::read(&line),
            Line::TooLong => None,
        };
        let Some(answer) = answer else {
            pass_over("a line that is no answer");
            continue;
        };
        if pending.answer(&answer.id, answer.attempt, || answer.meaning(pass_over)) {
            answered.fetch_add(1, Ordering::Relaxed);
        } else {
            pass_over("an answer that nobody waits for");
        }
    }
}

/// Keeps the last words of the process, and shows all of them in the log.
async fn listen(stderr: Option<ChildStderr>, tail: Arc<Mutex<Tail>>) {
    let Some(stderr) = stderr else { return };
    let mut stderr = BufReader::new(stderr);
    while let Ok(Some(line)) = next_line(&mut stderr, MAX_LINE).await {
        let Line::Whole(mut line) = line else { continue };
        tracing::debug!(line = %String::from_utf8_lossy(&line), "a worker says");
        line.push(b'\n');
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&line);
    }
}

/// A task that ends when nobody waits for it any more.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
