//! The settler's thread: gathers what is to be ended, and ends it in one go.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redrive_engine::port::{PortError, Tag};
use tokio::sync::oneshot;

use super::entry::{Entry, Moving};
use super::plain::Plain;
use super::transactions::Transactions;
use super::{Answers, Job, Settling};
use crate::options::SettleMode;
use crate::reader::Waits;

/// How many deliveries are ended at once.
const BATCH: usize = 1_000;
/// Commits begin at least so long after each other, while there is less than a batch.
const SPACING: Duration = Duration::from_millis(5);

/// How a settler ends deliveries.
enum Way {
    Transactional(Box<Transactions>),
    Plain(Box<Plain>),
}

/// What was gathered: entries, and whom each belongs to.
#[derive(Default)]
struct Gathered {
    entries: Vec<Entry>,
    waiters: Vec<(usize, oneshot::Sender<Answers>)>,
    moving: Vec<Moving>,
}

impl Gathered {
    fn add(&mut self, job: Job) {
        match job {
            Job::Settle(entries, waiter) => {
                self.waiters.push((entries.len(), waiter));
                // What waits for an answer stands before what is moved on.
                let place = self.entries.len() - self.moving.len();
                self.entries.splice(place..place, entries);
            }
            Job::Move(mut moving) => {
                let copies = std::mem::take(&mut moving.copies);
                self.entries.push(Entry::new(moving.waits.delivery.tag, copies, false));
                self.moving.push(*moving);
            }
        }
    }

    fn answer(self, not_moved: &Mutex<Vec<Waits>>) {
        let missing = || Err(PortError::Unavailable("the settler did not come to it".to_owned()));
        let mut answers = self.entries.into_iter().map(|entry| entry.answer.unwrap_or_else(missing));
        for (count, waiter) in self.waiters {
            // Whoever asked may have gone.
            let _ = waiter.send(answers.by_ref().take(count).collect());
        }
        for (moving, answer) in self.moving.into_iter().zip(answers) {
            if matches!(answer, Err(PortError::Unavailable(_) | PortError::Broken(_))) {
                not_moved.lock().unwrap_or_else(PoisonError::into_inner).push(moving.waits.clone());
            }
        }
    }
}

pub(super) fn run(with: Settling, inbox: &Receiver<Job>, not_moved: &Mutex<Vec<Waits>>) {
    let mut way = match with.flow.settle {
        SettleMode::Transactional => Way::Transactional(Box::new(Transactions::new(with.clone()))),
        SettleMode::Plain => Way::Plain(Box::new(Plain::new(with.clone()))),
    };
    match &mut way {
        Way::Transactional(way) => way.warm_up(),
        Way::Plain(way) => way.warm_up(),
    }
    let mut last = Instant::now();
    loop {
        let Ok(first) = inbox.recv() else { return };
        let mut gathered = Gathered::default();
        gathered.add(first);
        let end = last + SPACING;
        while gathered.entries.len() < BATCH {
            let wait = end.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(wait) {
                Ok(job) => gathered.add(job),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        last = Instant::now();
        settle(&with, &mut way, &mut gathered.entries);
        take_back(&with, &gathered);
        gathered.answer(not_moved);
    }
}

fn settle(with: &Settling, way: &mut Way, entries: &mut [Entry]) {
    let tags: Vec<Tag> = entries.iter().map(|entry| entry.tag).collect();
    let taken = with.member.take(&tags);
    let mut ours = Vec::with_capacity(entries.len());
    for (place, (entry, taken)) in entries.iter_mut().zip(taken).enumerate() {
        if taken { ours.push(place) } else { entry.gone() }
    }
    let (ours, held) = if with.member.answers() { (ours, Vec::new()) } else { (Vec::new(), ours) };
    match way {
        Way::Transactional(way) => way.settle(entries, ours),
        Way::Plain(way) => way.settle(entries, ours),
    }
    for place in held {
        entries[place].away("nothing can be settled: Kafka does not answer");
    }
    let open: Vec<Tag> =
        entries.iter().filter(|entry| !matches!(entry.answer, Some(Ok(_)))).map(|entry| entry.tag).collect();
    with.member.keep(&open);
}

/// What could not be moved on waits here again.
fn take_back(with: &Settling, gathered: &Gathered) {
    let answers = gathered.entries.len() - gathered.moving.len();
    for (entry, moving) in gathered.entries.iter().skip(answers).zip(&gathered.moving) {
        if !matches!(entry.answer, Some(Ok(_))) {
            with.member.give_back_here(moving.waits.delivery.tag);
        }
    }
}
