//! Commits of a member's positions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use redrive_core::headers::MAX_TOPIC;
use redrive_engine::port::Refusal;

use super::entry::Entry;
use super::reports::{Place, Report};
use crate::client;
use crate::position::Position;
use crate::reader::Watch;
use crate::record;

/// How often a commit is tried while its group is changing.
pub(super) const TRIES: u32 = 20;
/// The pause between them.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// What a commit says.
pub(super) fn list(positions: &[(Arc<str>, i32, Position)]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for (topic, partition, position) in positions {
        let mut one = list.add_partition(topic, *partition);
        one.set_offset(Offset::Offset(position.lowest))?;
        let metadata = position.metadata();
        if !metadata.is_empty() {
            one.set_metadata(metadata);
        }
    }
    Ok(list)
}

/// Whether the group is only changing, so that the same commit is taken in a moment.
pub(super) fn is_changing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::IllegalGeneration
            | Code::RebalanceInProgress
            | Code::UnknownMemberId
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::WaitingForCoordinator
            | Code::UnstableOffsetCommit
            | Code::ConcurrentTransactions
            | Code::StaleMemberEpoch
    )
}

/// Whether a group does not take the position of one partition, so that the others can be committed without it.
pub(super) fn is_of_position(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    client::is_missing(code) || matches!(code, Code::OffsetMetadataTooLarge | Code::TopicAuthorizationFailed)
}

/// The places of a group, by the partition that they were read from.
pub(super) fn by_stream(group: &[usize], entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for place in group {
        parts.entry(entries[*place].tag.stream).or_default().push(*place);
    }
    parts.into_values().collect()
}

/// Commits without a transaction. Where some of several positions are taken and others are not, that is an error too.
pub(crate) fn commit(
    consumer: &BaseConsumer<Watch>,
    positions: &[(Arc<str>, i32, Position)],
) -> Result<(), KafkaError> {
    let list = list(positions)?;
    let mut tries = 0;
    loop {
        match consumer.commit(&list, CommitMode::Sync) {
            Ok(()) => return Ok(()),
            Err(error) => {
                tries += 1;
                let changing = error.rdkafka_error_code().is_some_and(is_changing);
                if !changing || tries >= TRIES || consumer.assignment_lost() {
                    return Err(error);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Whether exactly this is committed.
pub(super) fn is_committed(
    consumer: &BaseConsumer<Watch>,
    positions: &[(Arc<str>, i32, Position)],
) -> Result<bool, KafkaError> {
    let found = consumer.committed_offsets(list(positions)?, client::ANSWER)?;
    // An answer that lacks a partition says nothing about it.
    for one in found.elements() {
        one.error()?;
    }
    Ok(positions.iter().all(|(topic, partition, position)| {
        found.find_partition(topic, *partition).is_some_and(|one| {
            one.offset() == Offset::Offset(position.lowest) && client::metadata(&one) == position.metadata()
        })
    }))
}

/// What a topic's refusal of a copy means to people.
pub(crate) fn refusal(topic: &str, error: &KafkaError) -> Refusal {
    debug_assert!(topic.len() <= MAX_TOPIC * 4);
    match error.rdkafka_error_code() {
        Some(code) if client::is_missing(code) => {
            Refusal::NotFound { what: "topic or partition", name: topic.to_owned() }
        }
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::MessageBatchTooLarge) => {
            Refusal::Limit(format!(
                "the topic `{topic}` does not take a record of this size; raise its `max.message.bytes`"
            ))
        }
        _ => Refusal::State(format!("the topic `{topic}` does not take the record: {error}")),
    }
}

/// The first failure among an entry's reports, with its topic.
pub(super) fn failure<'a>(entry: &'a Entry, reports: &'a [Report]) -> Option<(&'a str, &'a KafkaError)> {
    let mut pairs = entry.copies.iter().zip(reports);
    pairs.find_map(|(copy, report)| report.as_ref().err().map(|error| (&*copy.topic, error)))
}

/// Where an entry's copy lies.
pub(super) fn place(entry: &Entry, places: &[Place]) -> Option<redrive_engine::port::SourceRef> {
    let (copy, place) = (entry.copies.first()?, places.first()?);
    Some(record::place(&copy.topic, place.partition, place.offset))
}
