//! The counters beside a lock, in every order in which threads can meet.

/// The atomics that the model steps through.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

#[path = "../src/guard/tally.rs"]
mod tally;

use loom::sync::{Arc, Mutex};
use tally::Tally;

/// What a guard does with its tally: counts beside the lock while the slice lasts, else under it.
struct Guard {
    tally: Tally,
    /// What was taken, by the end of the slice it was counted in, and what was counted under the lock.
    sum: Mutex<Vec<(u64, u64)>>,
}

impl Guard {
    fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { tally: Tally::new(places), sum: Mutex::new(Vec::new()) })
    }

    fn count(&self, place: usize, now: u64) {
        if self.tally.add(place, now) {
            return;
        }
        let mut sum = self.sum.lock().unwrap();
        self.tally.take(|ends, new| sum.push((ends, new)));
        let ends = (now / 10 + 1) * 10;
        sum.push((ends, 1));
        self.tally.begin(place, ends, 0);
    }

    /// Gives the owner of a place so much ahead.
    fn give(&self, place: usize, ahead: u64) {
        let _sum = self.sum.lock().unwrap();
        assert_eq!(self.tally.take_back(place), None);
        self.tally.begin(place, 10, ahead);
    }

    fn take_back(&self, place: usize) -> u64 {
        let _sum = self.sum.lock().unwrap();
        self.tally.take_back(place).map_or(0, |(_, unused)| unused)
    }

    fn add_up(&self) -> Vec<(u64, u64)> {
        let mut sum = self.sum.lock().unwrap();
        self.tally.take(|ends, new| sum.push((ends, new)));
        sum.clone()
    }
}

/// Every order with up to three switches that no thread asked for, which keeps the search short.
fn every_order(work: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(work);
}

fn total(sum: &[(u64, u64)]) -> u64 {
    sum.iter().map(|(_, new)| new).sum()
}

#[test]
fn nothing_is_lost_and_nothing_is_counted_twice() {
    every_order(|| {
        let guard = Guard::new(2);
        let threads: Vec<_> = (0..2)
            .map(|place| {
                let guard = Arc::clone(&guard);
                loom::thread::spawn(move || {
                    guard.count(place, 1);
                    guard.count(place, 2);
                })
            })
            .collect();
        let seen = total(&guard.add_up());
        assert!(seen <= 4);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(total(&guard.add_up()), 4);
        assert_eq!(total(&guard.add_up()), 4, "and each once");
    });
}

#[test]
fn what_was_counted_in_a_slice_is_taken_with_its_end() {
    every_order(|| {
        let guard = Guard::new(1);
        let theirs = Arc::clone(&guard);
        let thread = loom::thread::spawn(move || {
            theirs.count(0, 1);
            theirs.count(0, 2);
            theirs.count(0, 11);
            theirs.count(0, 12);
        });
        guard.add_up();
        thread.join().unwrap();
        let sum = guard.add_up();
        let of = |slice| total(&sum.iter().filter(|(ends, _)| *ends == slice).copied().collect::<Vec<_>>());
        assert_eq!((of(10), of(20)), (2, 2));
    });
}

#[test]
fn a_thread_without_a_place_counts_under_the_lock() {
    every_order(|| {
        let guard = Guard::new(1);
        let theirs = Arc::clone(&guard);
        let thread = loom::thread::spawn(move || theirs.count(5, 1));
        guard.count(0, 1);
        guard.count(0, 2);
        thread.join().unwrap();
        assert_eq!(total(&guard.add_up()), 3);
    });
}

#[test]
fn what_is_given_ahead_is_used_or_taken_back_and_never_both() {
    every_order(|| {
        let guard = Guard::new(2);
        let theirs = Arc::clone(&guard);
        let thread = loom::thread::spawn(move || {
            theirs.give(0, 2);
            (0..3).filter(|_| theirs.tally.use_ahead(0, 1)).count() as u64
        });
        let back = guard.take_back(0);
        let used = thread.join().unwrap();
        let left = guard.take_back(0);
        assert_eq!(used + back + left, 2, "{used} used, {back} and {left} taken back");
        assert!(guard.tally.places() == 2 && !guard.tally.use_ahead(0, 1));
    });
}

#[test]
fn nothing_is_used_after_its_slice() {
    every_order(|| {
        let guard = Guard::new(1);
        guard.give(0, 2);
        assert!(guard.tally.use_ahead(0, 9));
        assert!(!guard.tally.use_ahead(0, 10));
        assert_eq!(guard.take_back(0), 1);
    });
}
