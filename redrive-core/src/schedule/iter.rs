//! A schedule as an iterator of its delays.

use std::iter::FusedIterator;
use std::time::Duration;

use super::Schedule;
use crate::Timestamp;

/// The delays of a schedule before jitter; see [`Schedule::iter`].
#[derive(Debug, Clone)]
pub struct Delays<'a> {
    schedule: &'a Schedule,
    step: u64,
    now: Timestamp,
}

impl<'a> Delays<'a> {
    pub(super) fn new(schedule: &'a Schedule, now: Timestamp) -> Self {
        Self { schedule, step: 0, now }
    }
}

impl Iterator for Delays<'_> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Step numbers end at 2^32; a schedule of exactly so many delays ends there too, one without end stays.
        let step = match u32::try_from(self.step) {
            Ok(step) => step,
            Err(_) if self.schedule.is_unlimited() => u32::MAX,
            Err(_) => return None,
        };
        let delay = self.schedule.nominal(step, self.now)?;
        self.step += 1;
        self.now = self.now + delay;
        Some(delay)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self.schedule.len() {
            None => (usize::MAX, None),
            Some(len) => {
                let left = usize::try_from(u64::from(len).saturating_sub(self.step)).unwrap_or(usize::MAX);
                (left, Some(left))
            }
        }
    }
}

impl FusedIterator for Delays<'_> {}
