//! What a member and its group agree on: which partitions come, from where they are read, and how they go.

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::nowhere::CANNOT_READ;
use super::{COMMITTED, Reader};
use crate::position::Position;
use crate::reader::roles;
use crate::reader::watch::{Change, Partitions, accept};
use crate::settle::commit;
use crate::{alone, client, metrics};

/// What is under way between this member and its group.
pub(super) enum Underway {
    Assigning { partitions: Partitions },
    Draining { partitions: Partitions, streams: Vec<u32>, deadline: Instant },
}

impl Reader {
    pub(super) fn answer_group(&mut self) {
        loop {
            match self.underway.take() {
                None => {
                    let Some(change) = self.consumer.context().change() else { return };
                    metrics::rebalanced(&self.with.flow.flow);
                    self.begin(change);
                }
                Some(Underway::Assigning { partitions }) => {
                    if !self.assign(&partitions) {
                        self.underway = Some(Underway::Assigning { partitions });
                        return;
                    }
                }
                Some(Underway::Draining { partitions, streams, deadline }) => {
                    let late = Instant::now() >= deadline;
                    let drained = late || self.with.member.is_drained(&streams);
                    if !drained || !self.with.member.give_up(&streams) {
                        self.underway = Some(Underway::Draining { partitions, streams, deadline });
                        return;
                    }
                    self.unassign(&partitions);
                }
            }
        }
    }

    fn begin(&mut self, change: Change) {
        self.underway = Some(match change {
            Change::Assigned(partitions) => Underway::Assigning { partitions },
            Change::Revoked { partitions, lost } => {
                let streams: Vec<u32> = self
                    .spots
                    .iter()
                    .filter(|spot| {
                        partitions.iter().any(|one| one.1 == spot.partition && *one.0 == *spot.topic)
                    })
                    .map(|spot| spot.stream)
                    .collect();
                tracing::info!(
                    group = self.with.member.group,
                    partitions = partitions.len(),
                    lost,
                    "partitions go"
                );
                self.with.member.drain(&streams);
                for stream in &streams {
                    self.waiting.remove_stream(*stream);
                }
                let patience = if lost { Duration::ZERO } else { self.with.flow.drain };
                Underway::Draining { partitions, streams, deadline: Instant::now() + patience }
            }
        });
    }

    fn unassign(&mut self, partitions: &Partitions) {
        let gone: Vec<u32> = self
            .spots
            .extract_if(.., |spot| {
                partitions.iter().any(|one| one.1 == spot.partition && *one.0 == *spot.topic)
            })
            .map(|spot| spot.stream)
            .collect();
        for stream in gone {
            self.forget(stream);
        }
        self.consumer.context().forget(partitions);
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            // Somebody else tells it from now on.
            metrics::lag(&self.with.flow.flow, topic, *partition, 0);
            list.add_partition(topic, *partition);
        }
        accept(&self.consumer, &list, false);
    }

    /// Whether it is settled which role reads what of these delay topics. People hear of it when it is not.
    fn is_settled(&self, partitions: &Partitions) -> bool {
        let about = &self.with.member.group;
        let over = |name: &str| matches!(name, "delay_missing" | "delay_left");
        match roles::settle(&self.with.look, partitions) {
            Ok(roles::Change::Settled) => {
                self.with.alarms.clear_all(|name, other| over(name) && other == about);
                true
            }
            Ok(roles::Change::From(positions)) => match commit(&self.consumer, &positions) {
                Ok(()) => true,
                Err(error) => {
                    tracing::debug!(group = about, %error, "positions are not passed on yet");
                    false
                }
            },
            // Polling goes on meanwhile, and this is asked again.
            Ok(roles::Change::Wait(name, why)) => {
                self.with.alarms.raise(name, about, why);
                false
            }
            Err(error) => {
                self.is_lost_for_now(&error.to_string());
                false
            }
        }
    }

    /// Partitions came, and nobody says from where they are to be read. It is asked again and again.
    fn is_lost_for_now(&self, error: &str) {
        let group = &self.with.member.group;
        let why =
            format!("`{group}` does not say where to go on; its partitions are not read until then: {error}");
        self.with.alarms.raise("positions_unknown", group, why);
    }

    /// Whether no other instance is in the group, for a flow that needs that. People hear of it when one is.
    fn is_alone(&self) -> bool {
        let group = &self.with.member.group;
        match alone::in_group(&self.consumer, &self.with.flow, group, COMMITTED) {
            Ok(others) if others.is_empty() => {
                self.with.alarms.clear("not_alone", group);
                true
            }
            Ok(others) => {
                let why = format!("{}; nothing is read until then", alone::not_alone(group, &others));
                self.with.alarms.raise("not_alone", group, why);
                false
            }
            Err(error) => {
                tracing::debug!(group, %error, "the group does not say who is in it");
                false
            }
        }
    }

    /// Nothing of an earlier assignment counts any more.
    fn forget(&mut self, stream: u32) {
        self.paused.remove(&stream);
        self.full.remove(&stream);
        self.ahead.remove(&stream);
        self.anew.remove(&stream);
        if let Some(place) = self.nowhere.remove(&stream) {
            self.with.alarms.clear(CANNOT_READ, &place);
        }
        self.waiting.remove_stream(stream);
    }

    /// Takes partitions over from where they were left. No while the group does not say where that is.
    fn assign(&mut self, partitions: &Partitions) -> bool {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let kept_from = !partitions.is_empty()
            && ((self.with.flow.alone && !self.is_alone())
                || (self.with.member.waits && !self.is_settled(partitions)));
        if kept_from {
            let taken_away = self.consumer.context().takes_next();
            if taken_away {
                accept(&self.consumer, &list, true);
            }
            return taken_away;
        }
        let asked = if partitions.is_empty() {
            Ok(list.clone())
        } else {
            self.consumer.committed_offsets(list.clone(), COMMITTED)
        };
        let committed = match asked {
            Ok(committed) if committed.elements().iter().all(|one| one.error().is_ok()) => committed,
            // They are taken away again before we know: nothing was read of them.
            _ if self.consumer.context().takes_next() => {
                accept(&self.consumer, &list, true);
                return true;
            }
            other => {
                self.is_lost_for_now(&format!("{other:?}"));
                return false;
            }
        };
        self.with.alarms.clear("positions_unknown", &self.with.member.group);
        tracing::info!(group = self.with.member.group, partitions = partitions.len(), "partitions come");
        let mut from = TopicPartitionList::new();
        for one in committed.elements() {
            let position = match one.offset() {
                Offset::Offset(offset) => Some(Position::read(offset, client::metadata(&one))),
                _ => None,
            };
            let start = position.as_ref().map_or(Offset::Invalid, |position| Offset::Offset(position.lowest));
            if let Err(error) = from.add_partition_offset(one.topic(), one.partition(), start) {
                tracing::warn!(%error, "an offset cannot be named");
                from.add_partition(one.topic(), one.partition());
            }
            let spot = self.with.member.open(one.topic(), one.partition(), position);
            self.forget(spot.stream);
            self.waiting.add_stream(spot.stream, self.with.copies.delays().least_in(&spot.topic));
            self.spots.push(spot);
        }
        accept(&self.consumer, &from, true);
        // A partition that was paused in an earlier assignment may still be.
        if !partitions.is_empty() {
            let resumed = if self.closed { self.consumer.pause(&from) } else { self.consumer.resume(&from) };
            if let Err(error) = resumed {
                tracing::debug!(%error, "cannot read on after an assignment");
            }
        }
        true
    }
}
