//! The desk: messages that could be handled now, and whether and which of them may be.
//!
//! Every guard is asked here, before a worker has a message in hand: what a guard refuses stays on the desk, costs no
//! attempt and keeps no worker. When the refusal lasts, everything on the desk is given back to the source.
//!
//! The order of the questions: is the flow paused; is there a suspect, which runs alone; does anything stand still for one
//! message; is the rate used up; is the endpoint down; whose turn is it, a fresh message's or a retry's, and is there room
//! in the retry budget.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_core::Text;
use redrive_core::guard::{BreakerState, Outcome, Turn};
use tokio::sync::Notify;

use super::gates::{Closing, Gates, Leaving};
use super::guards::{Guards, Refused, Ticket};
use super::job::Job;
use crate::port::{Revoked, Tag};

/// How many messages are taken in while nobody knows whether the endpoint is back.
const PROBING: usize = 32;

#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Whether anything stands still for one message: asked at every settlement, so it costs no lock.
    gated: AtomicBool,
    /// Something was put on the desk, or may be taken that could not be before.
    news: Notify,
    /// Of the workers that have nothing to do, one waits for news; the others wait for it to go.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question with its own answer")]
struct State {
    fresh: VecDeque<Box<Job>>,
    retries: VecDeque<Box<Job>>,
    /// Messages that were being handled when the process died. They run first, and alone.
    suspects: VecDeque<Box<Job>>,
    guards: Guards,
    gates: Gates,
    /// Whether nothing could be settled.
    halted: bool,
    paused: bool,
    /// Since when no retry may begin, by a person's order.
    retries_paused: Option<Duration>,
    running: usize,
    /// Whether the one that runs is a suspect.
    alone: bool,
    /// Since when nothing but probes has begun.
    held_since: Option<Duration>,
    gave_back: bool,
    long_hold: Duration,
}

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Handle this one.
    Go(Box<Job>, Ticket),
    /// Nothing until there is news.
    Nothing,
    /// Nothing until there is news or this moment comes.
    Until(Duration),
    /// The hold has lasted: give these back.
    GiveBack(Vec<Box<Job>>),
    /// The hold is over: messages can be taken in again.
    TakeIn,
}

/// What the operator has ordered for the whole flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pauses {
    pub(crate) all: bool,
    pub(crate) retries: bool,
}

impl Desk {
    pub(crate) fn new(guards: Guards, gates: Gates, long_hold: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                fresh: VecDeque::new(),
                retries: VecDeque::new(),
                suspects: VecDeque::new(),
                guards,
                gates,
                halted: false,
                paused: false,
                retries_paused: None,
                running: 0,
                alone: false,
                held_since: None,
                gave_back: false,
                long_hold,
            }),
            gated: AtomicBool::new(false),
            news: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Queues and plain numbers: a panic elsewhere cannot leave them half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message on the desk.
    pub(crate) fn put(&self, job: Box<Job>) {
        self.state().put(job);
        self.news.notify_one();
    }

    /// Puts messages on the desk, in their order.
    pub(crate) fn put_all(&self, jobs: impl IntoIterator<Item = Box<Job>>) {
        let mut state = self.state();
        for job in jobs {
            state.put(job);
        }
        drop(state);
        self.news.notify_one();
    }

    /// Puts a message back whose wait in a worker's hand is over: before the others.
    pub(crate) fn put_back(&self, job: Box<Job>) {
        let mut state = self.state();
        if let Some(job) = state.gates.put(job) {
            state.retries.push_front(job);
        }
        drop(state);
        self.news.notify_one();
    }

    /// How many calls run.
    pub(crate) fn running(&self) -> usize {
        self.state().running
    }

    /// What there is to do now.
    pub(crate) fn pick(&self, now: Duration) -> Pick {
        self.state().pick(now)
    }

    /// Waits for the next thing to do. `clock` tells the time.
    pub(crate) async fn next(&self, clock: impl Fn() -> Duration) -> Pick {
        let _turn = self.turn.lock().await;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let now = clock();
            match self.pick(now) {
                Pick::Nothing => news.await,
                Pick::Until(until) => {
                    // At least a millisecond, so that rounding cannot make this loop spin.
                    let wait = until.saturating_sub(now).max(Duration::from_millis(1));
                    let _ = tokio::time::timeout(wait, news).await;
                }
                done => return done,
            }
        }
    }

    /// A call has ended; answers with the breaker's new state when that changed it.
    pub(crate) fn finish(
        &self,
        now: Duration,
        ticket: Ticket,
        shown: Option<(Outcome, Duration)>,
    ) -> Option<BreakerState> {
        let mut state = self.state();
        state.running = state.running.saturating_sub(1);
        let alone = std::mem::take(&mut state.alone);
        let changed = match shown {
            Some((outcome, took)) => state.guards.report(now, ticket, outcome, took),
            None => {
                state.guards.withdraw(ticket);
                None
            }
        };
        let news = changed.is_some() || ticket.probe || alone || !state.suspects.is_empty();
        drop(state);
        if news {
            self.news.notify_one();
        }
        changed
    }

    /// Lets the partition, or the flow, stand still for this message, beside those that it stands still for already.
    pub(crate) fn close_gate(&self, job: &Job) -> Closing {
        let mut state = self.state();
        self.gated.store(true, Ordering::Release);
        let State { gates, fresh, retries, .. } = &mut *state;
        gates.close(job, [retries, fresh])
    }

    /// What stood still goes on, if this message held it and no other does. Answers whether it goes on; nothing when this
    /// message held nothing.
    pub(crate) fn leave_gate(&self, tag: Tag) -> Option<bool> {
        if !self.gated.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        let leaving = state.gates.leave(tag)?;
        let opens = matches!(leaving, Leaving::Opens(_));
        if let Leaving::Opens(behind) = leaving {
            state.put_first(behind);
            self.gated.store(!state.gates.is_empty(), Ordering::Release);
        }
        drop(state);
        self.news.notify_one();
        Some(opens)
    }

    /// Whether something stands still for this message.
    pub(crate) fn waits_for(&self, tag: Tag) -> bool {
        self.is_gated() && self.state().gates.is_for(tag)
    }

    /// A message that something stands still for, and its partition.
    pub(crate) fn blocked(&self) -> Option<(Text, Option<i32>)> {
        self.state().gates.first()
    }

    /// Whether something stands still for one message.
    pub(crate) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::Acquire)
    }

    /// Whether the whole flow stands still for this message.
    pub(crate) fn all_wait_for(&self, tag: Tag) -> bool {
        if !self.is_gated() {
            return false;
        }
        let state = self.state();
        !state.gates.are_many() && state.gates.is_first(tag)
    }

    /// Takes everything off the desk that came from a stream which is lost. What stood still for messages of it goes on.
    pub(crate) fn revoke(&self, revoked: Revoked) -> Vec<Box<Job>> {
        let mut state = self.state();
        let lost = state.take(|job| revoked.had(job.delivery.tag));
        if let Some(behind) = state.gates.open_lost(|tag| revoked.had(tag)) {
            state.put_first(behind);
            self.gated.store(!state.gates.is_empty(), Ordering::Release);
        }
        drop(state);
        self.news.notify_one();
        lost
    }

    /// Takes one message off the desk, if it is there.
    pub(crate) fn take_back(&self, tag: Tag) -> Vec<Box<Job>> {
        self.state().take(|job| job.delivery.tag == tag)
    }

    pub(crate) fn endpoint_proven(&self, now: Duration) -> bool {
        self.state().guards.endpoint_proven(now)
    }

    pub(crate) fn breaker(&self, now: Duration) -> Option<BreakerState> {
        self.state().guards.breaker(now)
    }

    pub(crate) fn pauses(&self) -> Pauses {
        let state = self.state();
        Pauses { all: state.paused, retries: state.retries_paused.is_some() }
    }

    pub(crate) fn pause(&self, pauses: Pauses, now: Duration) {
        let mut state = self.state();
        state.paused = pauses.all;
        state.retries_paused = pauses.retries.then(|| state.retries_paused.unwrap_or(now));
        drop(state);
        self.news.notify_one();
    }

    /// No call begins, because nothing could be settled; or calls begin again.
    pub(crate) fn halt(&self, halted: bool) {
        self.state().halted = halted;
        self.news.notify_one();
    }

    /// How many messages may be taken in; few while it is open whether any can be handled.
    pub(crate) fn appetite(&self) -> Appetite {
        let state = self.state();
        let messages = match (state.gave_back, state.held_since) {
            (true, _) => 0,
            (false, Some(_)) => PROBING,
            (false, None) => usize::MAX,
        };
        Appetite { messages, retries: state.retries_paused.is_none() }
    }

    /// Everything on the desk, for a flow that stops.
    pub(crate) fn clear(&self) -> Vec<Box<Job>> {
        self.state().take(|_| true)
    }
}

/// What may be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appetite {
    pub(crate) messages: usize,
    pub(crate) retries: bool,
}

impl State {
    fn put(&mut self, job: Box<Job>) {
        if job.crashes > 0 {
            return self.suspects.push_back(job);
        }
        let Some(job) = self.gates.put(job) else { return };
        if job.attempts() > 0 {
            self.retries.push_back(job);
        } else {
            self.fresh.push_back(job);
        }
    }

    /// Puts messages before all others, in their order.
    fn put_first(&mut self, jobs: VecDeque<Box<Job>>) {
        for job in jobs.into_iter().rev() {
            let queue = if job.attempts() > 0 { &mut self.retries } else { &mut self.fresh };
            queue.push_front(job);
        }
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.retries.is_empty() && self.suspects.is_empty() && self.gates.are_idle()
    }

    /// Takes away what fits, wherever it stands.
    fn take(&mut self, fits: impl Fn(&Job) -> bool) -> Vec<Box<Job>> {
        let mut taken = self.gates.take(&fits);
        for queue in [&mut self.suspects, &mut self.retries, &mut self.fresh] {
            for job in std::mem::take(queue) {
                if fits(&job) { taken.push(job) } else { queue.push_back(job) }
            }
        }
        taken
    }

    fn pick(&mut self, now: Duration) -> Pick {
        if self.halted {
            return Pick::Nothing;
        }
        if self.paused {
            return self.hold(now, Refused { until: None, endpoint_down: true });
        }
        if self.gave_back {
            return match self.guards.would_admit(now) {
                Ok(()) => {
                    self.gave_back = false;
                    Pick::TakeIn
                }
                Err(refused) => self.hold(now, refused),
            };
        }
        if self.alone || (self.running > 0 && !self.suspects.is_empty()) {
            return Pick::Nothing;
        }
        let give_back_at = match self.retries_paused {
            Some(since) if !self.retries.is_empty() => Some(since.saturating_add(self.long_hold)),
            _ => None,
        };
        if give_back_at.is_some_and(|at| now >= at) {
            self.retries_paused = Some(now);
            return Pick::GiveBack(self.retries.drain(..).collect());
        }
        let (fresh, retries) = if self.suspects.is_empty() {
            let retries = !self.retries.is_empty() || self.gates.has_keeper();
            (!self.fresh.is_empty(), retries && self.retries_paused.is_none())
        } else {
            (true, false)
        };
        if !fresh && !retries {
            return give_back_at.map_or(Pick::Nothing, Pick::Until);
        }
        let (turn, ticket) = match self.guards.admit(now, fresh, retries) {
            Ok(admitted) => admitted,
            Err(refused) => return self.hold(now, refused),
        };
        self.alone = !self.suspects.is_empty();
        let job = if self.alone {
            self.suspects.pop_front()
        } else if turn == Turn::Fresh {
            self.fresh.pop_front()
        } else {
            self.gates.take_keeper().or_else(|| self.retries.pop_front())
        };
        let Some(job) = job else {
            self.guards.withdraw(ticket);
            return Pick::Nothing;
        };
        if !ticket.probe {
            self.held_since = None;
        }
        self.running += 1;
        Pick::Go(job, ticket)
    }

    /// Nothing may begin. When that lasts, what was prefetched goes back.
    fn hold(&mut self, now: Duration, refused: Refused) -> Pick {
        if !refused.endpoint_down {
            return refused.until.map_or(Pick::Nothing, Pick::Until);
        }
        let since = *self.held_since.get_or_insert(now);
        let give_back_at = since.saturating_add(self.long_hold);
        if self.is_empty() {
            return refused.until.map_or(Pick::Nothing, Pick::Until);
        }
        if now >= give_back_at {
            self.gave_back = true;
            return Pick::GiveBack(self.take(|_| true));
        }
        Pick::Until(refused.until.map_or(give_back_at, |until| until.min(give_back_at)))
    }
}
