//! Waiting records, read ahead and kept in the order in which they come due.
//!
//! Reading is what costs time: a partition that is read on after a pause may take a second. So records are read before
//! they are due and wait here. The room is bounded, over all partitions of all levels, and shared so that none of them
//! can keep the others out: half of it is divided evenly, and what a stream reads beyond its share comes out of the other
//! half. A level whose unread records are not due for a while is not read beyond its share at all.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redrive_core::Timestamp;

/// A stream is not read beyond its share when what is unread is due later than this.
const HORIZON: Duration = Duration::from_secs(10);
/// So long before the first unread record can be due a stream is read on.
const LEAD: Duration = Duration::from_secs(4);

/// A record that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// When it is looked at again.
    pub(crate) until: Timestamp,
    /// When it was appended to its topic.
    pub(crate) appended: Timestamp,
    /// What it counts against the window.
    pub(crate) bytes: usize,
    /// The record.
    pub(crate) record: T,
}

#[derive(Debug)]
struct Kept<T> {
    stream: u32,
    bytes: usize,
    record: T,
}

#[derive(Debug)]
struct Stream {
    /// The least time that its records wait.
    least: Duration,
    /// What is unread is not due before this time.
    unread_from: Option<Timestamp>,
    records: usize,
    bytes: usize,
    paused: bool,
}

/// Which streams are to be paused and which to be read on, as it follows from the last look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Steering {
    /// To be paused.
    pub(crate) pause: Vec<u32>,
    /// To be read on.
    pub(crate) resume: Vec<u32>,
}

/// The window.
#[derive(Debug)]
pub(crate) struct Window<T> {
    limits: crate::Window,
    streams: HashMap<u32, Stream>,
    /// By due time, and among equals in the order of reading.
    kept: BTreeMap<(Timestamp, u64), Kept<T>>,
    bytes: usize,
    next: u64,
}

impl<T> Window<T> {
    /// An empty one.
    pub(crate) fn new(limits: crate::Window) -> Self {
        Self { limits, streams: HashMap::new(), kept: BTreeMap::new(), bytes: 0, next: 0 }
    }

    /// A stream that is read from now on, and the least time that its records wait
    /// ([`Delays::least_in`](super::Delays::least_in)).
    pub(crate) fn add_stream(&mut self, stream: u32, least: Duration) {
        self.remove_stream(stream);
        let new = Stream { least, unread_from: None, records: 0, bytes: 0, paused: false };
        self.streams.insert(stream, new);
    }

    /// A stream that is lost. Its records are forgotten: they lie in Kafka. Tells how many there were.
    pub(crate) fn remove_stream(&mut self, stream: u32) -> usize {
        let Some(lost) = self.streams.remove(&stream) else { return 0 };
        if lost.records > 0 {
            self.kept.retain(|_, kept| kept.stream != stream);
            self.bytes -= lost.bytes;
        }
        lost.records
    }

    /// Takes a record in. One that does not fit is taken too, since it was read: pause what [`steer`](Self::steer) says.
    /// A record of a stream that is not there is given back.
    pub(crate) fn push(&mut self, stream: u32, waiting: Waiting<T>) -> Result<(), T> {
        let Some(of) = self.streams.get_mut(&stream) else { return Err(waiting.record) };
        of.records += 1;
        of.bytes += waiting.bytes;
        of.unread_from = of.unread_from.max(Some(waiting.appended + of.least));
        self.bytes += waiting.bytes;
        let kept = Kept { stream, bytes: waiting.bytes, record: waiting.record };
        self.kept.insert((waiting.until, self.next), kept);
        self.next += 1;
        Ok(())
    }

    /// The record that is due first, with its stream, when it is due.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(u32, T)> {
        let first = self.kept.first_entry().filter(|first| first.key().0 <= now)?;
        let kept = first.remove();
        self.bytes -= kept.bytes;
        if let Some(of) = self.streams.get_mut(&kept.stream) {
            of.records -= 1;
            of.bytes -= kept.bytes;
        }
        Some((kept.stream, kept.record))
    }

    /// When the first record is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.kept.first_key_value().map(|(key, _)| key.0)
    }

    /// What waits here, in the order in which it comes due.
    pub(crate) fn records(&self) -> impl Iterator<Item = &T> {
        self.kept.values().map(|kept| &kept.record)
    }

    /// How many records wait here.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Their bytes.
    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is no room left beyond the streams' shares: what is due earlier may lie unread behind it.
    pub(crate) fn is_full(&self) -> bool {
        self.is_over() || self.beyond_shares(1, 1)
    }

    /// Whether the stream is paused as far as this window knows.
    #[cfg(test)]
    pub(crate) fn is_paused(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|of| of.paused)
    }

    fn is_over(&self) -> bool {
        self.kept.len() >= self.limits.records || self.bytes >= self.limits.bytes
    }

    /// What each stream has for itself.
    fn share(&self) -> (usize, usize) {
        let streams = self.streams.len().max(1) * 2;
        ((self.limits.records / streams).max(1), (self.limits.bytes / streams).max(1))
    }

    /// Whether what streams hold beyond their shares takes more than this part of the common half.
    fn beyond_shares(&self, part: usize, of: usize) -> bool {
        let share = self.share();
        let (records, bytes) = self.streams.values().fold((0, 0), |(records, bytes), stream| {
            (records + stream.records.saturating_sub(share.0), bytes + stream.bytes.saturating_sub(share.1))
        });
        let most = |limit: usize| (limit.saturating_mul(part) / (2 * of)).max(1);
        records >= most(self.limits.records) || bytes >= most(self.limits.bytes)
    }

    /// Looks at all streams: which are to be paused, which to be read on. To be asked after reading, after handing out,
    /// and now and then.
    pub(crate) fn steer(&mut self, now: Timestamp) -> Steering {
        let share = self.share();
        let (over, full, nearly) = (self.is_over(), self.is_full(), self.beyond_shares(3, 4));
        let mut steering = Steering::default();
        for (number, stream) in &mut self.streams {
            let beyond = stream.records > share.0 || stream.bytes > share.1;
            let later = |by: Duration| stream.unread_from.is_some_and(|from| from > now + by);
            if !stream.paused {
                if stream.records > 0 && (over || (beyond && (full || later(HORIZON)))) {
                    stream.paused = true;
                    steering.pause.push(*number);
                }
                continue;
            }
            let drained = stream.records <= share.0 / 2 && stream.bytes <= share.1 / 2;
            if stream.records == 0 || (!over && (drained || (!nearly && !later(LEAD)))) {
                stream.paused = false;
                steering.resume.push(*number);
            }
        }
        steering.pause.sort_unstable();
        steering.resume.sort_unstable();
        steering
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
