//! From one process that does all to several that each do a part, and back.
//!
//! Apart, the retry group leaves records of several hops to the delay group, and each has positions of its own. A change
//! from one way to the other has to pass the positions on, or records would be left to somebody who is not there, or be
//! moved a second time. So nobody begins to read a delay topic before that is settled:
//! - a delay group that begins takes over where the retry group is;
//! - a retry group whose delay group has not begun waits for it;
//! - one that does all waits until a delay group that was there has moved all that was left to it, and then ends it.

use std::sync::Arc;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::topic_partition_list::Offset;
use redrive_engine::port::PortError;

use super::watch::Partitions;
use crate::client;
use crate::look::{self, Look, Onlooker};
use crate::options::Role;
use crate::position::Position;

/// Whether a member may begin to read delay topics.
#[derive(Debug)]
pub(crate) enum Change {
    /// It may.
    Settled,
    /// It may once these positions are committed for its own group.
    From(Vec<(Arc<str>, i32, Position)>),
    /// Not yet, and why.
    Wait(&'static str, String),
}

/// Settles whose the records of these partitions are. Asked before they are read; blocks.
pub(crate) fn settle(look: &Look, partitions: &Partitions) -> Result<Change, PortError> {
    let (groups, role) = (&look.flow().groups, look.flow().role);
    let left_to = look.ask_here(&groups.delay, |consumer| committed(consumer, partitions))?;
    match role {
        Role::Main | Role::Ledger => Ok(Change::Settled),
        Role::Retry if left_to.iter().all(Option::is_some) => Ok(Change::Settled),
        Role::Retry => Ok(Change::Wait(
            "delay_missing",
            format!(
                "nobody moves records of several hops: start a member of `{}` with --role delay; nothing that waits is read until then",
                groups.delay
            ),
        )),
        Role::Delay if left_to.iter().all(Option::is_some) => Ok(Change::Settled),
        Role::Delay => {
            let retry = look.ask_here(&groups.retry, |consumer| committed(consumer, partitions))?;
            let mut from = Vec::new();
            for ((topic, partition), (found, retry)) in partitions.iter().zip(left_to.iter().zip(&retry)) {
                let position = match (found, retry) {
                    (Some(_), _) => continue,
                    (None, Some(position)) => position.clone(),
                    // The retry group has none either: both begin at the beginning.
                    (None, None) => {
                        let ends =
                            look.ask_here(&groups.delay, |consumer| look::ends(consumer, topic, *partition))?;
                        Position { lowest: ends.map_or(0, |(low, _)| low), beyond: Vec::new() }
                    }
                };
                from.push((topic.as_str().into(), *partition, position));
            }
            Ok(Change::From(from))
        }
        Role::All => {
            if left_to.iter().all(Option::is_none) {
                return Ok(Change::Settled);
            }
            let retry = look.ask_here(&groups.retry, |consumer| committed(consumer, partitions))?;
            let left =
                look.ask_here(&groups.delay, |consumer| left(consumer, partitions, &left_to, &retry))?;
            if left > 0 {
                return Ok(Change::Wait(
                    "delay_left",
                    format!(
                        "{left} offsets were left to `{}`: run a member with --role delay until it has moved them; nothing that waits is read until then",
                        groups.delay
                    ),
                ));
            }
            match look.ask_here(&groups.delay, |consumer| end(consumer, partitions, &left_to)) {
                Ok(()) => Ok(Change::Settled),
                Err(error) => Ok(Change::Wait(
                    "delay_left",
                    format!("`{}` cannot be ended while it has members: {error}", groups.delay),
                )),
            }
        }
    }
}

/// How far a group is in these partitions; nothing where it has not begun, or was ended.
fn committed(consumer: &Onlooker, partitions: &Partitions) -> Result<Vec<Option<Position>>, PortError> {
    let partitions: Vec<_> =
        partitions.iter().map(|(topic, partition)| (topic.as_str(), *partition)).collect();
    look::committed_of(consumer, &partitions)
}

/// Says of a group that nobody is in that it was ended.
fn end(consumer: &Onlooker, partitions: &Partitions, found: &[Option<Position>]) -> Result<(), PortError> {
    let mut all = TopicPartitionList::new();
    let doing = "cannot end a group";
    for ((topic, partition), found) in partitions.iter().zip(found) {
        let Some(position) = found else { continue };
        let mut one = all.add_partition(topic, *partition);
        one.set_offset(Offset::Offset(position.lowest)).map_err(|error| client::away(doing, &error))?;
        one.set_metadata(look::ENDED);
    }
    consumer.commit(&all, CommitMode::Sync).map_err(|error| client::away(doing, &error))
}

/// How many offsets that the retry group has released the delay group has not passed.
fn left(
    consumer: &Onlooker,
    partitions: &Partitions,
    delay: &[Option<Position>],
    retry: &[Option<Position>],
) -> Result<u64, PortError> {
    let mut left = 0;
    for (place, (topic, partition)) in partitions.iter().enumerate() {
        let (Some(Some(delay)), Some(Some(retry))) = (delay.get(place), retry.get(place)) else {
            continue;
        };
        let Some((low, _)) = look::ends(consumer, topic, *partition)? else { continue };
        left += retry.ahead_of(delay, low);
    }
    Ok(left)
}
