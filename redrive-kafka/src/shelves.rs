//! What lies in the topics of a flow: what waits, dead letters, parked messages, and those of other systems.
//!
//! A position is the next offset of each partition, as JSON: `{"orders.dlq":[12,0,5]}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_engine::adapter::unwrap_envelope;
use redrive_engine::port::{Delivery, EntryState, PortError, Refusal, Shelved, Shelves};

use crate::copy::PARKED;
use crate::delay::names;
use crate::fetch::{self, Original};
use crate::finished;
use crate::look::{self, Look};
use crate::read_back::{Pile, ReadBack, Span};
use crate::record::Carver;
use crate::{DeadLetterFormat, KafkaFlow, Parking};

/// The next offset of each partition of each topic.
type Places = BTreeMap<String, Vec<i64>>;

/// Reads the shelves of a flow from a position on, or from the beginning.
pub(crate) async fn open(look: &Arc<Look>, from: Option<&str>) -> Result<Box<dyn Shelves>, PortError> {
    let flow = look.flow().clone();
    let places: Places = match from {
        None => Places::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Refusal::Invalid(format!("the position is none that this broker gave: {error}"))
        })?,
    };
    let mut topics: Vec<(String, bool)> = Vec::new();
    let delays = look.delays();
    let waiting = delays.topics().into_iter().map(|(topic, _)| topic).chain(delays.earlier());
    topics.extend(waiting.map(|topic| (topic.to_string(), true)));
    topics.push((flow.dead_letter.topic.clone(), false));
    topics.push((names::parking(&flow).to_owned(), false));
    topics.extend(flow.foreign.iter().map(|topic| (topic.clone(), false)));
    let mut seen = std::collections::BTreeSet::new();
    topics.retain(|(topic, _)| seen.insert(topic.clone()));
    let known = places.clone();
    let inner = Arc::clone(look);
    let piles = look
        .ask(move |consumer| {
            // What was passed is asked for all topics before their ends are: a record that is moved on meanwhile lies in
            // one of them, and is seen in both at worst.
            let mut all = Vec::new();
            for (topic, waits) in topics {
                let Some(shape) = look::shape(consumer, &topic)? else { continue };
                let passed =
                    if waits { finished::of_waiting(&inner, &topic, shape.partitions)? } else { Vec::new() };
                all.push((topic, waits, shape.partitions, passed));
            }
            let mut piles = Vec::new();
            for (topic, waits, partitions, passed) in all {
                let mut spans = Vec::new();
                for partition in 0..partitions {
                    let Some((low, high)) = look::ends(consumer, &topic, partition)? else { continue };
                    let index = partition as usize;
                    let kept = known.get(&topic).and_then(|offsets| offsets.get(index)).copied();
                    // A topic that was made anew begins anew.
                    let kept = kept.filter(|kept| *kept <= high).unwrap_or(low);
                    let passed = passed.get(index).cloned().flatten().unwrap_or_default();
                    spans.push(Span {
                        partition,
                        next: kept.max(low).max(passed.lowest.min(high)),
                        end: high,
                        without: passed.beyond,
                    });
                }
                piles.push(Pile { topic: topic.into(), spans, waits });
            }
            Ok(piles)
        })
        .await?;
    Ok(Box::new(TopicShelves {
        look: Arc::clone(look),
        places,
        reading: Some(Reading::Begun(piles)),
        own: true,
    }))
}

/// Messages of the flow's source, or of its shelves.
pub(crate) struct TopicShelves {
    look: Arc<Look>,
    places: Places,
    /// Away while a thread reads.
    reading: Option<Reading>,
    /// Whether they are the flow's shelves; else its source.
    own: bool,
}

enum Reading {
    Begun(Vec<Pile>),
    On(Box<ReadBack>),
}

impl TopicShelves {
    /// Reads the source once more.
    pub(crate) fn of_source(look: &Arc<Look>, piles: Vec<Pile>) -> Self {
        Self {
            look: Arc::clone(look),
            places: Places::new(),
            reading: Some(Reading::Begun(piles)),
            own: false,
        }
    }

    async fn read(&mut self, most: usize) -> Result<Vec<Delivery>, PortError> {
        let Some(reading) = self.reading.take() else {
            return Err(PortError::Unavailable("the shelves are being read".to_owned()));
        };
        let look = Arc::clone(&self.look);
        let asked = tokio::task::spawn_blocking(move || {
            let mut reading = match reading {
                Reading::On(reading) => reading,
                Reading::Begun(piles) => match look.consumer(&look.flow().groups.ledger) {
                    Ok(consumer) => {
                        Box::new(ReadBack::new(consumer, Carver::new(look.rules(), look.flow()), piles))
                    }
                    Err(error) => return (Reading::Begun(piles), Vec::new(), Err(error)),
                },
            };
            let mut steps = Vec::new();
            let read =
                reading.next(most, |topic, partition, next| steps.push((topic.to_owned(), partition, next)));
            (Reading::On(reading), steps, read)
        });
        let (reading, steps, read) =
            asked.await.map_err(|error| PortError::Unavailable(format!("reading the shelves: {error}")))?;
        self.reading = Some(reading);
        // Without an answer nothing was handed out: the next one begins where this one did.
        let read = read?;
        for (topic, partition, next) in steps {
            let offsets = self.places.entry(topic).or_default();
            let index = usize::try_from(partition).unwrap_or_default();
            if offsets.len() <= index {
                offsets.resize(index + 1, 0);
            }
            offsets[index] = next;
        }
        Ok(read)
    }
}

#[async_trait]
impl Shelves for TopicShelves {
    async fn next(&mut self, most: usize) -> Result<Vec<Shelved>, PortError> {
        loop {
            let read = self.read(most).await?;
            let is_end = read.is_empty();
            let shelved = self.shelve(read).await?;
            // Nothing at all says that nothing is left.
            if is_end || !shelved.is_empty() {
                return Ok(shelved);
            }
        }
    }

    fn position(&self) -> String {
        serde_json::to_string(&self.places).unwrap_or_default()
    }
}

impl TopicShelves {
    async fn shelve(&self, read: Vec<Delivery>) -> Result<Vec<Shelved>, PortError> {
        let flow = self.look.flow().clone();
        let mut shelved = Vec::with_capacity(read.len());
        for mut delivery in read {
            if !self.own {
                let (state, foreign, bodiless) = (EntryState::Replaying, false, false);
                shelved.push(Shelved { delivery, state, foreign, bodiless, carries_body: true });
                continue;
            }
            let (state, foreign) = standing(&flow, &delivery);
            // It is in the ledger of the service that it belongs to.
            if !foreign && delivery.trail.left_to().is_some() {
                continue;
            }
            if self.look.flow().dead_letter.format == DeadLetterFormat::Envelope {
                let parts = &mut *delivery;
                unwrap_envelope(&mut parts.message, &parts.trail, &self.look.rules());
            }
            let mut bodiless = fetch::leaves_body(&flow, &delivery);
            // What had to be fetched elsewhere may be gone there before it is gone here.
            let carries_body = !bodiless && delivery.message.body.is_some();
            if let Some(original) = Original::of(&flow, &delivery)
                && let Some(message) = fetch::fetch(&self.look, &original).await?
            {
                fetch::fill(&self.look, &mut delivery, message);
                bodiless = false;
            }
            shelved.push(Shelved { delivery, state, foreign, bodiless, carries_body });
        }
        Ok(shelved)
    }
}

impl Drop for TopicShelves {
    fn drop(&mut self) {
        // Ending a consumer waits for its threads.
        if let (Some(reading), Ok(runtime)) = (self.reading.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn_blocking(move || drop(reading));
        }
    }
}

/// Where a message stands by the topic that it lies in, and whether another system put it there.
fn standing(flow: &KafkaFlow, delivery: &Delivery) -> (EntryState, bool) {
    let topic = &*delivery.source.name;
    let foreign = flow.foreign.iter().any(|other| other == topic) || delivery.trail.entry_id.is_none();
    let both = flow.parking == Parking::Same && topic == flow.dead_letter.topic;
    let state = if both && !foreign && delivery.message.headers.contains(PARKED) {
        EntryState::Parked
    } else if topic == flow.dead_letter.topic || flow.foreign.iter().any(|other| other == topic) {
        EntryState::Dead
    } else if topic == names::parking(flow) {
        EntryState::Parked
    } else {
        EntryState::Waiting
    };
    (state, foreign)
}

#[cfg(test)]
mod tests;
