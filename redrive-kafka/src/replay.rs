//! Messages of a flow's source once more.

use std::sync::Arc;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::topic_partition_list::Offset;
use redrive_core::Timestamp;
use redrive_engine::port::{PortError, Refusal, Shelves, SourceRange};

use crate::client::ANSWER;
use crate::look::{self, Look, Onlooker};
use crate::read_back::{Pile, Span};
use crate::shelves::TopicShelves;

/// Reads a range of the flow's source, as it was published. What is no longer there is left out.
pub(crate) async fn reread(look: &Arc<Look>, range: &SourceRange) -> Result<Box<dyn Shelves>, PortError> {
    let topics = look.flow().topics.clone();
    let range = range.clone();
    if let SourceRange::Offsets(spans) = &range {
        if topics.len() != 1 {
            let text = "the flow reads several topics, and an offset is one of a single topic: name a time";
            return Err(Refusal::Invalid(text.to_owned()).into());
        }
        if let Some((partition, first, last)) =
            spans.iter().find(|(_, first, last)| *first < 0 || last < first)
        {
            let text = format!("partition {partition} has no offsets from {first} to {last}");
            return Err(Refusal::Invalid(text).into());
        }
    }
    let piles = look
        .ask(move |consumer| {
            topics.iter().map(|topic| pile(consumer, topic, &range)).collect::<Result<Vec<_>, _>>()
        })
        .await?;
    Ok(Box::new(TopicShelves::of_source(look, piles)))
}

fn pile(consumer: &Onlooker, topic: &str, range: &SourceRange) -> Result<Pile, PortError> {
    let Some(shape) = look::shape(consumer, topic)? else {
        return Err(Refusal::NotFound { what: "the topic", name: topic.to_owned() }.into());
    };
    let mut spans = Vec::new();
    match range {
        SourceRange::Since { from, to } => {
            let starts = at_time(consumer, topic, shape.partitions, *from)?;
            let ends = match to {
                Some(to) => at_time(consumer, topic, shape.partitions, *to)?,
                None => vec![None; starts.len()],
            };
            for (partition, (start, end)) in (0..).zip(starts.into_iter().zip(ends)) {
                let Some((low, high)) = look::ends(consumer, topic, partition)? else { continue };
                // Nothing is that late: the end.
                let next = start.unwrap_or(high).max(low);
                spans.push(Span { partition, next, end: end.unwrap_or(high).min(high), without: Vec::new() });
            }
        }
        SourceRange::Offsets(asked) => {
            for (partition, first, last) in asked {
                let ends = if *partition < shape.partitions && *partition >= 0 {
                    look::ends(consumer, topic, *partition)?
                } else {
                    None
                };
                let Some((low, high)) = ends else {
                    let name = format!("{topic}/{partition}");
                    return Err(Refusal::NotFound { what: "the partition", name }.into());
                };
                let end = last.saturating_add(1).min(high);
                spans.push(Span { partition: *partition, next: (*first).max(low), end, without: Vec::new() });
            }
        }
    }
    Ok(Pile { topic: topic.into(), spans, waits: false })
}

/// The first offset of each partition whose record is not older; nothing when all are.
pub(crate) fn at_time(
    consumer: &Onlooker,
    topic: &str,
    partitions: i32,
    time: Timestamp,
) -> Result<Vec<Option<i64>>, PortError> {
    look::again(&format!("cannot find a time in `{topic}`"), || {
        let mut asked = TopicPartitionList::new();
        for partition in 0..partitions {
            asked.add_partition_offset(topic, partition, Offset::Offset(time.as_millis().max(0)))?;
        }
        let answer = consumer.offsets_for_times(asked, ANSWER)?;
        let mut found = vec![None; usize::try_from(partitions).unwrap_or_default()];
        for element in answer.elements() {
            element.error()?;
            let place = usize::try_from(element.partition()).ok().and_then(|place| found.get_mut(place));
            if let (Offset::Offset(offset), Some(place)) = (element.offset(), place) {
                *place = Some(offset);
            }
        }
        Ok(found)
    })
}

#[cfg(test)]
mod tests;
