//! The attempts of a call that have failed so far.
//!
//! Most calls that fail at all fail once or twice. Those are kept in place: the list that a caller gets is made when
//! the call is given up.

use std::time::Duration;

use crate::{Cause, Tried};

/// How many are kept in place.
const IN_PLACE: usize = 3;

#[derive(Debug)]
pub(crate) struct History<E> {
    first: [Option<Failed<E>>; IN_PLACE],
    more: Vec<Failed<E>>,
    len: u32,
}

/// A failed attempt; its number is its place. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Failed<E> {
    /// Since the call began.
    pub(crate) began: u64,
    pub(crate) took: u64,
    pub(crate) asked: Option<Duration>,
    pub(crate) cause: Cause<E>,
}

impl<E> History<E> {
    pub(crate) const fn new() -> Self {
        Self { first: [const { None }; IN_PLACE], more: Vec::new(), len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, failed: Failed<E>) {
        match self.first.get_mut(self.len as usize) {
            Some(place) => *place = Some(failed),
            None => self.more.push(failed),
        }
        self.len += 1;
    }

    /// The last one's cause.
    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut Cause<E>> {
        let last = (self.len as usize).checked_sub(1)?;
        let failed = match self.first.get_mut(last) {
            Some(place) => place.as_mut(),
            None => self.more.last_mut(),
        };
        failed.map(|failed| &mut failed.cause)
    }

    /// All of them, as a caller gets them; none are left here.
    pub(crate) fn take(&mut self) -> Vec<Tried<E>> {
        let mut all = Vec::with_capacity(self.len as usize);
        let first = self.first.iter_mut().filter_map(Option::take);
        for (number, failed) in (1..).zip(first.chain(self.more.drain(..))) {
            let Failed { began, took, asked, cause } = failed;
            let (began, took) = (Duration::from_nanos(began), Duration::from_nanos(took));
            all.push(Tried { number, began, took, asked, cause });
        }
        self.len = 0;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_there_in_their_order() {
        for len in 0..10 {
            let mut history = History::new();
            for number in 1..=len {
                let cause = Cause::Error(number);
                history.push(Failed { began: u64::from(number), took: 1, asked: None, cause });
                assert_eq!(history.last_mut(), Some(&mut Cause::Error(number)));
            }
            assert_eq!(history.is_empty(), len == 0);
            let all = history.take();
            let seen: Vec<_> = all.iter().map(|tried| (tried.number, tried.began.as_nanos())).collect();
            let expected: Vec<_> = (1..=len).map(|number| (number, u128::from(number))).collect();
            assert_eq!(seen, expected);
            assert!(history.is_empty() && history.last_mut().is_none());
        }
    }
}
