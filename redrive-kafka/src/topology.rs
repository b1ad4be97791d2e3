//! The topics of a flow: what has to be there, what is missing, and what is not as it should be.
//!
//! Topics that are missing are made; what exists is never altered or deleted. What of it differs is said by name, with
//! what follows from it. A topic in which messages would be lost is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use redrive_core::duration::print as show_duration;
use redrive_engine::port::{PortError, Refusal, Topology};

use crate::client::{self, ANSWER};
use crate::delay::{Delays, names};
use crate::facts::{TopicFact, TopicFacts};
use crate::look::{self, Look, Shape};
use crate::{DeadLetterFormat, DelayMode, KafkaFlow};

/// What our headers add to a message at most.
const HEADERS: u64 = 32 << 10;
/// What is kept beyond what is needed, so that a reader that was away a while finds its records.
const MARGIN: Duration = Duration::from_secs(7 * 86_400);
/// How long a new topic may take to be known everywhere.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a topic that somebody else has just made may take to be known everywhere.
const SPREAD: Duration = Duration::from_secs(3);

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Read by the flow; somebody else's.
    Source,
    /// A dead-letter topic of another system.
    Foreign,
    /// Messages wait in it for at most so long.
    Delay(Duration),
    /// Dead letters, parked messages.
    Shelf,
    /// What people resolved.
    Resolved,
}

/// A topic of the flow, as it is.
#[derive(Debug, Clone)]
struct Found {
    shape: Shape,
    config: BTreeMap<String, String>,
}

impl Found {
    fn number(&self, name: &str) -> Option<i64> {
        self.config.get(name)?.parse().ok()
    }

    fn max_bytes(&self) -> Option<usize> {
        self.number("max.message.bytes").and_then(|bytes| usize::try_from(bytes).ok())
    }

    /// How long it keeps records; nothing is for ever.
    fn retention(&self) -> Option<Duration> {
        let millis = u64::try_from(self.number("retention.ms")?).ok()?;
        Some(Duration::from_millis(millis))
    }

    fn kept(&self) -> Kept {
        let by_size = self.number("retention.bytes").is_none_or(|bytes| bytes >= 0);
        match (self.number("retention.ms"), self.retention()) {
            _ if by_size || self.compacts() => Kept::Unknown,
            (Some(_), Some(time)) => Kept::For(time),
            (Some(_), None) => Kept::Always,
            (None, _) => Kept::Unknown,
        }
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.config.get(name).is_some_and(|found| found == value)
    }

    fn compacts(&self) -> bool {
        self.config.get("cleanup.policy").is_some_and(|policy| policy.contains("compact"))
    }
}

/// What the source asks of the other topics.
#[derive(Debug, Clone, Copy)]
struct Like {
    partitions: i32,
    replication: i32,
    max_bytes: u64,
}

fn purposes(flow: &KafkaFlow) -> Vec<(String, Purpose)> {
    let mut all: Vec<(String, Purpose)> =
        flow.topics.iter().map(|topic| (topic.clone(), Purpose::Source)).collect();
    if names::waits_in_topics(flow) {
        let delays = Delays::new(flow);
        for (topic, _) in delays.topics() {
            let longest = delays.longest_in(&topic);
            let longest = if flow.delay == DelayMode::Single { flow.longest_delay } else { longest };
            all.push((topic.to_string(), Purpose::Delay(longest)));
        }
    }
    all.push((flow.dead_letter.topic.clone(), Purpose::Shelf));
    let parking = names::parking(flow);
    if parking != flow.dead_letter.topic {
        all.push((parking.to_owned(), Purpose::Shelf));
    }
    all.push((names::resolved(flow), Purpose::Resolved));
    all.extend(flow.foreign.iter().map(|topic| (topic.clone(), Purpose::Foreign)));
    all
}

/// What the flow needs, and what of it is missing or differs. Changes nothing; remembers partitions and sizes.
pub(crate) async fn plan(look: &Arc<Look>, facts: &TopicFacts) -> Result<Vec<Topology>, PortError> {
    let flow = look.flow();
    let purposes = purposes(flow);
    let names: Vec<String> = purposes.iter().map(|(topic, _)| topic.clone()).collect();
    let found = find_sources(look, &purposes, &names).await?;
    for (topic, found) in names.iter().zip(&found) {
        match found {
            Some(found) => facts.set(topic, fact(found)),
            None => facts.forget(topic),
        }
    }
    let sources = || purposes.iter().zip(&found).filter(|((_, purpose), _)| *purpose == Purpose::Source);
    let sources = || sources().filter_map(|(_, found)| found.as_ref());
    let like = Like {
        partitions: sources().map(|found| found.shape.partitions).max().unwrap_or(1),
        replication: sources().map(|found| found.shape.replication).min().unwrap_or(1),
        max_bytes: sources().filter_map(Found::max_bytes).max().unwrap_or(1 << 20) as u64,
    };
    let planned = purposes.iter().zip(&found).map(|((topic, purpose), found)| {
        let settings = wanted(flow, topic, *purpose, like);
        let drift = found.as_ref().map(|found| drift(flow, *purpose, like, found)).unwrap_or_default();
        Topology { settings, drift, ..Topology::new(KIND, topic, found.is_some()) }
    });
    Ok(planned.collect())
}

fn fact(found: &Found) -> TopicFact {
    TopicFact { partitions: found.shape.partitions, max_bytes: found.max_bytes() }
}

/// What the topics are. A source that is not there may have been made a moment ago: it is asked for again a few times.
async fn find_sources(
    look: &Arc<Look>,
    purposes: &[(String, Purpose)],
    names: &[String],
) -> Result<Vec<Option<Found>>, PortError> {
    let deadline = Instant::now() + SPREAD;
    loop {
        let found = find(look, names).await?;
        let mut sources = purposes.iter().zip(&found).filter(|((_, purpose), _)| *purpose == Purpose::Source);
        if sources.all(|(_, found)| found.is_some()) || Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How long a topic keeps a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// For ever.
    Always,
    /// For so long.
    For(Duration),
    /// Nobody can say: it goes by size, is compacted, or its settings cannot be read.
    Unknown,
}

/// How long these topics keep a record, with how many partitions they have; nothing for one that is not there.
pub(crate) async fn kept(look: &Arc<Look>, topics: &[String]) -> Result<Vec<Option<(i32, Kept)>>, PortError> {
    let found = find(look, topics).await?;
    Ok(found.into_iter().map(|found| found.map(|found| (found.shape.partitions, found.kept()))).collect())
}

/// What the topics are; nothing for one that is not there. What nobody may read of a topic's settings is not known.
async fn find(look: &Arc<Look>, topics: &[String]) -> Result<Vec<Option<Found>>, PortError> {
    let asked = topics.to_vec();
    let shapes = look
        .ask(move |consumer| {
            asked.iter().map(|topic| look::shape(consumer, topic)).collect::<Result<Vec<_>, _>>()
        })
        .await?;
    let there: Vec<&String> =
        topics.iter().zip(&shapes).filter(|(_, shape)| shape.is_some()).map(|(topic, _)| topic).collect();
    let mut configs = BTreeMap::new();
    if !there.is_empty() {
        let admin = client::admin(&look.flow().client)
            .map_err(|error| client::away("cannot ask for the settings of topics", &error))?;
        let specifiers: Vec<ResourceSpecifier<'_>> =
            there.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
        let options = AdminOptions::new().request_timeout(Some(ANSWER));
        let described = admin
            .describe_configs(&specifiers, &options)
            .await
            .map_err(|error| client::away("cannot read the settings of topics", &error))?;
        for (topic, resource) in there.iter().zip(described) {
            match resource {
                Ok(resource) => {
                    configs.insert((*topic).clone(), entries(resource));
                }
                Err(code) => {
                    tracing::warn!(topic = %topic, error = %code, "the settings of a topic cannot be read");
                }
            }
        }
        // Ending a client waits for its threads.
        tokio::task::spawn_blocking(move || drop(admin));
    }
    let found = topics.iter().zip(shapes).map(|(topic, shape)| {
        shape.map(|shape| Found { shape, config: configs.remove(topic).unwrap_or_default() })
    });
    Ok(found.collect())
}

fn entries(resource: ConfigResource) -> BTreeMap<String, String> {
    resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect()
}

/// How a topic is made, or should have been.
fn wanted(flow: &KafkaFlow, topic: &str, purpose: Purpose, like: Like) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
    if matches!(purpose, Purpose::Source | Purpose::Foreign) {
        return settings;
    }
    let partitions = if purpose == Purpose::Resolved { 1 } else { like.partitions };
    set("partitions", partitions.to_string());
    set("replication", flow.new_topics.replication.unwrap_or(like.replication).to_string());
    match purpose {
        Purpose::Delay(longest) => {
            set("cleanup.policy", "delete".to_owned());
            set("retention.ms", (longest.saturating_mul(2) + MARGIN).as_millis().to_string());
            set("max.message.bytes", (like.max_bytes + HEADERS).to_string());
            set("message.timestamp.type", "LogAppendTime".to_owned());
        }
        Purpose::Shelf => {
            set("cleanup.policy", "delete".to_owned());
            let kept = flow.new_topics.keeps.map(|keeps| (keeps + MARGIN).as_millis().to_string());
            set("retention.ms", kept.unwrap_or_else(|| "-1".to_owned()));
            set("max.message.bytes", shelf_bytes(flow, like).to_string());
        }
        Purpose::Resolved => {
            set("cleanup.policy", "compact".to_owned());
        }
        Purpose::Source | Purpose::Foreign => {}
    }
    if purpose == Purpose::Shelf && topic == flow.dead_letter.topic {
        let own = flow.dead_letter.options.iter().filter(|(name, _)| !client::is_producers(name));
        settings.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    }
    settings
}

/// The largest dead letter: an envelope has the body in base64, and the headers twice.
fn shelf_bytes(flow: &KafkaFlow, like: Like) -> u64 {
    match flow.dead_letter.format {
        DeadLetterFormat::Raw => like.max_bytes + HEADERS,
        DeadLetterFormat::Envelope => like.max_bytes.saturating_mul(3) + 2 * HEADERS,
    }
}

/// What of a topic is not as it should be, and what follows from it.
fn drift(flow: &KafkaFlow, purpose: Purpose, like: Like, found: &Found) -> Vec<String> {
    let mut drift = Vec::new();
    let copies = flow.new_topics.replication.unwrap_or(like.replication);
    if !matches!(purpose, Purpose::Source | Purpose::Foreign) && found.shape.replication < copies {
        drift.push(format!(
            "replication is {} and should be {copies}: fewer brokers have to be lost until what lies there is",
            found.shape.replication
        ));
    }
    match purpose {
        Purpose::Source => {
            if flow.delay == DelayMode::Pointer
                && let Some(kept) = found.retention()
                && kept <= flow.longest_delay
            {
                drift.push(format!(
                    "retention.ms keeps a message for {} and it may wait for {}: its body is gone by then, so do not use the delay mode `pointer`, or keep it longer",
                    show_duration(kept),
                    show_duration(flow.longest_delay)
                ));
            }
            return drift;
        }
        Purpose::Foreign => return drift,
        Purpose::Resolved => {
            if !found.compacts() {
                drift.push(
                    "cleanup.policy is not `compact`: what people resolved is forgotten with its retention, and a rebuild of the ledger shows it again".to_owned(),
                );
            }
            return drift;
        }
        Purpose::Delay(_) | Purpose::Shelf => {}
    }
    if found.compacts() {
        drift.push(format!("{COMPACTS}: a later message of the same key deletes an earlier one"));
    }
    if found.shape.partitions < like.partitions {
        drift.push(format!(
            "partitions is {} and the source has {}: messages of partition {} and above go to another one by their key, and their order to those of other partitions is lost",
            found.shape.partitions, like.partitions, found.shape.partitions
        ));
    }
    let most = found.max_bytes().map(|bytes| bytes as u64);
    if let Some(most) = most.filter(|most| *most < like.max_bytes) {
        drift.push(format!(
            "max.message.bytes is {most} and the source takes {}: a larger message cannot be copied, and its partition stands still at it",
            like.max_bytes
        ));
    }
    let needed = match purpose {
        Purpose::Delay(longest) => Some(longest),
        _ => flow.new_topics.keeps,
    };
    match (found.retention(), needed, purpose) {
        (Some(kept), Some(longest), Purpose::Delay(_)) if kept <= longest => drift.push(format!(
            "{RETENTION}: it keeps a message for {} and it waits here for up to {}: it would be deleted while it waits",
            show_duration(kept),
            show_duration(longest)
        )),
        (Some(kept), Some(ledger), _) if kept < ledger => drift.push(format!(
            "retention.ms keeps a message for {} and the ledger shows it for {}: by then the data file alone has its body, and a rebuild does not find it",
            show_duration(kept),
            show_duration(ledger)
        )),
        (Some(kept), None, _) => drift.push(format!(
            "retention.ms keeps a message for {} and the ledger shows it for ever: by then the data file alone has its body, and a rebuild does not find it",
            show_duration(kept)
        )),
        _ => {}
    }
    if let Some(bytes) = found.number("retention.bytes").filter(|bytes| *bytes >= 0) {
        drift.push(format!(
            "retention.bytes is {bytes}: what lies there is deleted when it is more, read or not"
        ));
    }
    if matches!(purpose, Purpose::Delay(_))
        && found.config.contains_key("message.timestamp.type")
        && !found.is("message.timestamp.type", "LogAppendTime")
    {
        drift.push(
            "message.timestamp.type is not `LogAppendTime`: waits are measured by the clock of whoever wrote the copy".to_owned(),
        );
    }
    drift
}

/// What a topic is called in a plan.
const KIND: &str = "topic";
const COMPACTS: &str = "cleanup.policy compacts";
const RETENTION: &str = "retention.ms is too short";

/// Refuses topics that are there and in which messages would be lost: a compacted one, and one that forgets a message before
/// it is due. Whoever starts a flow asks this, whether something has to be made or not.
pub fn refuse_losing(topology: &[Topology]) -> Result<(), Refusal> {
    let loses = |why: &&String| why.starts_with(COMPACTS) || why.starts_with(RETENTION);
    let mut topics = topology.iter().filter(|thing| thing.kind == KIND);
    let found = topics.find_map(|topic| Some((topic, topic.drift.iter().find(loses)?)));
    match found {
        Some((topic, why)) => Err(Refusal::State(format!(
            "the topic `{}` would lose messages: {why}; change that setting, or name another topic",
            topic.name
        ))),
        None => Ok(()),
    }
}

/// Makes what is missing. Refused when a source is not there, or when messages would be lost in what is there.
pub(crate) async fn apply(
    look: &Arc<Look>,
    facts: &TopicFacts,
    topology: &[Topology],
) -> Result<(), PortError> {
    let flow = look.flow();
    refuse_losing(topology)?;
    let missing: Vec<&Topology> = topology.iter().filter(|topic| !topic.exists).collect();
    let not_ours = |topic: &str| flow.topics.iter().chain(&flow.foreign).any(|own| own == topic);
    if let Some(topic) = missing.iter().find(|topic| not_ours(&topic.name)) {
        return Err(Refusal::NotFound { what: "the topic", name: topic.name.clone() }.into());
    }
    if missing.is_empty() {
        return Ok(());
    }
    create(look, &missing).await?;
    let made: Vec<String> = missing.iter().map(|topic| topic.name.clone()).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = find(look, &made).await?;
        for (topic, found) in made.iter().zip(&found) {
            if let Some(found) = found {
                facts.set(topic, fact(found));
            }
        }
        let Some(unknown) = found.iter().position(Option::is_none) else { return Ok(()) };
        if Instant::now() >= deadline {
            let text = format!("the topic `{}` was made and is not known everywhere yet", made[unknown]);
            return Err(PortError::Unavailable(text));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn create(look: &Arc<Look>, missing: &[&Topology]) -> Result<(), PortError> {
    let away = |error| client::away("cannot make the topics of the flow", &error);
    let admin = client::admin(&look.flow().client).map_err(away)?;
    let new: Vec<NewTopic<'_>> = missing
        .iter()
        .map(|topic| {
            let number =
                |name: &str| topic.settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(1);
            let replication = TopicReplication::Fixed(number("replication"));
            let new = NewTopic::new(&topic.name, number("partitions"), replication);
            let settings = topic.settings.iter().filter(|(name, _)| name.contains('.'));
            settings.fold(new, |new, (name, value)| new.set(name, value))
        })
        .collect();
    let options = AdminOptions::new().operation_timeout(Some(ANSWER)).request_timeout(Some(PATIENCE));
    let made = admin.create_topics(&new, &options).await.map_err(away)?;
    tokio::task::spawn_blocking(move || drop(admin));
    for made in made {
        match made {
            Ok(topic) => {
                tracing::info!(topic, "made a topic");
            }
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) if client::is_for_good(code) => {
                return Err(Refusal::State(format!("the topic `{topic}` cannot be made: {code}")).into());
            }
            Err((topic, code)) => {
                return Err(PortError::Unavailable(format!("the topic `{topic}` cannot be made: {code}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
