//! What of a channel is open: read and not answered.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use redrive_engine::port::{Delivery, EntryId, Room};

/// What a delivery counts in a buffer beside its bytes.
const OVERHEAD: usize = 300;

/// The open deliveries of one channel, by their tags.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// All that were read and that the broker waits for an answer to.
    open: BTreeSet<u64>,
    /// All tags up to this one were read: a channel numbers its deliveries from 1, without a hole.
    read: u64,
    /// Those that were read beyond it. The consumers of a channel share its tags, and what came for one of them may be read
    /// later than what came for another after it.
    ahead: BTreeSet<u64>,
    /// Of these, what may be handed out.
    ready: BTreeMap<u64, Here>,
    /// Of these, what the flow has or what is being moved on, and whether it had waited.
    out: BTreeMap<u64, bool>,
    /// Of these, which are copies, and of which entries.
    copies: BTreeMap<u64, EntryId>,
    /// Of a stream: the offsets of those that are open, and the one after all that were read.
    offsets: BTreeMap<u64, i64>,
    next: Option<i64>,
}

#[derive(Debug)]
struct Here {
    delivery: Delivery,
    waited: bool,
}

/// One frame that answers deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The tag.
    pub(crate) tag: u64,
    /// Whether it answers all open ones before it, too.
    pub(crate) multiple: bool,
}

impl Book {
    /// One was read, and is not to be handed out yet.
    pub(crate) fn opened(&mut self, tag: u64) {
        self.open.insert(tag);
        if tag != self.read + 1 {
            self.ahead.insert(tag);
            return;
        }
        self.read = tag;
        while self.ahead.first() == Some(&(self.read + 1)) {
            self.ahead.pop_first();
            self.read += 1;
        }
    }

    /// One that was read is a copy that has waited.
    pub(crate) fn is_copy_of(&mut self, tag: u64, entry: EntryId) {
        self.copies.insert(tag, entry);
    }

    /// The entries whose copies are open.
    pub(crate) fn entries(&self) -> HashSet<EntryId> {
        self.copies.values().copied().collect()
    }

    /// One was read at this offset of a stream.
    pub(crate) fn opened_at(&mut self, tag: u64, offset: i64) {
        self.offsets.insert(tag, offset);
        self.next = self.next.max(offset.checked_add(1));
    }

    /// The offset from which a stream is to be read when these are done: the lowest of the others that are open, or the one
    /// after all. Nothing where no stream is read.
    pub(crate) fn position_without(&self, tags: &[u64]) -> Option<i64> {
        let done: BTreeSet<u64> = tags.iter().copied().collect();
        let open = self.offsets.iter().filter(|(tag, _)| !done.contains(tag)).map(|(_, offset)| *offset);
        open.min().or(self.next)
    }

    /// One is being moved on.
    pub(crate) fn moves(&mut self, tag: u64) {
        if self.open.contains(&tag) {
            self.out.insert(tag, true);
        }
    }

    /// One comes back from the flow, to be handed out again.
    pub(crate) fn comes_back(&mut self, delivery: Delivery) {
        let waited = self.out.get(&delivery.tag.number).copied().unwrap_or(false);
        self.is_ready(delivery, waited);
    }

    /// One may be handed out.
    pub(crate) fn is_ready(&mut self, delivery: Delivery, waited: bool) {
        let tag = delivery.tag.number;
        if self.open.contains(&tag) {
            self.out.remove(&tag);
            self.ready.insert(tag, Here { delivery, waited });
        }
    }

    /// Hands out what there is room for, the oldest first.
    pub(crate) fn hand_out(&mut self, room: Room, into: &mut Vec<Delivery>) {
        let (mut messages, mut bytes, mut retries) = (room.messages, room.bytes, room.retries);
        let mut taken = Vec::new();
        for (tag, here) in &self.ready {
            if messages == 0 {
                break;
            }
            if here.waited && retries == 0 {
                continue;
            }
            let size = size(&here.delivery);
            // One that is larger than all the room goes alone.
            if size > bytes && !(taken.is_empty() && into.is_empty()) {
                break;
            }
            bytes = bytes.saturating_sub(size);
            messages -= 1;
            retries -= usize::from(here.waited);
            taken.push(*tag);
        }
        for tag in taken {
            if let Some(here) = self.ready.remove(&tag) {
                self.out.insert(tag, here.waited);
                into.push(here.delivery);
            }
        }
    }

    /// Whether it is open.
    pub(crate) fn has(&self, tag: u64) -> bool {
        self.open.contains(&tag)
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether the flow has none of them, and none is being moved.
    pub(crate) fn none_out(&self) -> bool {
        self.out.is_empty()
    }

    /// These are done: the frames that say so, which have to be sent in this order before any later ones.
    pub(crate) fn finish(&mut self, tags: &[u64]) -> Vec<Answer> {
        let mut done: Vec<u64> = tags.iter().copied().filter(|tag| self.close(*tag)).collect();
        done.sort_unstable();
        // One frame for all answers for what nobody has read yet, too.
        let lowest = self.open.first().copied().unwrap_or(u64::MAX).min(self.read + 1);
        let together = done.partition_point(|tag| *tag < lowest);
        let mut answers = Vec::with_capacity(done.len() - together + 1);
        if let Some(tag) = done[..together].last() {
            answers.push(Answer { tag: *tag, multiple: together > 1 });
        }
        answers.extend(done[together..].iter().map(|tag| Answer { tag: *tag, multiple: false }));
        answers
    }

    /// One is answered on its own.
    pub(crate) fn close(&mut self, tag: u64) -> bool {
        self.ready.remove(&tag);
        self.out.remove(&tag);
        self.offsets.remove(&tag);
        self.copies.remove(&tag);
        self.open.remove(&tag)
    }
}

fn size(delivery: &Delivery) -> usize {
    OVERHEAD + delivery.message.body.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn book(tags: std::ops::RangeInclusive<u64>) -> Book {
        let mut book = Book::default();
        tags.for_each(|tag| book.opened(tag));
        book
    }

    #[test]
    fn a_whole_prefix_is_answered_by_one_frame() {
        let mut book = book(1..=6);
        assert_eq!(
            book.finish(&[2, 5]),
            [Answer { tag: 2, multiple: false }, Answer { tag: 5, multiple: false }]
        );
        assert_eq!(book.finish(&[3, 1, 4]), [Answer { tag: 4, multiple: true }]);
        assert_eq!(book.finish(&[4]), [], "it was answered");
        assert_eq!(book.finish(&[6]), [Answer { tag: 6, multiple: false }]);
    }

    #[test]
    fn a_stream_is_read_again_from_its_oldest_open_message() {
        let mut book = book(1..=4);
        assert_eq!(book.position_without(&[]), None, "it is no stream");
        for tag in 1..=3 {
            book.opened_at(tag, 10 + tag.cast_signed());
        }
        assert_eq!(book.position_without(&[2]), Some(11));
        book.finish(&[2]);
        assert_eq!(book.position_without(&[1]), Some(13));
        book.finish(&[1]);
        assert_eq!(book.position_without(&[3]), Some(14));
    }

    #[test]
    fn what_nobody_has_read_is_not_answered_with_the_others() {
        let mut book = Book::default();
        for tag in [1, 2, 4, 5] {
            book.opened(tag);
        }
        let alone = |tag| Answer { tag, multiple: false };
        assert_eq!(book.finish(&[1, 2, 4]), [Answer { tag: 2, multiple: true }, alone(4)]);
        assert_eq!(book.finish(&[5]), [alone(5)]);
        (6..=7).for_each(|tag| book.opened(tag));
        assert_eq!(book.finish(&[6]), [alone(6)]);
        book.opened(3);
        assert_eq!(book.finish(&[3, 7]), [Answer { tag: 7, multiple: true }]);
    }

    /// A step in the life of a channel.
    #[derive(Debug, Clone)]
    enum Step {
        Read(usize),
        Finish(Vec<usize>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0_usize..3).prop_map(Step::Read),
            1 => prop::collection::vec(0_usize..40, 0..10).prop_map(Step::Finish),
        ]
    }

    proptest! {
        /// Three consumers of one channel: whatever of them is read first, what is not finished is not answered.
        #[test]
        fn no_frame_answers_what_is_unread(
            of in prop::collection::vec(0_usize..3, 40),
            steps in prop::collection::vec(step(), 0..80),
        ) {
            let mut book = Book::default();
            let mut unread: [std::collections::VecDeque<u64>; 3] = Default::default();
            for (tag, consumer) in (1..).zip(of) {
                unread[consumer].push_back(tag);
            }
            let mut unacked: BTreeSet<u64> = (1..=40).collect();
            let (mut read, mut finished): (Vec<u64>, BTreeSet<u64>) = Default::default();
            for step in steps {
                match step {
                    Step::Read(consumer) => {
                        if let Some(tag) = unread[consumer].pop_front() {
                            book.opened(tag);
                            read.push(tag);
                        }
                    }
                    Step::Finish(places) => {
                        let tags: Vec<u64> = places.iter().filter_map(|place| read.get(*place).copied()).collect();
                        for Answer { tag, multiple } in book.finish(&tags) {
                            prop_assert!(unacked.contains(&tag), "{tag} is unknown");
                            unacked.retain(|open| *open != tag && (!multiple || *open > tag));
                        }
                        finished.extend(tags);
                        let expected: BTreeSet<u64> = (1..=40).filter(|tag| !finished.contains(tag)).collect();
                        prop_assert_eq!(&unacked, &expected);
                    }
                }
            }
        }

        /// The broker's side: a frame answers what is open there, and one that answers nothing ends the channel.
        #[test]
        fn every_frame_answers_what_is_finished_and_nothing_else(
            batches in prop::collection::vec(prop::collection::vec(1_u64..40, 0..10), 0..12),
        ) {
            let mut book = book(1..=39);
            let mut unacked: BTreeSet<u64> = (1..=39).collect();
            let mut finished: BTreeSet<u64> = BTreeSet::new();
            for batch in batches {
                for Answer { tag, multiple } in book.finish(&batch) {
                    prop_assert!(unacked.contains(&tag), "{tag} is unknown");
                    unacked.retain(|open| *open != tag && (!multiple || *open > tag));
                }
                finished.extend(batch);
                let expected: BTreeSet<u64> = (1..=39).filter(|tag| !finished.contains(tag)).collect();
                prop_assert_eq!(&unacked, &expected);
            }
        }
    }
}
