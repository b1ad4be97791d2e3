//! The port to a broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redrive_core::{Header, Headers, Message, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Delivery, EntryState, HeaderRules, Overdue, PortError, Refusal, Settlement, SourceRef, Tag};

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
    /// A stream of deliveries ([`Tag::stream`](super::Tag)) is a partition: a blocking retry holds its own alone.
    pub partitions: bool,
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
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The flow's name.
    pub flow: Arc<str>,
    /// The queue or topic.
    pub source: Arc<str>,
    /// How the flow's headers are read and written.
    pub headers: HeaderRules,
}

impl Subscription {
    /// What a flow reads, with Redrive's own names of the headers and no signatures.
    pub fn new(flow: impl Into<Arc<str>>, source: impl Into<Arc<str>>) -> Self {
        Self { flow: flow.into(), source: source.into(), headers: HeaderRules::default() }
    }
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

impl NewMessage {
    /// An edited copy: key, content type and headers that are not given are the parent's. What Redrive itself wrote
    /// on the parent stays behind, since a copy has budgets of its own; correlation and causation go along.
    #[must_use]
    pub fn as_copy_of(self, parent: Message, rules: &HeaderRules) -> Self {
        let mut headers = parent.headers;
        rules.clear(&mut headers);
        // A name that came over HTTP has lost its case: the parent's way of writing it stays.
        let same = |one: &Header, other: &Header| one.name.as_str().eq_ignore_ascii_case(other.name.as_str());
        let given: Vec<Header> = self
            .headers
            .iter()
            .map(|given| {
                let name =
                    headers.iter().find(|kept| same(kept, given)).map_or(&given.name, |kept| &kept.name);
                Header { name: name.clone(), value: given.value.clone() }
            })
            .collect();
        headers.retain(|kept| !given.iter().any(|given| same(kept, given)));
        for Header { name, value } in given {
            headers.push_header(name, value);
        }
        Self {
            key: self.key.or(parent.key),
            headers,
            content_type: self.content_type.or_else(|| parent.content_type.map(|text| text.to_string())),
            ..self
        }
    }
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
    /// What it is made with, or should have been: `partitions`, `retention.ms`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What of it is there and is not as it should be, each with what follows from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<String>,
}

impl Topology {
    /// A thing that is there or not, with nothing to say about it.
    pub fn new(kind: &str, name: &str, exists: bool) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            exists,
            settings: BTreeMap::new(),
            drift: Vec::new(),
        }
    }
}

/// A delivery has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Where the copy lies, when there is one that can be found again.
    pub copy: Option<SourceRef>,
    /// Whether the copy carries the message's body, which [`Broker::fetch`] then finds there.
    pub carries_body: bool,
}

/// Something that a person should know of, for as long as the broker says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAlarm {
    /// Its name in the metrics: `copy_refused`, `window_full`.
    pub name: &'static str,
    /// What is the matter, and the way out.
    pub why: String,
}

/// A message that the broker keeps for a flow: a dead letter, a parked one, one that waits.
#[derive(Debug, Clone)]
pub struct Shelved {
    /// The message, its trail and where it lies. Its tag is [`Tag::APART`](super::Tag::APART).
    pub delivery: Delivery,
    /// Where it stands by the place it lies in: waiting, dead or parked.
    pub state: EntryState,
    /// Whether another system put it there.
    pub foreign: bool,
    /// Whether its body lies elsewhere and could not be read: what is at hand is no tombstone.
    pub bodiless: bool,
    /// Whether it carries its body itself, which [`Broker::fetch`] then finds at its place.
    pub carries_body: bool,
}

/// What became of an entry that a person, or a replay that a person began, brought to an end or put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The entry.
    pub entry: super::EntryId,
    /// Where it stands. One that is parked was put aside, and its copy at the broker is not to run; any other that is
    /// open was restored.
    pub state: EntryState,
}

/// Where a copy is that should have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// It may still come, or is in hand.
    Coming,
    /// It was handed out and settled, or is gone.
    Passed,
    /// It lies nowhere that is read, and nobody can have had it: the broker itself keeps it back.
    Missing,
}

/// A look at what a broker keeps, from a position on.
#[async_trait]
pub trait Shelves: Send {
    /// The next ones, at most so many; none when the end, as it was when the look began, is reached.
    async fn next(&mut self, most: usize) -> Result<Vec<Shelved>, PortError>;

    /// The ledger does not take one of those that [`next`](Self::next) gave last, by its place among them: it stays at the
    /// broker. All others it has by the time that the next ones are asked for. A broker that gives nothing away by being
    /// read has nothing to do.
    fn refuse(&mut self, place: usize, why: &Refusal) {
        let _ = (place, why);
    }

    /// Where the next look begins, to be given to [`Broker::shelves`].
    fn position(&self) -> String;
}

/// Which messages of a source are read once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceRange {
    /// All that were published in this time.
    Since {
        /// From this time on.
        from: Timestamp,
        /// Until this time; nothing means until now.
        to: Option<Timestamp>,
    },
    /// Offsets of partitions: the partition, the first one, the last one.
    Offsets(Vec<(i32, i64, i64)>),
}

/// A stream that this reader loses: another member has it, or will in a moment. What has not begun is given back at once,
/// what waits in hand is written down, and what runs may be settled while the source still lets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revoked {
    /// The stream.
    pub stream: u32,
    /// Its epoch.
    pub epoch: u32,
}

impl Revoked {
    /// Whether a delivery came from it.
    pub const fn had(&self, tag: Tag) -> bool {
        self.stream == tag.stream && self.epoch == tag.epoch
    }
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
    ///
    /// Only copies that this flow itself left to wait carry an entry. Of what was published to the source it is
    /// [forgotten](super::Carried::forget_entry), whatever its headers say: a dead letter that somebody sends in again is
    /// a message of its own.
    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError>;

    /// Ends deliveries: each copy durable before its original is released. The answers stand in the order of the
    /// batch; a settlement that failed with [`PortError::Unavailable`] can be given again as it is.
    ///
    /// A delivery whose tag is [`Tag::APART`](super::Tag::APART) was not read from here: only its copy is written.
    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>>;

    /// Whether the copy that this settlement leaves may be too large for its place, so that it goes there without its body.
    /// The ledger, which keeps the body, is then told first. A copy that is to wait waits in the ledger instead.
    fn leaves_body(&self, settlement: &Settlement) -> bool {
        let _ = settlement;
        false
    }

    /// Publishes; when it returns, what was accepted is durable.
    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError>;

    /// Whether it takes writes now. Costs nothing while the last write was taken; after one that was not, a small one
    /// is tried.
    async fn ready(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// The queues or topics and what lies in them.
    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError>;

    /// The limit that a queue is at, so that whoever publishes is refused; nothing where there is room, or no limit.
    async fn full(&self, queue: &str) -> Result<Option<u64>, PortError> {
        let _ = queue;
        Ok(None)
    }

    /// Refuses, by their names, when others read for the flow who share no ledger with it: what waits may be in their hands.
    async fn alone(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// A stream stands still for one of its messages, or goes on: while it stands nothing more of it is handed out, so
    /// that it takes no room from the others. One that is [lost](Revoked) goes on when it comes again. Only asked of a broker whose streams are
    /// [partitions](Capabilities::partitions); one that hands out all the same is borne.
    fn gate(&self, stream: u32, closed: bool) {
        let _ = (stream, closed);
    }

    /// What a person should know of now.
    fn alarms(&self) -> Vec<BrokerAlarm> {
        Vec::new()
    }

    /// Which of these copies the flow's readers have passed: they were handed out and settled, or are gone.
    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        Ok(vec![false; copies.len()])
    }

    /// Where copies are that should have come, in their order. Those that were due before `told_since` may have been handled
    /// without the ledger having heard of it; of any later one it knows what became of it once it was settled.
    ///
    /// It is asked again and again while the flow reads, also with no copies: whoever has to have watched in order to know
    /// does so from one time to the next.
    async fn whereabouts(
        &self,
        copies: &[Overdue],
        told_since: Timestamp,
    ) -> Result<Vec<Whereabouts>, PortError> {
        let _ = told_since;
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<SourceRef> = copies.iter().map(|one| one.copy.clone()).collect();
        let known = |passed| if passed { Whereabouts::Passed } else { Whereabouts::Coming };
        Ok(self.passed(&places).await?.into_iter().map(known).collect())
    }

    /// These are [missing](Whereabouts::Missing) now, and nobody has them in hand: a person is told, and what may help is
    /// done. None says that it is over.
    async fn missing(&self, copies: &[Overdue]) {
        let _ = copies;
    }

    /// What it keeps for the flow, and what others put into the places that the flow names, from a position on or from
    /// the beginning.
    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        let _ = (subscription, from);
        Err(Refusal::Invalid(format!("{} keeps nothing that could be read again", self.capabilities().kind))
            .into())
    }

    /// Messages of the flow's source once more, as they were published.
    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        let _ = (subscription, range);
        Err(Refusal::Invalid(format!("{} does not keep what was read", self.capabilities().kind)).into())
    }

    /// One message by the place where it lies; nothing when it is gone.
    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        let _ = place;
        Ok(None)
    }

    /// The same for several, in their order. What is there and cannot be read now is an error, and never nothing.
    async fn fetch_all(&self, places: &[SourceRef]) -> Result<Vec<Option<Message>>, PortError> {
        let mut fetched = Vec::with_capacity(places.len());
        for place in places {
            fetched.push(self.fetch(place).await?);
        }
        Ok(fetched)
    }

    /// Of the partition of each of these places, the offset before which messages may be gone before long: what is wanted of
    /// them is to be fetched by now. Nothing where all are kept, or where nothing is left.
    async fn expiring(&self, places: &[SourceRef]) -> Result<Vec<Option<i64>>, PortError> {
        Ok(vec![None; places.len()])
    }

    /// Keeps what people resolved where a rebuild of the ledger finds it.
    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        let _ = resolved;
        Ok(())
    }

    /// What [`keep_resolved`](Self::keep_resolved) kept for the flow, the last word on each.
    async fn resolved(&self, subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        let _ = subscription;
        Ok(Vec::new())
    }

    /// A flow has settled its last: what settling left to be done afterwards is done, as far as that goes in this time.
    async fn flush(&self, within: Duration) {
        let _ = within;
    }
}

/// A stream of deliveries.
#[async_trait]
pub trait Source: Send {
    /// Waits until something is there and adds it to `into`: at most what there is room for, at least one message; or
    /// nothing, to say that a broker that was away is back.
    /// Cancel-safe: what was taken and not added is handed out by the next call.
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError>;

    /// How much lies in the source; what this reader holds unsettled counts as ready.
    async fn depth(&mut self) -> Result<Depth, PortError>;

    /// Ends what it has under way and waits for that. Called once, when nothing more is received; what was taken in
    /// can still be settled.
    async fn close(&mut self) {}

    /// Streams that are lost, as they are lost; nothing where none ever is. Asked for once.
    fn revoked(&mut self) -> Option<tokio::sync::mpsc::UnboundedReceiver<Revoked>> {
        None
    }

    /// How far the source can be behind its due times by construction; zero where delays are exact.
    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}
