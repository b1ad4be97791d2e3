//! How messages come in and leave without overtaking each other.
//!
//! A message of a lane waits in hand while one in front of it runs. When that one leaves by another way than success,
//! those behind it leave too: into the ledger behind it, or back to the source with it. The settler gets their
//! settlements in the order of the lane, which is why they are handed over under the lanes' lock.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::Timestamp;

use super::alarms;
use super::gates::Closing;
use super::heads::Past;
use super::held::{self, Why};
use super::job::Job;
use super::lanes::{Arrival, Leave, Seen};
use super::log;
use super::shared::Shared;
use crate::fail;
use crate::port::{Asked, Delivery, Entry, LaneName, Outcome, PortError, ReadAt, Settlement, Standing};

/// How long to wait before asking a ledger again that could not answer.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// One that has arrived, while the ledger is asked how it stands.
struct Arriving {
    job: Box<Job>,
    lane: LaneName,
    seen: Seen,
}

impl Shared {
    /// Takes deliveries in, in their order.
    pub(crate) async fn take_in(&self, received: &mut Vec<Delivery>) {
        if received.is_empty() {
            return;
        }
        self.revoked.look(received);
        if let Err(error) = self.heads.meet(&*self.ledger, received).await {
            log::ledger_away(&self.spec, &error);
        }
        let (now, put_at) = (self.clock.now(), self.clock.monotonic());
        self.in_hand.take(received);
        let jobs = received.drain(..).map(|delivery| {
            self.metrics.received(&delivery, now);
            self.look_at_headers(&delivery);
            let mut job = Box::new(Job::new(delivery));
            job.put_at = put_at;
            job.crashes = self.crashes_of(&job.delivery);
            self.look_behind(&mut job);
            job
        });
        let Some(lanes) = &self.lanes else {
            if !self.heads.are_any() {
                return self.desk.put_all(jobs);
            }
            // All of them first: one may let the desk stand still for it.
            let jobs: Vec<Box<Job>> = jobs.collect();
            return self.desk.put_all(jobs);
        };

        let mut ready = Vec::new();
        let mut asking = Vec::new();
        {
            let mut book = lanes.book();
            for mut job in jobs {
                let Some(key) = self.spec.order_by.find(&job.delivery.message) else {
                    ready.push(job);
                    continue;
                };
                let lane = LaneName::of_key(&key);
                job.lane = Some(lane.clone());
                let (arrival, seen) = book.arrive(&lane, &job.delivery.message.id, job.entry().is_some());
                match arrival {
                    Arrival::Ask => asking.push(Arriving { job, lane, seen }),
                    Arrival::Queue => ready.extend(book.queue(&lane, job, false)),
                    Arrival::Hold(head) => {
                        book.kept_behind(&lane, head.clone());
                        self.keep_behind(job, lane, head);
                    }
                    Arrival::Return | Arrival::Release => {
                        book.sent_back(&lane, &job.delivery.message.id);
                        self.send(job.settled(Outcome::Return));
                    }
                }
            }
        }
        self.desk.put_all(ready);
        while !asking.is_empty() {
            asking = self.ask(asking).await;
        }
    }

    /// A message that others waited for in another process goes on where that stood, and lets them wait again.
    fn look_behind(&self, job: &mut Job) {
        let Some(head) = self.heads.find(&job.delivery) else { return };
        let fresh = job.delivery.trail.attempt == 0;
        job.goes_on(&head);
        if fresh {
            self.in_hand.is_a_retry();
        }
        if self.lanes.is_none() {
            self.close_gate(job);
        }
    }

    /// Lets the partition, or the whole flow, stand still for a message. Others may hold it already: those that failed while
    /// this one ran. They keep their places all the same, and are tried one after the other.
    pub(crate) fn close_gate(&self, job: &Job) {
        if let Closing::Now(back) = self.desk.close_gate(job) {
            if self.broker.capabilities().partitions {
                self.broker.gate(job.delivery.tag.stream, true);
            }
            for other in back {
                self.put_down(other, Duration::ZERO);
            }
        }
        self.tell_blocked();
    }

    /// Says for which message something stands still, if anything does.
    pub(crate) fn tell_blocked(&self) {
        let by_partition = self.broker.capabilities().partitions;
        self.alarms.look(alarms::BLOCKED, self.clock.now(), || {
            let (id, partition) = self.desk.blocked()?;
            let what = partition.filter(|_| by_partition);
            let what = what.map_or_else(|| "the flow".to_owned(), |number| format!("partition {number}"));
            Some(format!("a blocking retry of {id} holds {what}"))
        });
    }

    /// Has the ledger keep what was tried of a message that others wait for, and its place with it; answers whether it does.
    pub(crate) async fn keep_head(&self, job: &mut Job, due: Timestamp) -> bool {
        let untold = job.past == Past::None && job.delivery.trail.attempt == 0;
        if untold && self.heads.may_be_tried(&job.delivery) {
            job.past = Past::Unknown;
        }
        match self.heads.keep(&*self.ledger, job, due).await {
            Ok(kept) => {
                fail::point("engine.after_head");
                kept
            }
            Err(error) => {
                log::ledger_away(&self.spec, &error);
                false
            }
        }
    }

    /// Asks the ledger; answers with those that it has to be asked about again.
    async fn ask(&self, asking: Vec<Arriving>) -> Vec<Arriving> {
        let asked: Vec<Asked> = asking
            .iter()
            .map(|arriving| {
                let delivery = &arriving.job.delivery;
                let entry = arriving.job.entry();
                let is_place = entry.is_none() && delivery.source.offset.is_some();
                let read_at = is_place
                    .then(|| ReadAt { source: delivery.source.clone(), published_at: delivery.ready_at });
                Asked { lane: arriving.lane.clone(), entry, read_at }
            })
            .collect();
        let standings = loop {
            match self.standings(&asked).await {
                Ok(standings) => break standings,
                Err(error) => {
                    log::ledger_away(&self.spec, &error);
                    if self.sleep(ASK_AGAIN).await.is_err() {
                        // Nobody knows how they stand, so they go back.
                        return self.turn_away_all(asking);
                    }
                }
            }
        };
        let Some(lanes) = &self.lanes else { return Vec::new() };
        let (mut again, mut ready, mut back) = (Vec::new(), Vec::new(), Vec::new());
        let mut book = lanes.book();
        for (arriving, (standing, known)) in asking.into_iter().zip(standings) {
            let Arriving { mut job, lane, seen } = arriving;
            let held = matches!(standing, Standing::Turn { .. });
            let answer = match standing {
                Standing::Open => Arrival::Queue,
                Standing::Turn { skipped, .. } => {
                    job.diverted = (!skipped.is_empty()).then(|| skipped.into());
                    if let Some(known) = known {
                        let fresh = job.delivery.trail.attempt == 0;
                        job.takes_over(&known);
                        if fresh && job.delivery.trail.attempt > 0 {
                            self.in_hand.is_a_retry();
                        }
                    }
                    Arrival::Queue
                }
                Standing::Known => Arrival::Release,
                Standing::Behind { head } => Arrival::Hold(head),
            };
            let has_entry = job.entry().is_some();
            match book.answered(&lane, seen, has_entry, answer) {
                (Arrival::Ask, seen) => again.push(Arriving { job, lane, seen }),
                (Arrival::Queue, _) => ready.extend(book.queue(&lane, job, held)),
                (Arrival::Hold(head), _) => {
                    book.kept_behind(&lane, head.clone());
                    self.keep_behind(job, lane, head);
                }
                (Arrival::Return, _) => {
                    back.push((lane, job.delivery.message.id.clone()));
                    self.send(job.settled(Outcome::Return));
                }
                (Arrival::Release, _) => {
                    book.turned_away(&lane);
                    self.send(job.settled(Outcome::Ack));
                }
            }
        }
        book.sent_back_again(&back);
        drop(book);
        self.desk.put_all(ready);
        again
    }

    /// How messages stand, and what the ledger knows of those that it has written down without the broker's knowledge.
    async fn standings(&self, asked: &[Asked]) -> Result<Vec<(Standing, Option<Entry>)>, PortError> {
        let standings = self.ledger.standings(&self.spec.name, asked).await?;
        let mut answers = Vec::with_capacity(standings.len());
        for standing in standings {
            let known = match &standing {
                Standing::Turn { entry: Some(id), .. } => self.ledger.entry(&id.to_string()).await?,
                _ => None,
            };
            answers.push((standing, known));
        }
        Ok(answers)
    }

    fn turn_away_all(&self, asking: Vec<Arriving>) -> Vec<Arriving> {
        let Some(lanes) = &self.lanes else { return Vec::new() };
        let (mut book, mut back) = (lanes.book(), Vec::with_capacity(asking.len()));
        for Arriving { job, lane, seen } in asking {
            let _ = book.answered(&lane, seen, job.entry().is_some(), Arrival::Return);
            back.push((lane, job.delivery.message.id.clone()));
            self.send(job.settled(Outcome::Return));
        }
        book.sent_back_again(&back);
        Vec::new()
    }

    /// Ends a delivery. Those behind it in its lane go on, or leave with it.
    pub(crate) fn settle(&self, settlement: Settlement) {
        if let Some(opens) = self.desk.leave_gate(settlement.delivery.tag) {
            if opens {
                self.broker.gate(settlement.delivery.tag.stream, false);
            }
            self.tell_blocked();
        }
        let (Some(lanes), Some(lane)) = (&self.lanes, settlement.lane.clone()) else {
            return self.send(settlement);
        };
        let how = Leave::of(&settlement.outcome, &settlement.delivery.message.id);
        let mut book = lanes.book();
        let behind = book.leave(&lane, &settlement.delivery.message.id, &how);
        self.send(settlement);
        let next = match how {
            Leave::Through => behind,
            Leave::Diverted { head } => {
                for job in behind {
                    self.keep_behind(job, lane.clone(), Some(head.clone()));
                }
                Vec::new()
            }
            Leave::Returned => {
                for job in behind {
                    self.send(job.settled(Outcome::Return));
                }
                Vec::new()
            }
        };
        drop(book);
        for mut job in next {
            job.put_at = self.clock.monotonic();
            self.desk.put(job);
        }
    }

    fn keep_behind(&self, job: Box<Job>, lane: LaneName, head: Option<String>) {
        let random = self.random();
        self.send(held::keep(&self.spec, job, lane, Why::Lane(head), self.clock.now(), random));
    }

    /// A settlement is durable: nobody waits for the message any more, unless it went back.
    pub(crate) fn has_left(&self, settlement: &Settlement) {
        if settlement.outcome == Outcome::Return || self.revoked.had(settlement.delivery.tag) {
            return;
        }
        if let Some((place, change)) = self.heads.forget(&settlement.delivery) {
            let (heads, ledger) = (Arc::clone(&self.heads), Arc::clone(&self.ledger));
            // What is not forgotten is known to be over by its place, which is passed.
            tokio::spawn(async move { _ = heads.write(&*ledger, &place, change).await });
        }
    }

    /// A settlement is durable, or was refused for good.
    pub(crate) fn has_settled(&self, settlement: &Settlement) {
        if let (Some(lanes), Some(lane)) = (&self.lanes, &settlement.lane) {
            lanes.book().settled(lane);
        }
    }
}
