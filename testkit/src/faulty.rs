//! A real broker and a real ledger that can be told not to answer, so that a test knows what happens between two stores.

mod ledger;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{Message, Timestamp};
use redrive_engine::port::{
    Broker, BrokerAlarm, Capabilities, Delivery, Depth, NewMessage, Overdue, PortError, Published, QueueInfo,
    Resolved, Revoked, Room, Settled, Settlement, Shelves, Source, SourceRange, SourceRef, Subscription,
    Topology, Whereabouts,
};

pub use ledger::FaultyLedger;

/// How many of the next questions are not answered.
#[derive(Debug, Default)]
pub struct Deaf {
    settles: AtomicU32,
    receives: AtomicU32,
    records: AtomicU32,
    shelves: AtomicBool,
    resolved: AtomicBool,
    away: AtomicBool,
}

impl Deaf {
    /// The next `n` settles never reach the broker.
    pub fn fail_settles(&self, n: u32) {
        self.settles.store(n, Ordering::SeqCst);
    }

    /// The next `n` receives answer that the broker is away.
    pub fn fail_receives(&self, n: u32) {
        self.receives.store(n, Ordering::SeqCst);
    }

    /// The next `n` times a ledger is told something, it does not listen.
    pub fn fail_records(&self, n: u32) {
        self.records.store(n, Ordering::SeqCst);
    }

    /// From now on what the broker keeps cannot be looked at, or it can again.
    pub fn fail_shelves(&self, fail: bool) {
        self.shelves.store(fail, Ordering::SeqCst);
    }

    /// From now on the broker does not keep what people resolved, or it does again.
    pub fn fail_resolved(&self, fail: bool) {
        self.resolved.store(fail, Ordering::SeqCst);
    }

    /// From now on nothing is answered, or again all is.
    pub fn go_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn is_there(&self) -> Result<(), PortError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(PortError::Unavailable("told to be away".to_owned()));
        }
        Ok(())
    }

    fn settles(&self) -> Result<(), PortError> {
        self.is_there()?;
        is_deaf(&self.settles)
    }

    fn receives(&self) -> Result<(), PortError> {
        self.is_there()?;
        is_deaf(&self.receives)
    }

    fn is_kept(&self, fail: &AtomicBool, what: &str) -> Result<(), PortError> {
        self.is_there()?;
        if fail.load(Ordering::SeqCst) {
            return Err(PortError::Unavailable(format!("the topic of {what} is gone")));
        }
        Ok(())
    }

    fn is_told(&self) -> Result<(), PortError> {
        self.is_there()?;
        is_deaf(&self.records)
    }
}

fn is_deaf(count: &AtomicU32) -> Result<(), PortError> {
    let less = |left: u32| left.checked_sub(1);
    match count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
        Ok(_) => Err(PortError::Unavailable("told not to answer".to_owned())),
        Err(_) => Ok(()),
    }
}

/// A broker in front of which somebody may stand.
#[derive(Debug)]
pub struct Faulty {
    broker: Arc<dyn Broker>,
    deaf: Arc<Deaf>,
}

impl Faulty {
    /// Stands in front of this one.
    pub fn new(broker: Arc<dyn Broker>, deaf: Arc<Deaf>) -> Self {
        Self { broker, deaf }
    }
}

#[async_trait]
impl Broker for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.broker.capabilities()
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        self.broker.plan(subscription).await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        self.broker.apply(topology).await
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        let source = self.broker.subscribe(subscription).await?;
        Ok(Box::new(FaultySource { source, deaf: Arc::clone(&self.deaf) }))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        match self.deaf.settles() {
            Ok(()) => self.broker.settle(batch).await,
            Err(error) => vec![Err(error); batch.len()],
        }
    }

    fn leaves_body(&self, settlement: &Settlement) -> bool {
        self.broker.leaves_body(settlement)
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        self.deaf.is_there()?;
        self.broker.publish(target, messages).await
    }

    async fn ready(&self) -> Result<(), PortError> {
        self.broker.ready().await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        self.broker.queues().await
    }

    async fn full(&self, queue: &str) -> Result<Option<u64>, PortError> {
        self.broker.full(queue).await
    }

    async fn alone(&self) -> Result<(), PortError> {
        self.broker.alone().await
    }

    fn gate(&self, stream: u32, closed: bool) {
        self.broker.gate(stream, closed);
    }

    fn alarms(&self) -> Vec<BrokerAlarm> {
        self.broker.alarms()
    }

    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        self.broker.passed(copies).await
    }

    async fn whereabouts(
        &self,
        copies: &[Overdue],
        told_since: Timestamp,
    ) -> Result<Vec<Whereabouts>, PortError> {
        self.broker.whereabouts(copies, told_since).await
    }

    async fn missing(&self, copies: &[Overdue]) {
        self.broker.missing(copies).await;
    }

    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.deaf.is_kept(&self.deaf.shelves, "foreign dead letters")?;
        self.broker.shelves(subscription, from).await
    }

    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.broker.reread(subscription, range).await
    }

    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        self.broker.fetch(place).await
    }

    async fn fetch_all(&self, places: &[SourceRef]) -> Result<Vec<Option<Message>>, PortError> {
        self.broker.fetch_all(places).await
    }

    async fn expiring(&self, places: &[SourceRef]) -> Result<Vec<Option<i64>>, PortError> {
        self.broker.expiring(places).await
    }

    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        self.deaf.is_kept(&self.deaf.resolved, "what is resolved")?;
        self.broker.keep_resolved(resolved).await
    }

    async fn resolved(&self, subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        self.broker.resolved(subscription).await
    }

    async fn flush(&self, within: Duration) {
        self.broker.flush(within).await;
    }
}

struct FaultySource {
    source: Box<dyn Source>,
    deaf: Arc<Deaf>,
}

#[async_trait]
impl Source for FaultySource {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        self.deaf.receives()?;
        self.source.receive(room, into).await
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        self.source.depth().await
    }

    async fn close(&mut self) {
        self.source.close().await;
    }

    fn revoked(&mut self) -> Option<tokio::sync::mpsc::UnboundedReceiver<Revoked>> {
        self.source.revoked()
    }

    fn granularity(&self) -> Duration {
        self.source.granularity()
    }
}
