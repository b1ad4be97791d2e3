//! Settling without transactions: copies first, each awaited, then the commit. After a crash between the two a copy is
//! there twice; it is never missing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use redrive_engine::fail;
use redrive_engine::port::Tag;

use super::Settling;
use super::commit;
use super::entry::Entry;
use super::reports::{Place, Report, Reports, send};
use super::trouble::Trouble;
use crate::client;
use crate::metrics;
use crate::producers::Producers;

/// How long records may take to be acknowledged: a little longer than the producer itself waits.
const DELIVERY: Duration = Duration::from_secs(12);

/// Settles plainly.
pub(super) struct Plain {
    with: Settling,
    producers: Producers,
    /// Copies whose originals could not be released yet: they are not written again.
    written: HashMap<Tag, Vec<Place>>,
}

impl Plain {
    pub(super) fn new(with: Settling) -> Self {
        Self { producers: Producers::new(&with.flow), with, written: HashMap::new() }
    }

    pub(super) fn warm_up(&mut self) {
        if let Err(error) = self.producers.get() {
            tracing::warn!(error = client::shown(&error), "no producer yet");
        }
    }

    pub(super) fn settle(&mut self, entries: &mut [Entry], ours: Vec<usize>) {
        for entry in entries.iter().filter(|entry| entry.answer.is_some()) {
            self.written.remove(&entry.tag);
        }
        let mut ready: Vec<usize> = Vec::new();
        let mut groups = vec![ours];
        while let Some(group) = groups.pop() {
            let (with, without): (Vec<usize>, Vec<usize>) = group.into_iter().partition(|place| {
                let entry = &entries[*place];
                !entry.copies.is_empty() && !self.written.contains_key(&entry.tag)
            });
            ready.extend(without);
            if with.is_empty() {
                continue;
            }
            let failed = self.write(entries, &with, &mut ready);
            fail::point("kafka.after_copies");
            // A batch is refused as a whole: in smaller ones it shows which record is meant.
            let (left, right) = failed.split_at(failed.len() / 2);
            groups.extend([left.to_vec(), right.to_vec()]);
        }
        self.release_all(entries, ready);
    }

    /// Writes the copies of these; the written ones are ready. The answer is those that were refused, to be tried in
    /// smaller groups, unless it was one alone.
    fn write(&mut self, entries: &mut [Entry], group: &[usize], ready: &mut Vec<usize>) -> Vec<usize> {
        let copies: usize = group.iter().map(|place| entries[*place].copies.len()).sum();
        let reports = Reports::new(copies);
        match self.producers.get() {
            Ok(producers) => {
                let all = group.iter().flat_map(|place| &entries[*place].copies);
                send(|copy| producers.of(&copy.topic), all, &reports, client::ANSWER);
            }
            Err(error) => {
                let why = format!("no producer for copies: {}", client::shown(&error));
                for place in group {
                    entries[*place].away(&why);
                }
                return Vec::new();
            }
        }
        let answered = reports.wait(DELIVERY, DELIVERY);
        let mut answered = &answered[..];
        let mut refused = Vec::new();
        let trouble = Trouble::new(&self.with);
        // A topic is looked for once, however many copies were for it.
        let mut known: Vec<(String, KafkaError, bool)> = Vec::new();
        for place in group {
            let entry = &mut entries[*place];
            let (own, rest): (&[Report], _) = answered.split_at(entry.copies.len());
            answered = rest;
            let failed = commit::failure(entry, own).map(|(topic, error)| (topic.to_owned(), error.clone()));
            let Some((topic, error)) = failed else {
                let places = own.iter().filter_map(|report| report.as_ref().ok().copied()).collect();
                self.written.insert(entry.tag, places);
                ready.push(*place);
                continue;
            };
            let is_refusal = match known.iter().find(|(other, said, _)| *other == topic && *said == error) {
                Some((.., refused)) => *refused,
                None => {
                    let refused = trouble.is_refusal(&topic, &error);
                    known.push((topic.clone(), error.clone(), refused));
                    refused
                }
            };
            if !is_refusal {
                entry.away(&format!("a copy for `{topic}` was not acknowledged: {error}"));
            } else if group.len() == 1 {
                entry.refused(trouble.refuse(&topic, &error));
            } else {
                refused.push(*place);
            }
        }
        refused
    }

    /// Releases the originals. What keeps the position of one partition from being committed keeps no other one's.
    fn release_all(&mut self, entries: &mut [Entry], ready: Vec<usize>) {
        let mut groups = vec![ready];
        let mut released = false;
        while let Some(group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            let Err(error) = self.release(entries, &group) else {
                released |= group.iter().any(|place| !entries[*place].copies.is_empty());
                continue;
            };
            let parts = commit::by_stream(&group, entries);
            if parts.len() > 1 && error.rdkafka_error_code().is_some_and(commit::is_of_position) {
                groups.extend(parts);
                continue;
            }
            let why = format!("the positions were not committed: {error}");
            for place in group {
                entries[place].away(&why);
            }
        }
        if released {
            Trouble::new(&self.with).is_over(entries);
        }
    }

    /// Releases the originals in one commit.
    fn release(&mut self, entries: &mut [Entry], ready: &[usize]) -> Result<(), KafkaError> {
        let begun = Instant::now();
        let tags: Vec<Tag> = ready.iter().map(|place| entries[*place].tag).collect();
        let positions = self.with.member.go(&tags);
        let committed = match self.with.member.consumer() {
            Some(consumer) => commit::commit(&consumer, &positions),
            None => Err(KafkaError::Canceled),
        };
        if let Err(error) = committed {
            self.with.member.stay(&tags);
            return Err(error);
        }
        fail::point("kafka.after_release");
        self.with.member.finish(&tags);
        metrics::committed(&self.with.flow.flow, begun.elapsed(), tags.len());
        for place in ready {
            let entry = &mut entries[*place];
            let places = self.written.remove(&entry.tag).unwrap_or_default();
            entry.done(commit::place(entry, &places));
        }
        Ok(())
    }
}
