//! Settling: one thread per member ends deliveries, in groups. Copies are durable before their originals are released,
//! and nothing else ever commits for that member, so no two commits race.

mod commit;
mod entry;
mod plain;
mod reports;
mod thread;
mod transactions;
mod trouble;

use std::fmt;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use redrive_engine::adapter::Alarms;
use redrive_engine::port::{PortError, Settled};
use tokio::sync::oneshot;

use crate::options::KafkaFlow;
use crate::reader::{Member, Waits};
use crate::topics::Topics;

pub(crate) use commit::{commit, refusal};
pub(crate) use entry::{Entry, Moving, gone, not_taken};
pub(crate) use reports::{Home, Producer, Reports, send};

/// The answers, in the order of what was asked.
pub(crate) type Answers = Vec<Result<Settled, PortError>>;

/// What the thread is asked to do.
pub(crate) enum Job {
    /// End deliveries of the flow.
    Settle(Vec<Entry>, oneshot::Sender<Answers>),
    /// Move a waiting record on.
    Move(Box<Moving>),
}

/// What a settler settles with.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    /// The flow's settings.
    pub(crate) flow: KafkaFlow,
    /// Whose deliveries they are.
    pub(crate) member: Arc<Member>,
    /// What people should know of.
    pub(crate) alarms: Arc<Alarms>,
    /// Looks topics up again when one refuses a copy.
    pub(crate) topics: Arc<Topics>,
}

/// The way to a member's settler.
pub(crate) struct Settler {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    not_moved: Arc<Mutex<Vec<Waits>>>,
}

impl fmt::Debug for Settler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settler").finish_non_exhaustive()
    }
}

impl Settler {
    /// Starts its thread.
    pub(crate) fn start(with: Settling) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let not_moved: Arc<Mutex<Vec<Waits>>> = Arc::default();
        let back = Arc::clone(&not_moved);
        let thread = std::thread::Builder::new()
            .name(format!("settle {}", with.member.group))
            .spawn(move || thread::run(with, &inbox, &back))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), not_moved })
    }

    /// No when the thread has ended.
    fn send(&self, job: Job) -> bool {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Ends deliveries. When the member has left its group, they are not ours any more.
    pub(crate) async fn settle(&self, entries: Vec<Entry>) -> Answers {
        let tags: Vec<_> = entries.iter().map(|entry| entry.tag).collect();
        let (answer, answers) = oneshot::channel();
        let sent = self.send(Job::Settle(entries, answer));
        let answered = if sent { answers.await.ok() } else { None };
        answered.unwrap_or_else(|| tags.into_iter().map(|tag| Err(gone(tag))).collect())
    }

    /// Moves a waiting record on; when that fails it is among those [`not_moved`](Self::not_moved).
    pub(crate) fn move_on(&self, moving: Moving) {
        // When the thread has ended, the member has left: the record stays where it is.
        self.send(Job::Move(Box::new(moving)));
    }

    /// Records that could not be moved on.
    pub(crate) fn not_moved(&self) -> Vec<Waits> {
        std::mem::take(&mut *self.not_moved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends what it has and stops.
    pub(crate) fn end(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("a settler has panicked");
        }
    }
}

#[cfg(test)]
mod tests;
