//! The one writer.
//!
//! A commit costs a wait for the disk, whatever it holds. So one thread owns the one connection that writes, takes all
//! requests that have arrived while the disk was busy, runs them in one transaction, commits once and then answers
//! them all. Each request has its own savepoint: one that fails takes no other along.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use redrive_engine::fail;
use redrive_engine::port::{Clock, PortError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::fault::{Done, Fault};
use crate::reading::Readings;
use crate::tx::{Memory, Tx};

/// Requests that may wait for the writer; more make their callers wait.
const WAITING: usize = 1_024;
/// Requests in one commit.
const GROUP: usize = 256;

/// Given no transaction, a job answers with the error and is done.
type Job = Box<dyn FnOnce(Result<&mut Tx<'_>, PortError>, &Path) -> Ran + Send>;
type Answer = Box<dyn FnOnce(Result<(), PortError>) + Send>;

/// What a job left: whether its writes stand, and who waits for the commit.
struct Ran {
    stands: bool,
    /// The file did not take its writes.
    trouble: bool,
    answer: Answer,
}

/// The way to the writer.
#[derive(Debug)]
pub(crate) struct Writer {
    sender: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    takes_writes: Arc<AtomicBool>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        memory: Memory,
        path: PathBuf,
        readings: Arc<Readings>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let takes_writes = Arc::new(AtomicBool::new(true));
        let desk =
            Desk { connection, memory, path, readings, clock, takes_writes: Arc::clone(&takes_writes) };
        let thread = std::thread::Builder::new()
            .name("redrive-sqlite-writer".to_owned())
            .spawn(move || desk.serve(receiver))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), takes_writes })
    }

    /// Runs `work` inside a transaction; when this answers, its writes are durable.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, PortError> {
        let (reply, answered) = oneshot::channel();
        let job: Job = Box::new(move |tx, path| {
            let result = tx.and_then(|tx| work(tx).map_err(|fault| fault.into_port(path)));
            let stands = result.is_ok();
            let trouble = matches!(result, Err(PortError::Unavailable(_) | PortError::Broken(_)));
            let answer: Answer = Box::new(move |committed| {
                // Nobody may be waiting any more; the write stands all the same.
                let _ = reply.send(result.and_then(|value| committed.map(|()| value)));
            });
            Ran { stands, trouble, answer }
        });
        let ended = || PortError::Unavailable("the writer of the data file has ended".to_owned());
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        sender.send(job).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Whether the file takes writes: known from the last one, or found out when that one was not taken.
    pub(crate) async fn ready(&self) -> Result<(), PortError> {
        if self.takes_writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.run(|tx| {
            let version: u32 = tx.sql.pragma_query_value(None, "user_version", |row| row.get(0))?;
            // Writes a page, whatever is in it.
            tx.sql.pragma_update(None, "user_version", version)?;
            Ok(())
        })
        .await
    }
}

impl Drop for Writer {
    /// Waits for what is under way, so that the file is closed when its store is.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desk {
    connection: Connection,
    memory: Memory,
    path: PathBuf,
    readings: Arc<Readings>,
    clock: Arc<dyn Clock>,
    takes_writes: Arc<AtomicBool>,
}

impl Desk {
    fn serve(mut self, mut receiver: mpsc::Receiver<Job>) {
        let mut jobs = VecDeque::with_capacity(GROUP);
        while let Some(first) = receiver.blocking_recv() {
            jobs.push_back(first);
            while jobs.len() < GROUP
                && let Ok(job) = receiver.try_recv()
            {
                jobs.push_back(job);
            }
            while !jobs.is_empty() {
                self.group(&mut jobs);
            }
        }
    }

    /// Runs jobs in one transaction: all of them, unless SQLite gives the transaction up on the way.
    fn group(&mut self, jobs: &mut VecDeque<Job>) {
        if let Err(error) = self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([]))
        {
            let error = Fault::from(error).into_port(&self.path);
            self.takes_writes.store(false, Ordering::Relaxed);
            for job in jobs.drain(..) {
                (job(Err(error.clone()), &self.path).answer)(Ok(()));
            }
            return;
        }
        let alone = jobs.len() == 1;
        let mut answers = Vec::with_capacity(jobs.len());
        let mut tx = Tx::new(&self.connection, &mut self.memory, &self.readings, self.clock.now());
        let (mut lost, mut trouble) = (false, false);
        while let Some(job) = jobs.pop_front() {
            let marked = alone || savepoint(&self.connection, "SAVEPOINT job").is_ok();
            let ran = job(Ok(&mut tx), &self.path);
            let kept = ran.stands && marked;
            if kept {
                tx.keep();
            } else {
                tx.drop_back();
            }
            trouble |= ran.trouble;
            answers.push(ran.answer);
            if self.connection.is_autocommit() {
                lost = true;
                break;
            }
            if !alone {
                let undone = kept || savepoint(&self.connection, "ROLLBACK TO job").is_ok();
                if !undone || savepoint(&self.connection, "RELEASE job").is_err() {
                    lost = true;
                    break;
                }
            } else if !kept {
                // Nothing else is in this transaction.
                lost = true;
                break;
            }
        }
        let written = if lost { Ok(false) } else { tx.write_counts().map(|()| true) };
        let committed = written.and_then(|go| {
            if !go {
                return Ok(false);
            }
            fail::point("sqlite.before_commit");
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            fail::point("sqlite.after_commit");
            Ok(true)
        });
        let outcome = match committed {
            Ok(true) => {
                tx.publish_effects();
                Ok(())
            }
            Ok(false) => {
                Err(PortError::Unavailable("the transaction was given up; nothing was changed".to_owned()))
            }
            Err(error) => {
                trouble = true;
                Err(Fault::from(error).into_port(&self.path))
            }
        };
        if trouble || outcome.is_ok() {
            self.takes_writes.store(!trouble, Ordering::Relaxed);
        }
        if outcome.is_err() {
            tx.forget_effects();
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.memory.forget();
        }
        fail::point("sqlite.before_answer");
        for answer in answers {
            answer(outcome.clone());
        }
        fail::point("sqlite.after_answer");
    }
}

fn savepoint(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}
