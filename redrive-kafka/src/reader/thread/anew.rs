//! A partition whose topic was deleted and made anew. What is in hand of the old one is nobody's any more, and the new one
//! is read from its beginning.
//!
//! From the record that showed it until its beginning is found the partition is not open: whatever is read of it meanwhile is
//! dropped, so that nothing of it is handed out, and no position behind what was left out is ever committed.

use std::time::Instant;

use rdkafka::consumer::Consumer as _;
use rdkafka::topic_partition_list::Offset;

use super::group::Underway;
use super::{COMMITTED, POLL, Reader};

impl Reader {
    /// A partition went back to offsets that were read before.
    pub(super) fn begin_anew(&mut self, stream: u32) {
        let Some(spot) = self.spots.iter().find(|spot| spot.stream == stream) else { return };
        tracing::warn!(topic = %spot.topic, partition = spot.partition, "a topic was made anew; it is read from its beginning");
        self.with.member.drain(&[stream]);
        self.waiting.remove_stream(stream);
        self.anew.insert(stream);
    }

    /// Goes to the beginning of partitions that begin anew, and opens those that are there. The others are asked for again,
    /// until they are there or taken away.
    pub(super) fn go_to_beginnings(&mut self) {
        let is_early = self.sought.is_some_and(|at| at.elapsed() < POLL);
        if self.anew.is_empty() || is_early || self.with.member.is_closed() {
            return;
        }
        self.sought = None;
        for stream in self.anew.clone() {
            // What the settler has of the old one is ended first.
            if self.is_going(stream) || !self.with.member.give_up(&[stream]) {
                continue;
            }
            let Some(place) = self.spots.iter().position(|spot| spot.stream == stream) else { continue };
            let old = self.spots[place].clone();
            // What lies before the record that showed it would be left out otherwise.
            if let Err(error) = self.consumer.seek(&old.topic, old.partition, Offset::Beginning, COMMITTED) {
                tracing::warn!(%error, topic = %old.topic, partition = old.partition, "cannot go to the beginning");
                self.sought = Some(Instant::now());
                continue;
            }
            self.spots[place] = self.with.member.open(&old.topic, old.partition, None);
            self.waiting.add_stream(stream, self.with.copies.delays().least_in(&old.topic));
            self.anew.remove(&stream);
        }
    }

    /// Whether it is being given up: then it is not ours to begin again.
    fn is_going(&self, stream: u32) -> bool {
        matches!(&self.underway, Some(Underway::Draining { streams, .. }) if streams.contains(&stream))
    }
}

#[cfg(test)]
mod tests;
