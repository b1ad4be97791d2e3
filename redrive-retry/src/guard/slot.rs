//! A number for each living thread, small and used by one thread at a time.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use super::locked;

/// Numbers that were given back, and the first that was never given.
static FREE: Mutex<Free> = Mutex::new(Free { back: BTreeSet::new(), next: 0 });

struct Free {
    back: BTreeSet<usize>,
    next: usize,
}

/// A number that goes back when its thread ends.
struct Slot(usize);

impl Slot {
    fn take() -> Self {
        let mut free = locked(&FREE);
        if let Some(lowest) = free.back.pop_first() {
            return Self(lowest);
        }
        free.next += 1;
        Self(free.next - 1)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&FREE).back.insert(self.0);
    }
}

thread_local! {
    static SLOT: Slot = Slot::take();
}

/// This thread's number; one that has no place anywhere while the thread is being taken down.
#[inline]
pub(super) fn mine() -> usize {
    SLOT.try_with(|slot| slot.0).unwrap_or(usize::MAX)
}

/// How many threads get a place of their own in a counter. More than that take the lock.
pub(super) fn places() -> usize {
    static PLACES: OnceLock<usize> = OnceLock::new();
    *PLACES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(8, std::num::NonZero::get);
        (cores * 2).clamp(8, 64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_threads_never_share_a_number() {
        let ours = mine();
        let barrier = std::sync::Barrier::new(8);
        let mut seen: Vec<usize> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let number = mine();
                        barrier.wait();
                        number
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        seen.push(ours);
        seen.sort_unstable();
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
