//! Counting over the recent past: by time in a ring of buckets, or over the last n calls.
//!
//! A list of events would grow with the traffic; these two do not.

use std::ops::{AddAssign, SubAssign};

/// Counts per slice of time. An event stays for the bucket it fell into and the `n - 1` after it, so between
/// `(n - 1) / n` of the window and the whole of it.
#[derive(Debug, Clone)]
pub(super) struct Buckets<T> {
    /// Nanoseconds a bucket.
    width: u64,
    /// The current bucket's number since the origin.
    head: u64,
    /// Where the current bucket ends; nothing needs to move before.
    ends: u64,
    /// The current bucket's place in the ring.
    at: usize,
    ring: Box<[T]>,
    total: T,
}

impl<T: Copy + Default + AddAssign + SubAssign> Buckets<T> {
    pub(super) fn new(window_ns: u64, buckets: usize) -> Self {
        let buckets = buckets.max(1);
        let width = window_ns.div_ceil(buckets as u64).max(1);
        Self {
            width,
            head: 0,
            ends: width,
            at: 0,
            ring: vec![T::default(); buckets].into_boxed_slice(),
            total: T::default(),
        }
    }

    /// Moves to the bucket of `now`; an earlier time changes nothing.
    pub(super) fn advance(&mut self, now: u64) {
        if now < self.ends {
            return;
        }
        let head = now / self.width;
        let steps = (head - self.head).min(self.ring.len() as u64);
        for _ in 0..steps {
            self.at = if self.at + 1 == self.ring.len() { 0 } else { self.at + 1 };
            self.total -= self.ring[self.at];
            self.ring[self.at] = T::default();
        }
        self.head = head;
        self.ends = head.saturating_add(1).saturating_mul(self.width);
    }

    /// Adds to the current bucket.
    pub(super) fn add(&mut self, events: T) {
        self.ring[self.at] += events;
        self.total += events;
    }

    /// Adds to the bucket of `at`, which may have passed; what has left the window is left out.
    pub(super) fn add_at(&mut self, at: u64, events: T) {
        if let Some(place) = self.place_of(at) {
            self.ring[place] += events;
            self.total += events;
        }
    }

    /// Takes back what was added to the bucket of `at`, unless that has left the window.
    pub(super) fn take_back_at(&mut self, at: u64, events: T) {
        if let Some(place) = self.place_of(at) {
            self.ring[place] -= events;
            self.total -= events;
        }
    }

    fn place_of(&self, at: u64) -> Option<usize> {
        if at >= self.ends.saturating_sub(self.width) {
            return Some(self.at);
        }
        let behind = usize::try_from(self.head.saturating_sub(at / self.width)).ok()?;
        if behind >= self.ring.len() {
            return None;
        }
        Some(if behind <= self.at { self.at - behind } else { self.ring.len() + self.at - behind })
    }

    /// When the current bucket ends.
    pub(super) fn ends(&self) -> u64 {
        self.ends
    }

    /// What the window holds since the last [`advance`](Self::advance).
    pub(super) fn total(&self) -> T {
        self.total
    }

    /// What the window would hold after so many more buckets, and when that would be.
    pub(super) fn total_after(&self, buckets: usize) -> (T, u64) {
        let mut total = self.total;
        let len = self.ring.len();
        for step in 1..=buckets.min(len) {
            total -= self.ring[(self.at + step) % len];
        }
        (total, self.head.saturating_add(buckets as u64).saturating_mul(self.width))
    }

    /// What the window holds at `now`, nothing moved.
    pub(super) fn total_at(&self, now: u64) -> T {
        let steps = if now < self.ends { 0 } else { now / self.width - self.head };
        self.total_after(usize::try_from(steps).unwrap_or(usize::MAX)).0
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn clear(&mut self) {
        self.ring.fill(T::default());
        self.total = T::default();
    }
}

/// The last n events.
#[derive(Debug, Clone)]
pub(super) struct Last<T> {
    ring: Box<[T]>,
    at: usize,
    total: T,
}

impl<T: Copy + Default + AddAssign + SubAssign> Last<T> {
    pub(super) fn new(events: usize) -> Self {
        Self { ring: vec![T::default(); events.max(1)].into_boxed_slice(), at: 0, total: T::default() }
    }

    pub(super) fn add(&mut self, event: T) {
        self.total -= self.ring[self.at];
        self.ring[self.at] = event;
        self.total += event;
        self.at = if self.at + 1 == self.ring.len() { 0 } else { self.at + 1 };
    }

    /// Adds the same event so often; more than the ring holds would only push itself out.
    pub(super) fn add_many(&mut self, event: T, times: u64) {
        for _ in 0..times.min(self.ring.len() as u64) {
            self.add(event);
        }
    }

    pub(super) fn total(&self) -> T {
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.ring.fill(T::default());
        self.total = T::default();
    }
}
