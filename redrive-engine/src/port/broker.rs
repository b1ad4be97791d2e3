//! The port to a broker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive_core::{Headers, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Delivery, PortError, Refusal, Settlement};

/// What a broker can do, so that one suite of tests serves all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question with its own answer")]
pub struct Capabilities {
    /// `embedded`, `kafka`, `rabbitmq`, `postgres`, `memory`.
    pub kind: &'static str,
    /// Any delay is kept exactly.
    pub exact_delay: bool,
    /// A null body is kept apart from an empty one.
    pub null_body: bool,
    /// Messages of one stream come in the order in which they were published.
    pub ordered: bool,
    /// The ledger's records are written in the transaction that settles.
    pub records_in_settle: bool,
    /// A waiting message can be sent at once, or cancelled, where it waits.
    pub waiting_is_reachable: bool,
    /// An id that is still queued is refused.
    pub unique_ids: bool,
    /// Settling holds and opens lanes, and keeps what a quarantine holds.
    pub lanes: bool,
}

/// How much more the engine can take in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Messages.
    pub messages: usize,
    /// Bytes; a single message larger than this is still handed out, alone.
    pub bytes: usize,
    /// Of the messages, at most so many that have waited for their time: retries, mostly. A source that cannot tell them
    /// apart ignores it.
    pub retries: usize,
}

impl Room {
    /// Room for so many messages, of any kind and size.
    pub const fn of(messages: usize) -> Self {
        Self { messages, bytes: usize::MAX, retries: messages }
    }
}

/// What a flow reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The flow's name.
    pub flow: Arc<str>,
    /// The queue or topic.
    pub source: Arc<str>,
}

/// A message to publish.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// The id; minted when there is none.
    pub id: Option<String>,
    /// The key.
    pub key: Option<Bytes>,
    /// The body; nothing is a tombstone.
    pub body: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
    /// The content type.
    pub content_type: Option<String>,
    /// When it becomes ready; at once when there is none.
    pub due: Option<Timestamp>,
}

/// What became of a published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It is durable under this id.
    Accepted(String),
    /// It was not taken; others of the same batch may have been.
    Refused(Refusal),
}

/// How much lies in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Depth {
    /// Ready to be handed out, or handed out and not settled.
    pub ready: u64,
    /// Waiting for their due time.
    pub waiting: u64,
}

/// A queue and what lies in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// How much lies in it.
    #[serde(flatten)]
    pub depth: Depth,
    /// The most messages it takes, when limited.
    pub limit: Option<u64>,
    /// How long an id is remembered after its message is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_ms: Option<u64>,
}

/// One thing that has to exist at the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Topology {
    /// `queue`, `topic`, `exchange`, `binding`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is there already.
    pub exists: bool,
}

/// The port to a broker.
#[async_trait]
pub trait Broker: std::fmt::Debug + Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What a flow needs there, and what of it is missing. Changes nothing.
    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError>;

    /// Creates what is missing. Never alters or deletes what exists.
    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError>;

    /// Begins to read. Everything that an earlier reader took and did not settle is handed out again.
    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError>;

    /// Ends deliveries: each copy durable before its original is released. The answers stand in the order of the
    /// batch; a settlement that failed with [`PortError::Unavailable`] can be given again as it is.
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<(), PortError>>;

    /// Publishes; when it returns, what was accepted is durable.
    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError>;

    /// Whether it takes writes now. Costs nothing while the last write was taken; after one that was not, a small one
    /// is tried.
    async fn ready(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// The queues or topics and what lies in them.
    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError>;
}

/// A stream of deliveries.
#[async_trait]
pub trait Source: Send {
    /// Waits until something is there and adds it to `into`: at most what there is room for, at least one message.
    /// Cancel-safe: what was taken and not added is handed out by the next call.
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError>;

    /// How much lies in the source; what this reader holds unsettled counts as ready.
    async fn depth(&mut self) -> Result<Depth, PortError>;

    /// Ends what it has under way and waits for that. Called once, when nothing more is received; what was taken in
    /// can still be settled.
    async fn close(&mut self) {}

    /// How far the source can be behind its due times by construction; zero where delays are exact.
    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}
