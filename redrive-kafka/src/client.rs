//! How Kafka is reached: librdkafka's options, ours first, the flow's own on top, and what only we may choose last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaConfRes;
use redrive_engine::port::{PortError, Refusal};

use crate::aliases;
use crate::options::{ClientOptions, KafkaFlow, SettleMode};

/// A transaction that nobody ends is ended by the broker after this time; until then readers stand still.
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one question to a broker may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// What a broker allows as commit metadata unless it says otherwise.
const METADATA_MAX: usize = 4_096;

/// What every client has.
pub(crate) fn base(options: &ClientOptions) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("client.id", "redrive")
        // A host name with an address family that nobody listens on costs a second at each start.
        .set("broker.address.family", "v4")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("topic.metadata.refresh.interval.ms", "30000")
        .set("allow.auto.create.topics", "false")
        .set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in &aliases::by_one_name(options).options {
        config.set(name, value);
    }
    config.set("bootstrap.servers", &options.bootstrap);
    config
}

/// A member of a group.
///
/// Where a new group begins may be chosen for the source alone: what waits is read from its beginning.
pub(crate) fn consumer(flow: &KafkaFlow, group: &str) -> ClientConfig {
    let mut own = aliases::by_one_name(&flow.client);
    if group != flow.groups.main {
        own.options.remove("auto.offset.reset");
    }
    keep(&mut own, &PRODUCER_ONLY);
    for (name, value) in [
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("auto.offset.reset", "earliest"),
        // What librdkafka holds beside our own buffer.
        ("queued.max.messages.kbytes", "8192"),
        ("fetch.wait.max.ms", "100"),
        // Else a partition whose queue was full for a moment is not read for a second.
        ("fetch.queue.backoff.ms", "5"),
        ("fetch.error.backoff.ms", "50"),
        ("statistics.interval.ms", "1000"),
    ] {
        own.options.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    let mut config = base(&own);
    config
        .set("group.id", group)
        .set("client.id", client_id(flow))
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "false");
    config
}

/// A producer of copies; transactional when it has an id.
pub(crate) fn producer(flow: &KafkaFlow, transactional_id: Option<&str>) -> ClientConfig {
    producer_with(aliases::by_one_name(&flow.client), transactional_id)
}

/// A producer of dead letters and parked messages that have options of their own.
pub(crate) fn shelf_producer(flow: &KafkaFlow) -> ClientConfig {
    let mut own = aliases::by_one_name(&flow.client);
    let options = flow.dead_letter.options.iter().filter(|(name, _)| is_producers(name));
    own.options.extend(options.map(|(name, value)| (aliases::name(name).to_owned(), value.clone())));
    producer_with(own, None)
}

/// Whether a producer of these compresses what it writes. Kafka's limits are those of what is compressed.
pub(crate) fn compresses(config: &ClientConfig) -> bool {
    config.get("compression.codec").is_some_and(|codec| codec != "none")
}

/// Whether dead letters have a producer of their own.
pub(crate) fn has_own_producer(flow: &KafkaFlow) -> bool {
    flow.dead_letter.options.keys().any(|name| is_producers(name))
}

fn producer_with(mut own: ClientOptions, transactional_id: Option<&str>) -> ClientConfig {
    keep(&mut own, &CONSUMER_ONLY);
    // One that writes plainly would wait for a transaction that nobody begins.
    keep(&mut own, &["transactional.id", "transaction.timeout.ms"]);
    for (name, value) in [
        ("linger.ms", "0"),
        // Sizes are the topic's business, and are looked at before a batch is sent.
        ("message.max.bytes", "1000000000"),
        ("queue.buffering.max.messages", "200000"),
        ("queue.buffering.max.kbytes", "131072"),
        ("compression.codec", "none"),
        // As Kafka's own clients choose.
        ("partitioner", "murmur2_random"),
    ] {
        own.options.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    let mut config = base(&own);
    config.set("acks", "all").set("enable.idempotence", "true").set("retry.backoff.ms", "2");
    let patience = TRANSACTION_TIMEOUT.as_millis().to_string();
    config.set("message.timeout.ms", &patience);
    if let Some(id) = transactional_id {
        config.set("transactional.id", id).set("transaction.timeout.ms", &patience);
    }
    config
}

/// Asks questions.
pub(crate) fn admin(options: &ClientOptions) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
    let mut own = options.clone();
    keep(&mut own, &PRODUCER_ONLY);
    keep(&mut own, &CONSUMER_ONLY);
    base(&own).create()
}

const CONSUMER_ONLY: [&str; 18] = [
    "group.id",
    "group.instance.id",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "auto.offset.reset",
    "queued.min.messages",
    "queued.max.messages.kbytes",
    "fetch.wait.max.ms",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "fetch.error.backoff.ms",
    "fetch.queue.backoff.ms",
    "check.crcs",
    "isolation.level",
    "client.rack",
];

const PRODUCER_ONLY: [&str; 10] = [
    "linger.ms",
    "batch.size",
    "batch.num.messages",
    "compression.codec",
    "compression.level",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "partitioner",
    "request.timeout.ms",
    "sticky.partitioning.linger.ms",
];

/// Options of a dead-letter place that are the producer's; the others are the topic's.
const PRODUCER_OPTIONS: [&str; 8] = [
    "linger.ms",
    "batch.size",
    "batch.num.messages",
    "compression.codec",
    "compression.level",
    "partitioner",
    "request.timeout.ms",
    "sticky.partitioning.linger.ms",
];

fn keep(options: &mut ClientOptions, without: &[&str]) {
    options.options.retain(|name, _| !without.contains(&aliases::name(name)));
}

/// Whether the same thing may work later. Everything that is not known to be for good may.
pub(crate) fn is_for_good(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTopic
            | Code::InvalidTimestamp
            | Code::InvalidArgument
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::PolicyViolation
            | Code::UnsupportedForMessageFormat
            | Code::UnsupportedCompressionType
    )
}

/// Whether a topic or a partition is not there.
pub(crate) fn is_missing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition)
}

/// An error as people may see it. The client library names a setting that it refuses with its value, which may be a secret.
pub(crate) fn shown(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, name, _) => {
            format!("the option `{name}` is none that Kafka's client knows")
        }
        KafkaError::ClientConfig(_, what, name, _) if what.contains("not supported in this build") => {
            format!("the option `{name}` is not supported in this build")
        }
        // What else the client says of it has the value in it.
        KafkaError::ClientConfig(_, _, name, _) => {
            format!("the option `{name}` does not take the value that it has")
        }
        other => other.to_string(),
    }
}

/// What a failed question means to the engine: asked again later, since nothing was changed by it.
pub(crate) fn away(doing: &str, error: &KafkaError) -> PortError {
    PortError::Unavailable(format!("{doing}: {}", shown(error)))
}

/// What a cluster says of itself.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// How many characters of commit metadata are ours: half of what a broker allows.
    pub(crate) metadata_room: usize,
    /// The topics that there are.
    pub(crate) topics: Vec<String>,
}

/// Asks a cluster what has to be known before it is read.
pub(crate) fn cluster(options: &ClientOptions) -> Result<Cluster, KafkaError> {
    let mut own = options.clone();
    keep(&mut own, &PRODUCER_ONLY);
    let probe: BaseConsumer = base(&own).create()?;
    let metadata = probe.fetch_metadata(None, ANSWER)?;
    let topics = metadata.topics().iter().map(|topic| topic.name().to_owned()).collect();
    let Some(broker) = metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id) else {
        return Ok(Cluster { metadata_room: METADATA_MAX / 2, topics });
    };
    let asked = ResourceSpecifier::Broker(broker);
    let answer = AdminOptions::new().request_timeout(Some(ANSWER));
    let admin = admin(options)?;
    let described = match block_on(admin.describe_configs([&asked], &answer)) {
        Ok(described) => described,
        // Not every service that speaks Kafka's protocol knows the question.
        Err(KafkaError::AdminOp(RDKafkaErrorCode::UnsupportedFeature)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let allowed = described.into_iter().flatten().find_map(|resource| {
        resource.get("offset.metadata.max.bytes")?.value.as_ref()?.parse::<usize>().ok()
    });
    Ok(Cluster { metadata_room: allowed.unwrap_or(METADATA_MAX) / 2, topics })
}

/// Waits for an answer on a thread that may wait.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waiting = tokio::runtime::Builder::new_current_thread().build();
    match waiting {
        Ok(runtime) => runtime.block_on(future),
        // A machine that cannot even make a runtime for one thread has no other way to go on either.
        Err(_) => tokio::runtime::Handle::current().block_on(future),
    }
}

/// Refuses what cannot be done: a transaction has one producer, so in one all copies are written with the same options.
pub(crate) fn refuse_two_producers(flow: &KafkaFlow) -> Result<(), Refusal> {
    let own = flow.dead_letter.options.keys().find(|name| is_producers(name));
    match own.filter(|_| flow.settle == SettleMode::Transactional) {
        Some(name) => Err(Refusal::Invalid(format!(
            "`{name}` among the options of dead letters needs a producer of its own, and a transaction has one for all copies: set it for the broker, or settle plainly (`settle: plain`)"
        ))),
        None => Ok(()),
    }
}

/// Whether an option of a dead-letter place is the producer's; the others are the topic's.
pub fn is_producers(name: &str) -> bool {
    // Topics have a setting of the name by which the client knows `compression.codec` too.
    name != "compression.type" && PRODUCER_OPTIONS.contains(&aliases::name(name))
}

/// The name of this instance's clients: what was given, and the instance.
pub(crate) fn client_id(flow: &KafkaFlow) -> String {
    let given = flow.client.options.get("client.id").map_or("redrive", String::as_str);
    format!("{given}-{}", flow.instance)
}

/// The text of a commit. The client library gives up on one that is not UTF-8; then nothing is known.
pub(crate) fn metadata<'a>(one: &'a TopicPartitionListElem<'_>) -> &'a str {
    let read = catch_unwind(AssertUnwindSafe(|| one.metadata()));
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests;
