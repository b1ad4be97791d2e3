//! What a flow on RabbitMQ may choose.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How RabbitMQ is reached. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The host.
    pub host: String,
    /// The port: 5672, or 5671 with TLS.
    pub port: u16,
    /// The virtual host.
    pub vhost: String,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// Encryption, when there is any.
    pub tls: Option<Tls>,
    /// How often each side shows that it is there.
    pub heartbeat: Duration,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
}

impl Login {
    /// A server without encryption, as `guest`.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            vhost: "/".to_owned(),
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            tls: None,
            heartbeat: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, vhost, user, password: _, tls, heartbeat, connect_timeout } = self;
        f.debug_struct("Login")
            .field("host", host)
            .field("port", port)
            .field("vhost", vhost)
            .field("user", user)
            .field("password", &"…")
            .field("tls", tls)
            .field("heartbeat", heartbeat)
            .field("connect_timeout", connect_timeout)
            .finish()
    }
}

/// An encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// A file of certificates (PEM) that are trusted beside those of the usual authorities.
    pub ca_file: Option<PathBuf>,
    /// A file with the client's own certificate (PEM), when the server asks for one.
    pub cert_file: Option<PathBuf>,
    /// A file with the key to it (PEM).
    pub key_file: Option<PathBuf>,
}

/// What kind of queue the flow's queues are made as, and what kind its source is taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueKind {
    /// Replicated and durable.
    #[default]
    Quorum,
    /// On one node; durable.
    Classic,
    /// A stream: the source alone can be one. Messages stay when they are handled, and the position is kept in the ledger.
    Stream,
}

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DelayMode {
    /// A queue for each step of the schedules; any other delay through binary levels, each passed at most once.
    #[default]
    Cascade,
    /// The queues of the steps alone: the smallest that is long enough.
    Ring,
    /// The exchange of the delayed-message plug-in.
    DelayedExchange,
    /// In the ledger: this adapter is never asked to delay.
    Ledger,
}

/// How a message leaves its queue when it is diverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SettleMode {
    /// Its copy is published and confirmed, then it is acknowledged.
    #[default]
    Republish,
    /// For topologies that stand already: what is to be tried again is rejected without being queued again, and the queue's
    /// own dead-letter exchange takes it. Attempts are counted by `x-death`. A dead letter and a parked message leave as
    /// with [`Republish`](Self::Republish), so that a ring of queues has an end.
    Nack,
    /// The same, and dead letters and parked messages are rejected, too: the topology has an end of its own.
    NackAll,
}

/// Who keeps dead letters and parked messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Adopt {
    /// The queue, and the ledger has a copy.
    #[default]
    InPlace,
    /// The ledger: what comes to lie in the queue is written there durably, then acknowledged.
    IntoLedger,
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

/// Where dead letters go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The queue.
    pub queue: String,
    /// What its body is.
    pub format: DeadLetterFormat,
    /// Arguments that the queue is made with, by RabbitMQ's own names: `x-max-length`, `x-overflow`, `x-message-ttl`.
    pub options: BTreeMap<String, String>,
}

/// Where parked messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parking {
    /// Where dead letters go.
    Same,
    /// A queue of their own.
    Queue(String),
}

/// What is put behind a flow's name for its queues and exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffixes {
    /// For waiting messages: `.retry`.
    pub retry: String,
    /// For copies that found no way: `.stray`.
    pub stray: String,
}

/// A flow on RabbitMQ.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct RabbitFlow {
    /// The flow's name; its queues begin with it.
    pub flow: Arc<str>,
    /// The queue that it reads.
    pub queue: String,
    /// How RabbitMQ is reached.
    pub login: Login,
    /// What kind the source is, and the flow's own queues are (those of a stream's flow are quorum queues).
    pub kind: QueueKind,
    /// Whether the source is the flow's own: made when it is missing. Else it is only looked at.
    pub owned: bool,
    /// Whether one consumer at a time reads the source, so that order holds over several instances.
    pub single_active: bool,
    /// Where messages wait.
    pub delay: DelayMode,
    /// The waits that the policy's schedules name, when they are exact: each gets a queue of its own. Empty where there is
    /// jitter.
    pub steps: Vec<Duration>,
    /// The shortest and the longest wait that the policy can ask for otherwise, with jitter and Retry-After: the levels
    /// between are made. Nothing when it asks for none.
    pub other_delays: Option<(Duration, Duration)>,
    /// How deliveries are ended.
    pub settle: SettleMode,
    /// Where dead letters go.
    pub dead_letter: DeadLetter,
    /// Where parked messages go.
    pub parking: Parking,
    /// Who keeps them.
    pub adopt: Adopt,
    /// Dead-letter queues of other systems that the ledger takes in. They are emptied.
    pub foreign: Vec<String>,
    /// What is put behind the flow's name.
    pub suffixes: Suffixes,
    /// How many messages the broker hands out before it waits for an answer.
    pub prefetch: u16,
    /// How long a confirmation may take.
    pub confirm_timeout: Duration,
    /// How long prefetched messages are kept when nobody takes them; then they go back, and the consumer is cancelled.
    pub longest_hold: Duration,
    /// Whether a ledger keeps what does not fit into the broker: headers that are larger than a frame.
    pub ledger: bool,
    /// Whether queues and exchanges that were deleted while the flow runs are made again. Otherwise they are named.
    pub makes: bool,
    /// Whether no other instance may read the queue: order is kept in a ledger that others do not share.
    pub alone: bool,
    /// This instance's name, as the broker shows it with its connections.
    pub instance: String,
}

impl RabbitFlow {
    /// Whether the queue's own dead-letter exchange takes what is to be tried again.
    pub(crate) fn rejects(&self) -> bool {
        self.settle != SettleMode::Republish
    }

    /// Whether copies wait in queues of the flow's own.
    pub(crate) fn waits(&self) -> bool {
        !self.rejects() && self.delay != DelayMode::Ledger
    }

    /// Whether dead letters and parked messages lie in queues of the flow's own.
    pub(crate) fn shelves(&self) -> bool {
        self.settle != SettleMode::NackAll
    }

    /// A flow that reads one queue, with the usual settings.
    pub fn new(flow: &str, login: Login, queue: &str) -> Self {
        Self {
            flow: flow.into(),
            queue: queue.to_owned(),
            login,
            kind: QueueKind::default(),
            owned: true,
            single_active: false,
            delay: DelayMode::default(),
            steps: Vec::new(),
            other_delays: Some((Duration::from_millis(100), Duration::from_secs(3_600))),
            settle: SettleMode::default(),
            dead_letter: DeadLetter {
                queue: format!("{flow}.dlq"),
                format: DeadLetterFormat::default(),
                options: BTreeMap::new(),
            },
            parking: Parking::Queue(format!("{flow}.parking")),
            adopt: Adopt::default(),
            foreign: Vec::new(),
            suffixes: Suffixes { retry: ".retry".to_owned(), stray: ".stray".to_owned() },
            prefetch: 256,
            confirm_timeout: Duration::from_secs(5),
            longest_hold: Duration::from_secs(30),
            ledger: false,
            makes: true,
            alone: false,
            instance: "redrive".to_owned(),
        }
    }
}
