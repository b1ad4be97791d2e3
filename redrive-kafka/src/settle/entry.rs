//! One delivery on its way to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_engine::port::{PortError, Refusal, Settled, SourceRef, Tag};

use crate::copy::Copy;
use crate::reader::Waits;
use crate::record;

/// What ends a delivery: its copies, and then its release.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The delivery.
    pub(crate) tag: Tag,
    /// What is written first.
    pub(crate) copies: Vec<Copy>,
    /// Whether the copies go to a place that the flow does not own: a refusal is then final.
    pub(crate) elsewhere: bool,
    /// What became of it.
    pub(crate) answer: Option<Result<Settled, PortError>>,
}

impl Entry {
    pub(crate) fn new(tag: Tag, copies: Vec<Copy>, elsewhere: bool) -> Self {
        Self { tag, copies, elsewhere, answer: None }
    }

    /// It is done; its copy lies there.
    pub(crate) fn done(&mut self, copy: Option<SourceRef>) {
        let carries_body = self.copies.first().is_some_and(|copy| copy.carries_body);
        self.answer = Some(Ok(Settled { copy, carries_body }));
    }

    /// Kafka cannot be reached, or does not answer in time.
    pub(crate) fn away(&mut self, why: &str) {
        self.answer = Some(Err(PortError::Unavailable(why.to_owned())));
    }

    /// It is another member's.
    pub(crate) fn gone(&mut self) {
        self.answer = Some(Err(gone(self.tag)));
    }

    /// The place that the copy was for does not take it.
    pub(crate) fn refused(&mut self, refusal: Refusal) {
        self.answer = Some(Err(not_taken(self.elsewhere, refusal)));
    }
}

/// The delivery is not ours any more.
pub(crate) fn gone(tag: Tag) -> PortError {
    Refusal::NotFound { what: "delivery", name: format!("{}/{}/{}", tag.stream, tag.epoch, tag.number) }
        .into()
}

/// A place that the flow owns can be mended by its people: the delivery stays and is settled once that is done. Any other
/// place refuses for good.
pub(crate) fn not_taken(elsewhere: bool, refusal: Refusal) -> PortError {
    if elsewhere { refusal.into() } else { PortError::Unavailable(refusal.to_string()) }
}

/// A waiting record that moves on to another topic.
#[derive(Debug)]
pub(crate) struct Moving {
    /// The record.
    pub(crate) waits: Waits,
    /// Its copy; none when another member moves it.
    pub(crate) copies: Vec<Copy>,
    bytes: usize,
    /// How many bytes are on their way, with these.
    all: Arc<AtomicUsize>,
}

impl Moving {
    pub(crate) fn new(waits: Waits, copies: Vec<Copy>, all: Arc<AtomicUsize>) -> Self {
        let bytes = record::size(&waits.delivery.message);
        all.fetch_add(bytes, Ordering::Relaxed);
        Self { waits, copies, bytes, all }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
