//! Partitions that the client does not read: there is no record at their position, or they have none, and
//! `auto.offset.reset` says that it shall not choose another one. The client says so once, and not of which partition.

use rdkafka::consumer::Consumer as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{COMMITTED, Reader};
use crate::record::Spot;

/// The alarm.
pub(super) const CANNOT_READ: &str = "cannot_read";

impl Reader {
    /// Finds out which partitions are meant, and tells people, until they are taken away.
    pub(super) fn is_nowhere(&mut self) {
        let group = &self.with.member.group;
        let found: Vec<(u32, String)> = self
            .without_position()
            .into_iter()
            .map(|spot| (spot.stream, format!("{}/{}", spot.topic, spot.partition)))
            .collect();
        if found.is_empty() {
            // It cannot be asked for now: then the group is all that is known.
            self.with.alarms.raise(CANNOT_READ, group, not_read(group, "a partition"));
        }
        for (stream, place) in found {
            self.with.alarms.raise(CANNOT_READ, &place, not_read(group, &place));
            self.nowhere.insert(stream, place);
        }
    }

    /// Nobody reads them here any more.
    pub(super) fn is_somewhere_again(&mut self) {
        for place in std::mem::take(&mut self.nowhere).into_values() {
            self.with.alarms.clear(CANNOT_READ, &place);
        }
    }

    fn without_position(&self) -> Vec<Spot> {
        let mut list = TopicPartitionList::new();
        for spot in &self.spots {
            list.add_partition(&spot.topic, spot.partition);
        }
        let Ok(committed) = self.consumer.committed_offsets(list, COMMITTED) else { return Vec::new() };
        let reach = self.with.member.reach();
        let is_lost = |spot: &&Spot| {
            let read = reach.iter().find(|one| one.topic == spot.topic && one.partition == spot.partition);
            let at =
                match (read.map_or(0, |one| one.next), committed.find_partition(&spot.topic, spot.partition))
                {
                    (0, Some(one)) if !matches!(one.offset(), Offset::Offset(_)) => return true,
                    (next, _) => next,
                };
            let ends = self.consumer.fetch_watermarks(&spot.topic, spot.partition, COMMITTED);
            ends.is_ok_and(|(low, high)| at < low || at > high)
        };
        self.spots.iter().filter(is_lost).cloned().collect()
    }
}

fn not_read(group: &str, place: &str) -> String {
    format!(
        "`{group}` does not read {place}: it has no position there at which a record can be, and `auto.offset.reset` says \
         that none is to be chosen; stop it and set the position of the group (`kafka-consumer-groups.sh --reset-offsets`), \
         or let `auto.offset.reset` be `earliest` or `latest`"
    )
}
