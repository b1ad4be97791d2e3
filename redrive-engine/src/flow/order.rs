//! How messages come in and leave without overtaking each other.
//!
//! A message of a lane waits in hand while one in front of it runs. When that one leaves by another way than success,
//! those behind it leave too: into the ledger behind it, or back to the source with it. The settler gets their
//! settlements in the order of the lane, which is why they are handed over under the lanes' lock.

use std::time::Duration;

use super::alarms;
use super::held::{self, Why};
use super::job::Job;
use super::lanes::{Arrival, Leave, Seen};
use super::log;
use super::shared::Shared;
use crate::port::{Asked, Delivery, LaneName, Outcome, Settlement, Standing};

/// How long to wait before asking a ledger again that could not answer.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// One that has arrived, while the ledger is asked how it stands.
struct Arriving {
    job: Job,
    lane: LaneName,
    seen: Seen,
}

impl Shared {
    /// Takes deliveries in, in their order.
    pub(crate) async fn take_in(&self, received: &mut Vec<Delivery>) {
        if received.is_empty() {
            return;
        }
        let (now, put_at) = (self.clock.now(), self.clock.monotonic());
        let jobs = received.drain(..).map(|delivery| {
            self.in_hand.take(&delivery);
            self.metrics.received(&delivery, now);
            let mut job = Job::new(delivery);
            job.put_at = put_at;
            job.crashes = self.crashes_of(&job.delivery);
            job
        });
        let Some(lanes) = &self.lanes else { return self.desk.put_all(jobs) };

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
                let (arrival, seen) = book.arrive(&lane, job.entry().is_some());
                match arrival {
                    Arrival::Ask => asking.push(Arriving { job, lane, seen }),
                    Arrival::Queue => ready.extend(book.queue(&lane, job, false)),
                    Arrival::Hold(head) => {
                        book.turned_away(&lane);
                        self.keep_behind(job, lane, head);
                    }
                    Arrival::Return => {
                        book.turned_away(&lane);
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

    /// Asks the ledger; answers with those that it has to be asked about again.
    async fn ask(&self, asking: Vec<Arriving>) -> Vec<Arriving> {
        let asked: Vec<Asked> = asking
            .iter()
            .map(|arriving| Asked { lane: arriving.lane.clone(), entry: arriving.job.entry() })
            .collect();
        let standings = loop {
            match self.ledger.standings(&self.spec.name, &asked).await {
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
        let mut again = Vec::new();
        let mut ready = Vec::new();
        let mut book = lanes.book();
        for (arriving, standing) in asking.into_iter().zip(standings) {
            let Arriving { mut job, lane, seen } = arriving;
            let held = matches!(standing, Standing::Turn { .. });
            let answer = match standing {
                Standing::Open => Arrival::Queue,
                Standing::Turn { skipped } => {
                    job.diverted = (!skipped.is_empty()).then(|| skipped.into());
                    Arrival::Queue
                }
                Standing::Behind { head } => Arrival::Hold(head),
            };
            match book.answered(&lane, seen, answer) {
                (Arrival::Ask, seen) => again.push(Arriving { job, lane, seen }),
                (Arrival::Queue, _) => ready.extend(book.queue(&lane, job, held)),
                (Arrival::Hold(head), _) => {
                    book.turned_away(&lane);
                    self.keep_behind(job, lane, head);
                }
                (Arrival::Return, _) => {
                    book.turned_away(&lane);
                    self.send(job.settled(Outcome::Return));
                }
            }
        }
        drop(book);
        self.desk.put_all(ready);
        again
    }

    fn turn_away_all(&self, asking: Vec<Arriving>) -> Vec<Arriving> {
        let Some(lanes) = &self.lanes else { return Vec::new() };
        let mut book = lanes.book();
        for Arriving { job, lane, seen } in asking {
            let _ = book.answered(&lane, seen, Arrival::Return);
            book.turned_away(&lane);
            self.send(job.settled(Outcome::Return));
        }
        Vec::new()
    }

    /// Ends a delivery. Those behind it in its lane go on, or leave with it.
    pub(crate) fn settle(&self, settlement: Settlement) {
        if self.desk.open_gate(settlement.delivery.tag) {
            self.alarms.clear(alarms::BLOCKED);
        }
        let (Some(lanes), Some(lane)) = (&self.lanes, settlement.lane.clone()) else {
            return self.send(settlement);
        };
        let how = Leave::of(&settlement.outcome, &settlement.delivery.message.id);
        let mut book = lanes.book();
        let behind = book.leave(&lane, &how);
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

    fn keep_behind(&self, job: Job, lane: LaneName, head: Option<String>) {
        let random = self.random();
        self.send(held::keep(&self.spec, job, lane, Why::Lane(head), self.clock.now(), random));
    }

    /// A settlement is durable, or was refused for good.
    pub(crate) fn has_settled(&self, settlement: &Settlement) {
        if let (Some(lanes), Some(lane)) = (&self.lanes, &settlement.lane) {
            lanes.book().settled(lane);
        }
    }
}
