//! What became of each record of one partition, from the lowest that is not finished on.

use std::collections::VecDeque;

use crate::position::{self, Position};

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Read, and not handed out.
    Here,
    /// Handed out.
    Out,
    /// Given to the settler.
    Ending,
    /// Part of the commit that is under way.
    Going,
    /// Finished.
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    offset: i64,
    /// The last one that it stands for: finished ones that follow each other may share a slot.
    last: i64,
    stage: Stage,
}

impl Slot {
    fn one(offset: i64, stage: Stage) -> Self {
        Self { offset, last: offset, stage }
    }
}

/// With fewer slots than this, nobody looks whether some could share one.
const FEW: usize = 1_024;

/// What reading a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is to be handed out.
    New,
    /// It is to be handed out, and was most likely handed out before.
    Again,
    /// It was finished before a restart.
    Finished,
    /// It lies before what was read: the topic was made anew.
    Back,
}

/// The book of one partition, for one assignment.
#[derive(Debug)]
pub(crate) struct Book {
    /// Read ones from the lowest that is not finished on, ascending.
    slots: VecDeque<Slot>,
    /// The offset behind the last that was read.
    next: i64,
    /// Finished before the assignment and not read yet.
    before: VecDeque<(i64, i64)>,
    /// Behind the last one that was finished before the assignment.
    known_to: i64,
    /// How many are read and not finished.
    open: usize,
    /// How many of them are handed out or being settled.
    out: usize,
    /// In how many pieces the finished ones among the slots lie.
    pieces: usize,
    /// With so many slots, finished ones are put together: behind one that stays open for long they would pile up.
    many: usize,
}

impl Book {
    /// Goes on from what was committed; without that, from wherever the first record lies.
    pub(crate) fn new(committed: Option<Position>) -> Self {
        let committed = committed.unwrap_or_default();
        Self {
            slots: VecDeque::new(),
            next: committed.lowest,
            known_to: committed.beyond.last().map_or(committed.lowest, |last| last.1),
            before: committed.beyond.into(),
            open: 0,
            out: 0,
            pieces: 0,
            many: FEW,
        }
    }

    /// A record was read.
    pub(crate) fn read(&mut self, offset: i64) -> Seen {
        if offset < self.next {
            return Seen::Back;
        }
        self.next = offset.saturating_add(1);
        while self.before.front().is_some_and(|range| range.1 <= offset) {
            self.before.pop_front();
        }
        if self.before.front().is_some_and(|range| range.0 <= offset) {
            self.pieces += usize::from(!self.is_done(self.slots.len().wrapping_sub(1)));
            self.slots.push_back(Slot::one(offset, Stage::Done));
            self.trim();
            self.put_together();
            return Seen::Finished;
        }
        self.open += 1;
        self.slots.push_back(Slot::one(offset, Stage::Here));
        if offset < self.known_to { Seen::Again } else { Seen::New }
    }

    /// The offset behind the last that was read.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// How many are read and not finished.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// How many are handed out or being settled.
    pub(crate) fn out(&self) -> usize {
        self.out
    }

    /// Whether handing this one out leaves room to write down every state that can follow.
    pub(crate) fn has_room(&self, offset: i64, room: usize) -> bool {
        let Some(lowest) = self.slots.front().map(|slot| slot.offset) else { return true };
        let end = self.known_to.max(offset.saturating_add(1));
        let span = end.saturating_sub(lowest).max(0).cast_unsigned();
        // Each one that is out can become a piece of its own.
        let pieces = self.pieces + self.before.len() + self.out + 1;
        offset <= lowest || position::fits(room, span, pieces)
    }

    /// It is handed out.
    pub(crate) fn hand_out(&mut self, offset: i64) -> bool {
        let moved = self.step(offset, Stage::Here, Stage::Out).is_some();
        self.out += usize::from(moved);
        moved
    }

    /// It is given back as it was.
    pub(crate) fn give_back(&mut self, offset: i64) -> bool {
        let moved = self.step(offset, Stage::Out, Stage::Here).is_some();
        self.out -= usize::from(moved);
        moved
    }

    /// The settler takes it.
    pub(crate) fn take(&mut self, offset: i64) -> bool {
        self.step(offset, Stage::Out, Stage::Ending).is_some()
    }

    /// The settler could not end it.
    pub(crate) fn keep(&mut self, offset: i64) -> bool {
        self.step(offset, Stage::Ending, Stage::Out).is_some()
    }

    /// It becomes part of the commit that is under way.
    pub(crate) fn go(&mut self, offset: i64) -> bool {
        self.step(offset, Stage::Ending, Stage::Going).is_some()
    }

    /// That commit failed.
    pub(crate) fn stay(&mut self, offset: i64) -> bool {
        self.step(offset, Stage::Going, Stage::Ending).is_some()
    }

    /// That commit is durable.
    pub(crate) fn finish(&mut self, offset: i64) -> bool {
        let Some(place) = self.step(offset, Stage::Going, Stage::Done) else { return false };
        self.open -= 1;
        self.out -= 1;
        let (left, right) = (self.is_done(place.wrapping_sub(1)), self.is_done(place + 1));
        self.pieces = (self.pieces + 1).saturating_sub(usize::from(left) + usize::from(right));
        self.trim();
        self.put_together();
        true
    }

    /// What is to be committed, with those that are under way.
    pub(crate) fn position(&self) -> Position {
        let done = |slot: &Slot| matches!(slot.stage, Stage::Done | Stage::Going);
        let first = self.slots.iter().position(|slot| !done(slot)).unwrap_or(self.slots.len());
        let lowest = self.slots.get(first).map_or(self.next, |slot| slot.offset);
        let mut beyond: Vec<(i64, i64)> = Vec::new();
        let mut follows = false;
        for slot in self.slots.range(first..) {
            if !done(slot) {
                follows = false;
                continue;
            }
            match beyond.last_mut() {
                // What lies between two that follow each other is no record.
                Some(last) if follows => last.1 = slot.last.saturating_add(1),
                _ => beyond.push((slot.offset, slot.last.saturating_add(1))),
            }
            follows = true;
        }
        for (start, end) in &self.before {
            let start = (*start).max(self.next);
            if start >= *end {
                continue;
            }
            match beyond.last_mut() {
                Some(last) if last.1 == start => last.1 = *end,
                // Nothing is open below: all of that is finished as well.
                _ if start == lowest => return Position { lowest: *end, beyond: self.later(*end) },
                _ => beyond.push((start, *end)),
            }
        }
        Position { lowest, beyond }
    }

    /// What is finished from there on and was not read yet.
    fn later(&self, from: i64) -> Vec<(i64, i64)> {
        self.before.iter().copied().filter(|range| range.0 > from).collect()
    }

    /// Moves a record on; where its slot is, when it stood there.
    fn step(&mut self, offset: i64, from: Stage, to: Stage) -> Option<usize> {
        let place = self.place(offset)?;
        let slot = self.slots.get_mut(place).filter(|slot| slot.stage == from)?;
        slot.stage = to;
        Some(place)
    }

    /// The slot of a record. Most partitions have no gaps, so that it is as far from the first as its offset says.
    fn place(&self, offset: i64) -> Option<usize> {
        let guess = usize::try_from(offset.checked_sub(self.slots.front()?.offset)?).ok()?;
        if self.slots.get(guess).is_some_and(|slot| slot.offset == offset) {
            return Some(guess);
        }
        self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok()
    }

    fn is_done(&self, place: usize) -> bool {
        self.slots.get(place).is_some_and(|slot| slot.stage == Stage::Done)
    }

    /// Finished ones that follow each other share a slot, so that a book is as long as what is open, not as what was read.
    fn put_together(&mut self) {
        if self.slots.len() < self.many {
            return;
        }
        let mut kept: VecDeque<Slot> = VecDeque::with_capacity(self.open + self.pieces);
        for slot in self.slots.drain(..) {
            match kept.back_mut() {
                Some(before) if before.stage == Stage::Done && slot.stage == Stage::Done => {
                    before.last = slot.last;
                }
                _ => kept.push_back(slot),
            }
        }
        self.slots = kept;
        self.many = (self.slots.len() * 2).max(FEW);
    }

    fn trim(&mut self) {
        // What is popped is one piece.
        self.pieces -= usize::from(self.is_done(0));
        while self.slots.front().is_some_and(|slot| slot.stage == Stage::Done) {
            self.slots.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(book: &mut Book, offset: i64) {
        assert!(book.take(offset) && book.go(offset) && book.finish(offset));
    }

    fn read_out(book: &mut Book, offsets: impl IntoIterator<Item = i64>) {
        for offset in offsets {
            assert_eq!(book.read(offset), Seen::New);
            assert!(book.hand_out(offset));
        }
    }

    #[test]
    fn the_lowest_unfinished_is_committed_and_the_rest_is_told() {
        let mut book = Book::new(None);
        read_out(&mut book, [10, 11, 12, 14, 15]);
        assert_eq!(book.position(), Position { lowest: 10, beyond: vec![] });
        end(&mut book, 12);
        end(&mut book, 14);
        assert_eq!(book.position(), Position { lowest: 10, beyond: vec![(12, 15)] });
        end(&mut book, 10);
        assert_eq!(book.position(), Position { lowest: 11, beyond: vec![(12, 15)] });
        end(&mut book, 11);
        assert_eq!(book.position(), Position { lowest: 15, beyond: vec![] });
        end(&mut book, 15);
        assert_eq!(book.position(), Position { lowest: 16, beyond: vec![] });
        assert_eq!(book.out(), 0);
    }

    #[test]
    fn what_was_finished_before_is_not_handed_out_and_not_forgotten() {
        let mut book = Book::new(Some(Position { lowest: 5, beyond: vec![(7, 9), (20, 21)] }));
        assert_eq!(book.read(5), Seen::Again);
        assert!(book.hand_out(5));
        end(&mut book, 5);
        assert_eq!(book.position(), Position { lowest: 6, beyond: vec![(7, 9), (20, 21)] });
        assert_eq!(book.read(6), Seen::Again);
        assert_eq!([book.read(7), book.read(8), book.read(9)], [Seen::Finished, Seen::Finished, Seen::Again]);
        assert_eq!(book.position(), Position { lowest: 6, beyond: vec![(7, 9), (20, 21)] });
        assert!(book.hand_out(6));
        end(&mut book, 6);
        assert_eq!(book.position(), Position { lowest: 9, beyond: vec![(20, 21)] });
        assert_eq!(book.read(25), Seen::New);
    }

    #[test]
    fn a_commit_that_fails_leaves_everything_as_it_was() {
        let mut book = Book::new(None);
        read_out(&mut book, 0..3);
        assert!(book.take(0) && book.go(0));
        assert_eq!(book.position().lowest, 1);
        assert!(book.stay(0) && book.keep(0));
        assert_eq!(book.position().lowest, 0);
        assert!(!book.take(9) && !book.finish(1));
        assert!(book.give_back(1) && !book.give_back(1) && book.hand_out(1));
        assert_eq!(book.out(), 3);
    }

    /// A record that stays open for an hour does not make the book as long as all that was read behind it.
    #[test]
    fn what_is_finished_behind_an_open_one_takes_no_room() {
        let mut book = Book::new(None);
        read_out(&mut book, [0, 1]);
        for offset in 2..100_000 {
            read_out(&mut book, [offset]);
            end(&mut book, offset);
            assert!(book.slots.len() <= FEW, "{} slots at {offset}", book.slots.len());
        }
        assert_eq!(book.position(), Position { lowest: 0, beyond: vec![(2, 100_000)] });
        assert_eq!((book.pieces, book.open()), (1, 2));
        end(&mut book, 0);
        end(&mut book, 1);
        assert_eq!(book.position(), Position { lowest: 100_000, beyond: vec![] });
        assert_eq!((book.pieces, book.slots.len()), (0, 0));
    }

    #[test]
    fn a_topic_made_anew_is_noticed() {
        let mut book = Book::new(Some(Position { lowest: 100, beyond: vec![] }));
        assert_eq!(book.read(0), Seen::Back);
    }

    proptest! {
        /// Whatever is finished in whatever order, over restarts: what a restart runs again is what was not finished.
        #[test]
        fn a_restart_runs_what_was_not_finished(
            gaps in proptest::collection::vec(1..4_i64, 1..60),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
            read in any::<prop::sample::Index>(),
        ) {
            let offsets: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let read = read.index(offsets.len()) + 1;
            let mut book = Book::new(None);
            // Slots are put together at every step, as they are in a long book.
            book.many = 0;
            read_out(&mut book, offsets[..read].iter().copied());
            let mut finished = std::collections::BTreeSet::new();
            for index in order {
                let offset = offsets[index.index(read)];
                if finished.insert(offset) {
                    end(&mut book, offset);
                    book.many = 0;
                }
                let position = book.position();
                let committed = Position::read(position.lowest, &position.metadata());
                prop_assert_eq!(&committed, &position);
                prop_assert_eq!(book.pieces, position.beyond.len());
                let mut next = Book::new(Some(committed));
                for offset in offsets.iter().copied().filter(|offset| *offset >= position.lowest) {
                    let again = next.read(offset) != Seen::Finished;
                    prop_assert_eq!(again, !finished.contains(&offset));
                    prop_assert_eq!(next.position().lowest, position.lowest.max(next.position().lowest));
                }
            }
        }
    }
}
