//! A broker and a ledger that stand apart, made into one broker for a flow.
//!
//! Kafka and RabbitMQ know nothing of the ledger's store, and no transaction spans both. So each settlement has an order
//! of its own: what a lane or a mark depends on is written down in the ledger first, then the broker learns of it; all else
//! is the broker's, and the ledger is told afterwards. Whatever happens in between, the message comes again and is found
//! in the ledger by its place, or its copy is found to be spent.
//!
//! Beside its source the flow reads the ledger's own queue ([`home_of`]): followers, replays, retries at once.

mod again;
mod bodies;
mod duties;
mod errands;
mod health;
mod in_hand;
mod log;
mod overdue;
mod projection;
mod record;
mod settle;
mod shelves;
mod source;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{Message, Policy, Random as _, SplitMix64, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mint::{mint, seed};
use crate::port::{
    Actor, Broker, BrokerAlarm, Capabilities, Clock, EntryId, EntryState, Ledger, NewMessage, Overdue,
    PortError, Published, QueueInfo, Resolved, Settled, Settlement, Shelves, Source, SourceRange, SourceRef,
    Subscription, Topology, Whereabouts, home_of,
};
use duties::Duties;
use health::Health;
use projection::Projection;

/// How a broker and a ledger work together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question with its own answer")]
pub struct ApartOptions {
    /// Whether delayed retries wait in the ledger's own queue rather than at the broker.
    pub delay_in_ledger: bool,
    /// Whether dead letters that other systems wrote are taken into the ledger as they come.
    pub adopts: bool,
    /// Whether the broker has no positions in what it keeps for the flow: only a look from the beginning finds what came to
    /// lie there. That is taken when the ledger may have missed something, and else not.
    pub looks_anew: bool,
    /// Whether the ledger leaves bodies to the broker where a copy there carries them, and keeps the place of that copy.
    pub by_pointer: bool,
    /// How long after its due time a copy is asked for that has not come.
    pub overdue: Duration,
    /// How often the small duties are looked at.
    pub every: Duration,
}

impl Default for ApartOptions {
    /// Delays at the broker, nothing adopted, a broker with positions, bodies in the ledger, half a minute, once a second.
    fn default() -> Self {
        Self {
            delay_in_ledger: false,
            adopts: false,
            looks_anew: false,
            by_pointer: false,
            overdue: Duration::from_secs(30),
            every: Duration::from_secs(1),
        }
    }
}

/// What a rebuild of the ledger did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// Messages that the broker keeps, as far as they were looked at.
    pub looked_at: u64,
    /// Entries that were told to the ledger; it leaves alone what it knows.
    pub told: u64,
    /// Entries left out because people had resolved them.
    pub resolved: u64,
}

/// A source replay that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reread {
    /// Its id, as the messages carry it.
    pub id: EntryId,
    /// Messages that were sent to the flow.
    pub messages: u64,
}

/// A broker and a ledger apart, as one broker. There is one for each flow.
#[derive(Debug)]
pub struct Apart {
    inner: Arc<Inner>,
    _stops: DropGuard,
}

#[derive(Debug)]
struct Inner {
    outer: Arc<dyn Broker>,
    home: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    flow: Arc<str>,
    /// The ledger's own queue for the flow.
    queue: Arc<str>,
    options: ApartOptions,
    projection: Projection,
    health: Health,
    duties: Duties,
    /// Held for reading while something is settled, so that one can wait until it is.
    moving: tokio::sync::RwLock<()>,
    /// Copies that were written at the broker for messages of the ledger's queue which are not settled there yet.
    written: settle::Written,
    /// Whether the ledger's queue stands still for one of its messages: it hands nothing out meanwhile, as a partition of
    /// the broker's does not.
    home_stands: watch::Sender<bool>,
    /// What people resolved, as the broker keeps it; nothing until it was read.
    resolved: tokio::sync::Mutex<Option<HashMap<EntryId, EntryState>>>,
    /// Whether somebody tells the ledger what is to be told.
    telling: AtomicBool,
    /// Whether the last process may have died before the ledger knew what it had settled.
    missed: AtomicBool,
    stop: CancellationToken,
    seed: AtomicU64,
    /// By whose rules the failures of other systems are judged, when that is known.
    policy: OnceLock<Arc<Policy>>,
}

impl Apart {
    /// Puts the two together for one flow. `home` is the ledger's own store, as a broker.
    pub fn new(
        outer: Arc<dyn Broker>,
        home: Arc<dyn Broker>,
        ledger: Arc<dyn Ledger>,
        flow: &str,
        clock: Arc<dyn Clock>,
        options: ApartOptions,
    ) -> Self {
        let stop = CancellationToken::new();
        ledger.fetches_from(flow, Arc::downgrade(&outer));
        let inner = Arc::new(Inner {
            outer,
            home,
            ledger,
            clock,
            flow: flow.into(),
            queue: home_of(flow).into(),
            options,
            projection: Projection::default(),
            health: Health::default(),
            duties: Duties::default(),
            moving: tokio::sync::RwLock::default(),
            written: settle::Written::default(),
            home_stands: watch::Sender::new(false),
            resolved: tokio::sync::Mutex::default(),
            telling: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            stop: stop.clone(),
            seed: AtomicU64::new(seed()),
            policy: OnceLock::new(),
        });
        Self { inner, _stops: stop.drop_guard() }
    }

    /// Judges what other systems gave up by the rules of the flow's policy.
    #[must_use]
    pub fn with_policy(self, policy: Arc<Policy>) -> Self {
        _ = self.inner.policy.set(policy);
        self
    }

    /// The ledger that it tells.
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::clone(&self.inner.ledger)
    }

    /// Makes the ledger's entries again from what the broker keeps. What the ledger knows stays as it is, and what people
    /// have resolved is not brought back.
    pub async fn rebuild(&self, subscription: &Subscription, actor: &Actor) -> Result<Rebuilt, PortError> {
        self.inner.rebuild(subscription, actor).await
    }

    /// Sends messages of the source to this flow once more, and to nobody else.
    pub async fn replay_source(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
        actor: &Actor,
    ) -> Result<Reread, PortError> {
        self.inner.replay_source(subscription, range, actor).await
    }
}

impl Inner {
    fn mint(&self) -> EntryId {
        let mut random = SplitMix64::new(self.seed.fetch_add(1, Ordering::Relaxed));
        mint(self.clock.now(), [random.next_u64(), random.next_u64()])
    }

    /// What the flow reads at the ledger's side.
    fn at_home(&self, subscription: &Subscription) -> Subscription {
        Subscription { source: Arc::clone(&self.queue), ..subscription.clone() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[async_trait]
impl Broker for Apart {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            records_in_settle: true,
            waiting_is_reachable: true,
            lanes: true,
            ..self.inner.outer.capabilities()
        }
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        self.inner.outer.plan(subscription).await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        self.inner.outer.apply(topology).await
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        source::open(&self.inner, subscription).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        self.inner.settle(batch).await
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        self.inner.outer.publish(target, messages).await
    }

    async fn ready(&self) -> Result<(), PortError> {
        self.inner.outer.ready().await
    }

    /// The broker's, and the ledger's own queue for the flow as far as the ledger answers.
    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        let mut queues = self.inner.outer.queues().await?;
        if let Ok(at_home) = self.inner.home.queues().await {
            queues.extend(at_home.into_iter().filter(|queue| *queue.name == *self.inner.queue));
        }
        Ok(queues)
    }

    async fn full(&self, queue: &str) -> Result<Option<u64>, PortError> {
        self.inner.outer.full(queue).await
    }

    async fn alone(&self) -> Result<(), PortError> {
        self.inner.outer.alone().await
    }

    fn gate(&self, stream: u32, closed: bool) {
        if source::is_home_stream(stream) {
            self.inner.home_stands.send_replace(closed);
        } else {
            self.inner.outer.gate(stream, closed);
        }
    }

    fn alarms(&self) -> Vec<BrokerAlarm> {
        let mut alarms = self.inner.outer.alarms();
        alarms.extend(self.inner.health.alarms());
        alarms.extend(self.inner.duties.alarm());
        alarms.extend(self.inner.projection.alarm());
        alarms
    }

    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        self.inner.outer.passed(copies).await
    }

    async fn whereabouts(
        &self,
        copies: &[Overdue],
        told_since: Timestamp,
    ) -> Result<Vec<Whereabouts>, PortError> {
        self.inner.outer.whereabouts(copies, told_since).await
    }

    async fn missing(&self, copies: &[Overdue]) {
        self.inner.outer.missing(copies).await;
    }

    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.inner.outer.shelves(subscription, from).await
    }

    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.inner.outer.reread(subscription, range).await
    }

    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        self.inner.outer.fetch(place).await
    }

    async fn fetch_all(&self, places: &[SourceRef]) -> Result<Vec<Option<Message>>, PortError> {
        self.inner.outer.fetch_all(places).await
    }

    async fn expiring(&self, places: &[SourceRef]) -> Result<Vec<Option<i64>>, PortError> {
        self.inner.outer.expiring(places).await
    }

    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        self.inner.outer.keep_resolved(resolved).await
    }

    async fn resolved(&self, subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        self.inner.outer.resolved(subscription).await
    }

    async fn flush(&self, within: Duration) {
        let inner = &self.inner;
        inner.projection.flush(&*inner.ledger, &inner.flow, within).await;
        inner.ends().await;
        inner.outer.flush(within).await;
    }
}
