//! What the thread that settles asks for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use redrive_engine::port::Tag;

use super::Member;
use crate::position::Position;
use crate::reader::stream::offset;

/// How long the question whether Kafka answers may take.
const PROBE: Duration = Duration::from_secs(2);

impl Member {
    /// Whether Kafka answers. It is asked only after it was heard that it does not: the client holds a commit back for as long
    /// as a session lasts, and all that while nobody would know that nothing can be settled.
    pub(crate) fn answers(&self) -> bool {
        if !self.away.load(Ordering::Acquire) {
            return true;
        }
        let answers = self.consumer().is_some_and(|consumer| consumer.fetch_metadata(None, PROBE).is_ok());
        if answers {
            self.away.store(false, Ordering::Release);
        }
        answers
    }

    /// Takes deliveries to end them; no for one that is not ours any more.
    pub(crate) fn take(&self, tags: &[Tag]) -> Vec<bool> {
        let mut desk = self.desk();
        let mut take = |tag: &Tag| {
            let Some(stream) = desk.stream(*tag) else { return false };
            let taken = stream.book.take(offset(*tag));
            stream.settling += usize::from(taken);
            taken
        };
        tags.iter().map(&mut take).collect()
    }

    /// They could not be ended and are as they were.
    pub(crate) fn keep(&self, tags: &[Tag]) {
        let mut desk = self.desk();
        for tag in tags {
            if let Some(stream) = desk.stream(*tag)
                && stream.book.keep(offset(*tag))
            {
                stream.settling -= 1;
            }
        }
    }

    /// What to commit when these are finished.
    pub(crate) fn go(&self, tags: &[Tag]) -> Vec<(Arc<str>, i32, Position)> {
        let mut desk = self.desk();
        let mut touched: Vec<u32> = Vec::new();
        for tag in tags {
            if let Some(stream) = desk.stream(*tag) {
                stream.book.go(offset(*tag));
                if touched.last() != Some(&tag.stream) && !touched.contains(&tag.stream) {
                    touched.push(tag.stream);
                }
            }
        }
        let streams = touched.iter().filter_map(|number| desk.streams.get(number));
        streams
            .map(|stream| (Arc::clone(&stream.spot.topic), stream.spot.partition, stream.book.position()))
            .collect()
    }

    /// The commit failed.
    pub(crate) fn stay(&self, tags: &[Tag]) {
        let mut desk = self.desk();
        for tag in tags {
            if let Some(stream) = desk.stream(*tag) {
                stream.book.stay(offset(*tag));
            }
        }
    }

    /// The commit is durable.
    pub(crate) fn finish(&self, tags: &[Tag]) {
        let mut desk = self.desk();
        let mut freed = false;
        for tag in tags {
            if let Some(stream) = desk.stream(*tag)
                && stream.book.finish(offset(*tag))
            {
                stream.settling -= 1;
                freed |= std::mem::take(&mut stream.stands);
            }
        }
        drop(desk);
        if freed {
            self.arrived.notify_one();
        }
    }
}
