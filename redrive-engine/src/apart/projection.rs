//! What the ledger still has to learn of what the broker did.
//!
//! The broker is the truth for it, so nothing waits for the ledger. But what it was not told while it was away would be
//! missing for good, and so it is told again, in order, until it listens. What has to stand in the ledger before the broker
//! acts goes through here too, behind what was to be told earlier: one message's words never overtake each other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::in_hand::InHand;
use super::{Inner, log};
use crate::port::{BrokerAlarm, Ledger, PortError, Recorded, Taken};

/// The most records that are kept for a ledger that is away, and the most bytes of them.
const MOST: usize = 100_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Records that are told at once.
const BATCH: usize = 512;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Projection {
    queue: Mutex<Queue>,
    /// Whoever tells the ledger something holds this: what is under way, and has not been taken.
    pen: tokio::sync::Mutex<Vec<Recorded>>,
    news: Notify,
    /// Copies that were handed out, until the ledger knows what became of them.
    pub(super) in_hand: InHand,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<Recorded>,
    bytes: usize,
    /// Records under way.
    under_way: usize,
    /// Records that there was no room for.
    dropped: u64,
    /// Records that the ledger has not heard of and will not, since the beginning: those, and what it refused.
    unheard: u64,
}

impl Queue {
    fn has_room_for(&self, weight: usize) -> bool {
        self.records.len() < MOST && (self.records.is_empty() || self.bytes + weight <= MOST_BYTES)
    }
}

impl Projection {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what the ledger is to learn. Without room the newest are given up: what the broker keeps is read again once
    /// the ledger has caught up.
    pub(super) fn add(&self, flow: &str, recorded: Recorded) {
        let weight = weight(&recorded);
        let mut queue = self.queue();
        if queue.has_room_for(weight) {
            queue.bytes += weight;
            queue.records.push_back(recorded);
        } else {
            queue.dropped += 1;
            queue.unheard += 1;
            self.in_hand.end(&recorded.settlement.delivery);
            if queue.dropped == 1 {
                log::behind(flow);
            }
        }
        drop(queue);
        self.news.notify_one();
    }

    /// Whether there is nothing left to tell.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.queue();
        queue.records.is_empty() && queue.under_way == 0
    }

    /// How many records were given up since that was last asked, once all others are told.
    pub(super) fn missed(&self) -> Option<u64> {
        let queue = self.queue();
        let caught_up = queue.records.is_empty() && queue.under_way == 0;
        (caught_up && queue.dropped > 0).then_some(queue.dropped)
    }

    /// How many words the ledger has not heard since the beginning, and will not.
    pub(super) fn unheard(&self) -> u64 {
        self.queue().unheard
    }

    /// What was given up has been read off the broker.
    pub(super) fn made_good(&self, missed: u64) {
        let mut queue = self.queue();
        queue.dropped = queue.dropped.saturating_sub(missed);
    }

    pub(super) fn alarm(&self) -> Option<BrokerAlarm> {
        let dropped = self.queue().dropped;
        (dropped > 0).then(|| BrokerAlarm {
            name: "ledger_behind",
            why: format!(
                "the ledger was away for so long that {dropped} records were given up; they are read off the broker \
                 when it is back"
            ),
        })
    }

    fn take(&self, into: &mut Vec<Recorded>) {
        let mut queue = self.queue();
        let most = BATCH.min(queue.records.len());
        into.extend(queue.records.drain(..most));
        let taken: usize = into.iter().map(weight).sum();
        queue.bytes = queue.bytes.saturating_sub(taken);
        queue.under_way = into.len();
    }

    /// Tells the ledger all there is.
    async fn tell_all(
        &self,
        ledger: &dyn Ledger,
        flow: &str,
        pen: &mut Vec<Recorded>,
    ) -> Result<(), PortError> {
        loop {
            if pen.is_empty() {
                self.take(pen);
            }
            if pen.is_empty() {
                return Ok(());
            }
            match ledger.record(pen).await {
                Ok(_) => {}
                Err(PortError::Refused(_)) => self.one_by_one(ledger, flow, pen).await?,
                Err(error) => return Err(error),
            }
            for recorded in pen.drain(..) {
                self.in_hand.told(&recorded.settlement);
            }
            self.queue().under_way = 0;
        }
    }

    /// Tells the ledger all there is, and then this, which is waited for.
    pub(super) async fn record(
        &self,
        ledger: &dyn Ledger,
        flow: &str,
        recorded: &[Recorded],
    ) -> Result<Vec<Result<Taken, PortError>>, PortError> {
        let mut pen = self.pen.lock().await;
        self.tell_all(ledger, flow, &mut pen).await?;
        match ledger.record(recorded).await {
            Err(error @ PortError::Refused(_)) if recorded.len() == 1 => Ok(vec![Err(error)]),
            // What one of them is refused for is not the others' fault.
            Err(PortError::Refused(_)) => {
                let mut taken = Vec::with_capacity(recorded.len());
                for one in recorded {
                    taken.push(
                        ledger
                            .record(std::slice::from_ref(one))
                            .await
                            .map(|taken| taken.first().copied().unwrap_or(Taken::Taken)),
                    );
                }
                Ok(taken)
            }
            answer => answer.map(|taken| taken.into_iter().map(Ok).collect()),
        }
    }

    /// A batch that the ledger refuses: all of it but what cannot be written down is.
    async fn one_by_one(&self, ledger: &dyn Ledger, flow: &str, batch: &[Recorded]) -> Result<(), PortError> {
        for recorded in batch {
            match ledger.record(std::slice::from_ref(recorded)).await {
                Ok(_) => {}
                Err(PortError::Refused(refusal)) => {
                    self.queue().unheard += 1;
                    log::refused(flow, &recorded.settlement.delivery, &refusal);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the ledger all there is.
    pub(super) async fn tell(&self, ledger: &dyn Ledger, flow: &str) -> Result<(), PortError> {
        let mut pen = self.pen.lock().await;
        self.tell_all(ledger, flow, &mut pen).await
    }

    /// Tells what there is within this time.
    pub(super) async fn flush(&self, ledger: &dyn Ledger, flow: &str, within: Duration) {
        let telling = async {
            let mut wait = FIRST_WAIT;
            while let Err(error) = self.tell(ledger, flow).await {
                log::away(flow, &error);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        };
        if tokio::time::timeout(within, telling).await.is_err() {
            let queue = self.queue();
            let records = queue.records.len() + queue.under_way;
            log::not_told(flow, records);
        }
    }
}

fn weight(recorded: &Recorded) -> usize {
    crate::flow::weight(&recorded.settlement.delivery) + 1_024
}

/// Tells the ledger as there is something to tell, until the end.
pub(super) async fn keep_telling(inner: &Inner, stop: CancellationToken) {
    let Inner { projection, ledger, flow, health, .. } = inner;
    let mut wait = FIRST_WAIT;
    loop {
        let news = projection.news.notified();
        let tried = if projection.is_empty() { None } else { Some(projection.tell(&**ledger, flow).await) };
        let again = match tried {
            Some(Err(error)) => {
                health.is_away(flow, &error);
                wait = (wait * 2).min(LONGEST_WAIT);
                Some(wait)
            }
            Some(Ok(())) => {
                health.answers(flow);
                wait = FIRST_WAIT;
                None
            }
            None => None,
        };
        let again = async {
            match again {
                Some(wait) => tokio::time::sleep(wait).await,
                None => news.await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = again => {}
        }
    }
}
