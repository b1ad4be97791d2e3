//! A flow as a person writes it: a source, a handler, a policy and what stands around them.

use std::collections::BTreeMap;

use redrive_core::duration::Period;
use redrive_core::guard::Rate;
use redrive_core::headers::Spelling;
use redrive_core::policy::{BudgetSpec, ByClass};
use redrive_core::{FactSource, FactSources, PolicySpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OrderBy;
use super::guards::{BreakerSpec, RetryBudgetSpec};
use super::handler::Handler;
use super::queue::QueueSpec;
use super::signing::Signing;
use crate::address::AddressText;

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The source: `queue:NAME`, `kafka://…`, `amqp://…` or `postgres://…`.
    pub from: AddressText,
    /// The handler: `http://…`, `exec:…`, `jsonl:…`, or a map.
    pub to: Handler,
    /// The policy: the name of one, or one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
    /// What this flow changes in its policy: retries in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<ByClass>,
    /// What this flow changes in its policy: retries that hold the lane, the partition or the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<ByClass>,
    /// What this flow changes in its policy: retries later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<ByClass>,
    /// What this flow changes in its policy: what one message may use up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<BudgetSpec>,
    /// What is different for a message type: the name of a policy, or one of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, PolicyRef>,
    /// What keeps messages in order: `none`, `key`, `header:NAME` or `json:/pointer`. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_by: Option<OrderBy>,
    /// Where a message waits. Default: what suits the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayMode>,
    /// Where dead letters go. Default `<flow>.dlq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,
    /// Where parked messages go, or `same` for where dead letters do. Default `<flow>.parking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parking: Option<String>,
    /// The address that rejection events are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<AddressText>,
    /// Which other spelling of the headers is written and read too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Spelling>,
    /// The keys with which the headers of what it writes are signed. Default: they are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
    /// How many messages are handled at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: Option<u32>,
    /// How often calls may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// When the flow stops calling a handler that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSpec>,
    /// How many retries there may be beside first attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudgetSpec>,
    /// Who looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Where each fact about a message is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<FactSources>,
    /// Who is told before and after a message is diverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// Links that an operator is shown, with `{correlation_id}`, `{trace_id}`, `{from}` and `{to}` filled in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Places whose values are never shown or kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<FactSource>,
    /// How deliveries are ended. Default transactional on Kafka, republish on RabbitMQ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
    /// Its consumer groups, where they are not to have their usual names. Kafka alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// Dead-letter topics of other systems that the ledger shows too, or queues that it takes in. Kafka and RabbitMQ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
    /// How it reads Kafka, and how its new topics are made, where that is not to be as usual. Kafka alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaSettings>,
    /// The queue that it reads. RabbitMQ alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// How long the broker may take to confirm a copy. Default 5s. RabbitMQ alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_timeout: Option<Period>,
    /// How its topics and queues are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffixes: Option<Suffixes>,
    /// Whether missing topics and queues are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// What an embedded queue promises before it says that a message is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The version of the handler, kept with each failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_version: Option<String>,
    /// A message is parked when the process has died so often while it ran. Default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub crash_limit: Option<u32>,
}

/// A policy by its name, or written in place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PolicyRef {
    /// The name of a policy under `policies`.
    Named(String),
    /// A policy of its own, over the default one.
    Inline(Box<PolicySpec>),
}

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DelayMode {
    /// Through levels of fixed delay (Kafka, RabbitMQ).
    Cascade,
    /// The smallest level that is long enough (Kafka).
    Tiered,
    /// One retry topic, the due time in a header (Kafka).
    Single,
    /// Hops carry where the message is, not the message (Kafka).
    Pointer,
    /// A queue for each step of the schedule, the smallest that is long enough (RabbitMQ).
    Ring,
    /// The delayed-message plug-in (RabbitMQ).
    DelayedExchange,
    /// In the ledger's database.
    Ledger,
}

/// The dead letters' destination: its name, or a map with more to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DeadLetter {
    /// The name of the topic or queue.
    Name(String),
    /// A destination with settings of its own.
    Full(DeadLetterSpec),
}

/// The dead letters' destination.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadLetterSpec {
    /// The name of the topic or queue. Default `<flow>.dlq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its body is. Default raw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Which partition it goes to. Default same. Kafka alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Options for creating it, by the broker's own names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Whether dead letters and parked messages move into the ledger, and leave their queues empty. Default false.
    /// RabbitMQ alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopt: Option<bool>,
    /// Whether dead letters and parked messages are rejected like any other with `settle: nack`: the source's own dead-letter
    /// exchange leads to where they belong. Default false. RabbitMQ alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject: Option<bool>,
}

/// What the body of a dead letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The message's own bytes.
    Raw,
    /// The parking-lot envelope, with the bytes in it.
    Envelope,
}

/// Which partition a dead letter goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// The partition that the message came from.
    Same,
    /// The partition that its key leads to.
    Key,
}

/// Who is told when a message is diverted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Called before a message is diverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_divert: Option<AddressText>,
    /// Called after a message was diverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_divert: Option<AddressText>,
}

/// How deliveries are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// Copies and offsets in one transaction (Kafka).
    Transactional,
    /// Copies by an idempotent producer, awaited; offsets after them (Kafka).
    Plain,
    /// Copies confirmed, originals acknowledged after them (RabbitMQ).
    Republish,
    /// What is to be tried again rejected, so that the queue's own dead-letter exchange takes it (RabbitMQ).
    Nack,
}

/// How a flow reads Kafka, and how topics are made that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaSettings {
    /// How many waiting records are read ahead, over all partitions. Default 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 10_000_000))]
    pub window_records: Option<u32>,
    /// How many bytes of waiting records are read ahead, over all partitions. Default 67108864.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_048_576))]
    pub window_bytes: Option<u64>,
    /// How long a partition that is taken away may be drained. Default 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Period>,
    /// How many copies of a new topic there are. Default: as many as of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub replication: Option<u16>,
    /// How long new topics of dead letters and parked messages keep them, at least. Default: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Period>,
    /// What the ledger keeps of a message that lies in a topic of the flow. Default copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bodies: Option<Bodies>,
}

/// What the ledger keeps of a message that lies in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bodies {
    /// Its body.
    Copy,
    /// Its place: the body is read there when it is asked for, and copied before Kafka drops it.
    Pointer,
}

/// The consumer groups of a flow on Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Groups {
    /// Reads the source. Default: the group of the address, else the flow's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// Reads what comes due. Default `<main>-retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// Moves waiting messages on. Default `<main>-delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Reads for the ledger. Default `<main>-ledger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<String>,
}

impl Groups {
    /// The names that are in force for a group: main, retry, delay and ledger.
    pub fn named(&self, group: &str) -> [String; 4] {
        let main = self.main.clone().unwrap_or_else(|| group.to_owned());
        let other = |given: &Option<String>, suffix: &str| {
            given.clone().unwrap_or_else(|| format!("{main}-{suffix}"))
        };
        let (retry, delay) = (other(&self.retry, "retry"), other(&self.delay, "delay"));
        let ledger = other(&self.ledger, "ledger");
        [main, retry, delay, ledger]
    }
}

/// What is put behind a name for the topics and queues around it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Suffixes {
    /// For waiting messages. Default `.retry`, with `delay: single` it is `-retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// For dead letters. Default `.dlq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// For parked messages. Default `.parking`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parking: Option<String>,
    /// For what people resolved, so that a rebuilt ledger knows it (Kafka). Default `.resolved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// For copies that found no way (RabbitMQ). Default `.stray`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray: Option<String>,
}

/// Whether missing topics and queues are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// What is missing is created, and said.
    Apply,
    /// What is missing is named, and the flow does not start.
    Check,
}

/// What an embedded queue promises before it says that a message is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It is on the disk. The default.
    Full,
    /// It survives the process, but perhaps not a loss of power.
    Relaxed,
}

impl Flow {
    /// Where its dead letters go, whichever way that is written.
    pub fn dead_letter_spec(&self) -> DeadLetterSpec {
        match &self.dead_letter {
            None => DeadLetterSpec::default(),
            Some(DeadLetter::Name(name)) => {
                DeadLetterSpec { name: Some(name.clone()), ..DeadLetterSpec::default() }
            }
            Some(DeadLetter::Full(spec)) => spec.clone(),
        }
    }

    /// What the flow itself changes in its policy.
    pub fn own_layer(&self) -> PolicySpec {
        PolicySpec {
            local: self.local.clone(),
            blocking: self.blocking.clone(),
            retry: self.retry.clone(),
            budgets: self.budgets.clone(),
            ..PolicySpec::default()
        }
    }
}
