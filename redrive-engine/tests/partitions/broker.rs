//! A broker whose streams are partitions, which are taken away and given back as a test says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Broker, Capabilities, Carried, Delivery, DeliveryParts, Depth, NewMessage, Outcome, PortError, Published,
    QueueInfo, Refusal, Revoked, Room, Settled, Settlement, Source, SourceRef, Subscription, Tag, Topology,
};
use tokio::sync::{Notify, mpsc};

/// What a test broker is told of the end of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) epoch: u32,
    pub(crate) outcome: Outcome,
    /// Attempts that the copy tells of.
    pub(crate) attempts: u32,
    /// Whether the delivery was still this reader's.
    pub(crate) taken: bool,
}

#[derive(Debug, Default)]
struct Partition {
    epoch: u32,
    owned: bool,
    gated: bool,
    unsettled: BTreeMap<u64, Message>,
    ready: BTreeSet<u64>,
    last: u64,
}

#[derive(Debug, Default)]
struct State {
    partitions: BTreeMap<u32, Partition>,
    ended: Vec<Ended>,
    losses: Option<mpsc::UnboundedSender<Revoked>>,
}

/// Partitions in memory. They are nobody's until they are assigned.
#[derive(Debug, Clone)]
pub(crate) struct Partitions {
    inner: Arc<Inner>,
    /// Whether a ledger stands beside it.
    ledger: bool,
    /// Whether it says that it has partitions; else the whole flow stands for a message.
    by_partition: bool,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    news: Notify,
}

impl Partitions {
    pub(crate) fn new(ledger: bool, by_partition: bool) -> Self {
        Self { inner: Arc::default(), ledger, by_partition }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes to a partition; the keys of all are the same.
    pub(crate) fn publish(&self, partition: u32, ids: &[&str]) {
        let mut state = self.state();
        let partition = state.partitions.entry(partition).or_default();
        for id in ids {
            let message = Message { id: (*id).into(), key: Some("key".into()), ..Message::default() };
            partition.unsettled.insert(partition.last, message);
            partition.ready.insert(partition.last);
            partition.last += 1;
        }
        self.inner.news.notify_one();
    }

    /// Gives a partition to the reader. All of it that is not settled is handed out.
    pub(crate) fn assign(&self, partition: u32) {
        let mut state = self.state();
        state.partitions.entry(partition).or_default().begin();
        self.inner.news.notify_one();
    }

    /// Takes a partition away. What is in hand can still be settled until it is assigned again.
    pub(crate) fn revoke(&self, partition: u32) {
        let mut state = self.state();
        let taken = state.partitions.entry(partition).or_default();
        taken.owned = false;
        let revoked = Revoked { stream: partition, epoch: taken.epoch };
        let _ = state.losses.as_ref().map(|losses| losses.send(revoked));
    }

    pub(crate) fn ended(&self) -> Vec<Ended> {
        self.state().ended.clone()
    }

    /// Those that ended otherwise than by going back as they were.
    pub(crate) fn settled(&self) -> Vec<Ended> {
        self.ended().into_iter().filter(|ended| ended.outcome != Outcome::Return).collect()
    }

    pub(crate) fn is_gated(&self, partition: u32) -> bool {
        self.state().partitions.get(&partition).is_some_and(|partition| partition.gated)
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.state().partitions.values().map(|partition| partition.unsettled.len()).sum()
    }
}

impl Partition {
    /// All that is not settled is handed out from now on.
    fn begin(&mut self) {
        self.epoch += 1;
        (self.owned, self.gated) = (true, false);
        self.ready = self.unsettled.keys().copied().collect();
    }
}

impl State {
    fn settle(&mut self, settlement: &Settlement) -> Result<Settled, PortError> {
        let Tag { stream, epoch, number } = settlement.delivery.tag;
        let partition = self.partitions.entry(stream).or_default();
        let out = partition.unsettled.contains_key(&number) && !partition.ready.contains(&number);
        let taken = partition.epoch == epoch && out;
        self.ended.push(Ended {
            id: settlement.delivery.message.id.to_string(),
            epoch,
            outcome: settlement.outcome.clone(),
            attempts: settlement.trail.as_ref().map_or(0, |trail| trail.attempt),
            taken,
        });
        if !taken {
            let name = format!("{stream}/{epoch}/{number}");
            return Err(Refusal::NotFound { what: "delivery", name }.into());
        }
        if settlement.outcome == Outcome::Return {
            partition.ready.insert(number);
        } else {
            partition.unsettled.remove(&number);
        }
        Ok(Settled::default())
    }

    fn hand_out(&mut self, room: Room, into: &mut Vec<Delivery>) {
        for (stream, partition) in &mut self.partitions {
            while partition.owned && !partition.gated && into.len() < room.messages {
                let Some(number) = partition.ready.pop_first() else { break };
                let source = SourceRef {
                    kind: "test".into(),
                    name: "orders".into(),
                    partition: Some(stream.cast_signed()),
                    offset: Some(number.cast_signed()),
                };
                into.push(Delivery::from(DeliveryParts {
                    tag: Tag { stream: *stream, epoch: partition.epoch, number },
                    message: partition.unsettled[&number].clone(),
                    trail: Carried::default(),
                    source,
                    ready_at: Timestamp::from_millis(1_782_896_400_000),
                    redelivered: false,
                }));
            }
        }
    }
}

#[async_trait]
impl Broker for Partitions {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "test",
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle: self.ledger,
            waiting_is_reachable: false,
            unique_ids: false,
            lanes: self.ledger,
            partitions: self.by_partition,
        }
    }

    async fn plan(&self, _subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        Ok(Vec::new())
    }

    async fn apply(&self, _topology: &[Topology]) -> Result<(), PortError> {
        Ok(())
    }

    async fn subscribe(&self, _subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        let mut state = self.state();
        state.partitions.values_mut().filter(|partition| partition.owned).for_each(Partition::begin);
        let (losses, of_losses) = mpsc::unbounded_channel();
        state.losses = Some(losses);
        Ok(Box::new(Reader { partitions: self.clone(), losses: Some(of_losses) }))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        let mut state = self.state();
        let settled = batch.iter().map(|settlement| state.settle(settlement)).collect();
        self.inner.news.notify_one();
        settled
    }

    async fn publish(&self, _target: &str, _messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        Err(Refusal::Invalid("a test publishes to a partition".to_owned()).into())
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        Ok(Vec::new())
    }

    fn gate(&self, stream: u32, closed: bool) {
        self.state().partitions.entry(stream).or_default().gated = closed;
        self.inner.news.notify_one();
    }
}

struct Reader {
    partitions: Partitions,
    losses: Option<mpsc::UnboundedReceiver<Revoked>>,
}

#[async_trait]
impl Source for Reader {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        loop {
            self.partitions.state().hand_out(room, into);
            if !into.is_empty() {
                return Ok(());
            }
            self.partitions.inner.news.notified().await;
        }
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        Ok(Depth { ready: self.partitions.unsettled() as u64, waiting: 0 })
    }

    fn revoked(&mut self) -> Option<mpsc::UnboundedReceiver<Revoked>> {
        self.losses.take()
    }
}
