//! What a flow on Kafka may choose.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Options of librdkafka, by its own names. Shown without their secrets.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ClientOptions {
    /// Servers to begin with: `host:9092,host2:9092`.
    pub bootstrap: String,
    /// Everything else: `security.protocol`, `sasl.password`, `client.id`.
    pub options: BTreeMap<String, String>,
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = |name: &str| {
            ["password", "secret", ".key", "pem", "oauth"].iter().any(|part| name.contains(part))
        };
        let shown: BTreeMap<&str, &str> = self
            .options
            .iter()
            .map(|(name, value)| (name.as_str(), if secret(name) { "…" } else { value.as_str() }))
            .collect();
        f.debug_struct("ClientOptions").field("bootstrap", &self.bootstrap).field("options", &shown).finish()
    }
}

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DelayMode {
    /// Topics of fixed delay; what no level covers exactly takes several hops.
    #[default]
    Cascade,
    /// One hop: the smallest level that is long enough.
    Tiered,
    /// One retry topic, read ahead and ordered by due time.
    Single,
    /// Hops carry where the message lies; the body is read at the end.
    Pointer,
    /// In the ledger: this adapter is never asked to delay.
    Ledger,
}

/// How deliveries are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SettleMode {
    /// Copies and offsets in one transaction.
    #[default]
    Transactional,
    /// Copies by an idempotent producer, awaited; offsets after them.
    Plain,
}

/// What the body of a dead letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadLetterFormat {
    /// The message's own bytes.
    #[default]
    Raw,
    /// The parking-lot envelope, with the bytes in it.
    Envelope,
}

/// Which partition a dead letter goes to.
#[derive(Clone, Copy, Default)]
pub enum PartitionBy {
    /// The one that the message came from when it exists, else by its key.
    #[default]
    Same,
    /// By its key.
    Key,
    /// By a function of the original partition, the key and the number of partitions.
    Function(fn(i32, Option<&[u8]>, i32) -> i32),
}

impl fmt::Debug for PartitionBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "Same",
            Self::Key => "Key",
            Self::Function(_) => "Function",
        })
    }
}

/// Where dead letters go.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// The topic.
    pub topic: String,
    /// What its body is.
    pub format: DeadLetterFormat,
    /// Which partition it goes to.
    pub partition: PartitionBy,
    /// Options of the topic and of the producer that writes to it, by Kafka's and librdkafka's own names.
    pub options: BTreeMap<String, String>,
}

/// Where parked messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parking {
    /// Where dead letters go.
    Same,
    /// A topic of their own.
    Topic(String),
}

/// Which parts of a flow a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// All of them.
    #[default]
    All,
    /// Reads the source.
    Main,
    /// Reads the last delay topic of each way, and calls the handler.
    Retry,
    /// Moves records of several hops on; calls nobody.
    Delay,
    /// Projects into the ledger; calls nobody.
    Ledger,
}

/// What the ledger keeps of a message whose copy lies in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bodies {
    /// The body.
    #[default]
    Copy,
    /// The place of the copy; the body is read there when it is asked for, and copied before Kafka drops it.
    Pointer,
}

/// The consumer groups of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Reads the source.
    pub main: String,
    /// Reads what comes due.
    pub retry: String,
    /// Moves records on.
    pub delay: String,
    /// Reads for the ledger.
    pub ledger: String,
}

impl Groups {
    /// The usual names: `<group>`, `<group>-retry`, `<group>-delay`, `<group>-ledger`.
    pub fn of(group: &str) -> Self {
        Self {
            main: group.to_owned(),
            retry: format!("{group}-retry"),
            delay: format!("{group}-delay"),
            ledger: format!("{group}-ledger"),
        }
    }
}

/// What is put behind a flow's name for its topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffixes {
    /// For waiting messages: `.retry`, with `single` it is `-retry`.
    pub retry: String,
    /// For what people resolved: `.resolved`.
    pub resolved: String,
}

/// How far waiting records are read ahead, over all partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Records.
    pub records: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { records: 100_000, bytes: 64 << 20 }
    }
}

/// How topics are made that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewTopics {
    /// Copies of each; nothing is the source's number.
    pub replication: Option<i32>,
    /// How long the ledger keeps what is dead; a dead-letter topic keeps it at least as long. Nothing is for ever.
    pub keeps: Option<Duration>,
}

/// A flow on Kafka.
#[derive(Debug, Clone)]
pub struct KafkaFlow {
    /// The flow's name; its topics begin with it.
    pub flow: Arc<str>,
    /// The topics that it reads.
    pub topics: Vec<String>,
    /// Its consumer groups.
    pub groups: Groups,
    /// How Kafka is reached.
    pub client: ClientOptions,
    /// Where messages wait.
    pub delay: DelayMode,
    /// The waits that the policy's schedules name, without jitter: each gets a level of its own.
    pub steps: Vec<Duration>,
    /// The longest wait that the policy can ask for, with jitter and Retry-After.
    pub longest_delay: Duration,
    /// How deliveries are ended.
    pub settle: SettleMode,
    /// Where dead letters go.
    pub dead_letter: DeadLetter,
    /// Where parked messages go.
    pub parking: Parking,
    /// Dead-letter topics of other systems that the ledger shows too.
    pub foreign: Vec<String>,
    /// What is put behind the flow's name.
    pub suffixes: Suffixes,
    /// Which parts this process runs.
    pub role: Role,
    /// How far waiting records are read ahead.
    pub window: Window,
    /// How long a partition that is taken away may be drained.
    pub drain: Duration,
    /// How topics are made.
    pub new_topics: NewTopics,
    /// What the ledger keeps of bodies.
    pub bodies: Bodies,
    /// Whether a ledger keeps the bodies of dead letters too: one that is too large for its topic then goes there
    /// without its body. Without a ledger such a message stays where it is.
    pub ledger: bool,
    /// Whether no other instance may be a member of the flow's groups: its order is kept in a ledger that others do not
    /// share. Refused at the start; a partition that comes while there are others is not read.
    pub alone: bool,
    /// This member's name among those of the group; part of its transactional id.
    pub instance: String,
}

impl KafkaFlow {
    /// A flow that reads one topic, with the usual settings.
    pub fn new(flow: &str, bootstrap: &str, topic: &str, group: &str) -> Self {
        Self {
            flow: flow.into(),
            topics: vec![topic.to_owned()],
            groups: Groups::of(group),
            client: ClientOptions { bootstrap: bootstrap.to_owned(), options: BTreeMap::new() },
            delay: DelayMode::default(),
            steps: Vec::new(),
            longest_delay: Duration::from_secs(3_600),
            settle: SettleMode::default(),
            dead_letter: DeadLetter {
                topic: format!("{flow}.dlq"),
                format: DeadLetterFormat::default(),
                partition: PartitionBy::default(),
                options: BTreeMap::new(),
            },
            parking: Parking::Topic(format!("{flow}.parking")),
            foreign: Vec::new(),
            suffixes: Suffixes { retry: ".retry".to_owned(), resolved: ".resolved".to_owned() },
            role: Role::default(),
            window: Window::default(),
            drain: Duration::from_secs(10),
            new_topics: NewTopics::default(),
            bodies: Bodies::default(),
            ledger: false,
            alone: false,
            instance: uuid::Uuid::now_v7().simple().to_string(),
        }
    }
}
