//! How much lies in the topics of a flow.
//!
//! Offsets count the marks of transactions too, so what a few offsets hold is looked at; where there are many, or where
//! what they hold is large, the marks are lost among them.

use std::sync::Arc;

use redrive_engine::port::{Depth, HeaderRules, PortError, QueueInfo};

use crate::delay::names;
use crate::finished;
use crate::look::{self, Look, Onlooker, Shape};
use crate::position::Position;
use crate::read_back::{Pile, ReadBack, Span};
use crate::record::Carver;

/// A partition with no more offsets than this is counted record by record.
const COUNTED: i64 = 100;
/// How much is read for that, over all topics of one question: a question has to stay cheap.
const READ: usize = 8 << 20;

/// What of a topic its group has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lag {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// Records that are not finished, over all partitions.
    pub(crate) records: u64,
}

/// What the main group has not finished of the source.
pub(crate) async fn of_source(look: &Arc<Look>) -> Result<Vec<Lag>, PortError> {
    let topics = look.flow().topics.iter().map(|topic| Arc::from(topic.as_str())).collect();
    lag(look, Of::Group(look.flow().groups.main.clone()), topics).await
}

/// What waits.
pub(crate) async fn waiting(look: &Arc<Look>) -> Result<Vec<Lag>, PortError> {
    let delays = look.delays();
    let topics = delays.topics().into_iter().map(|(topic, _)| topic).chain(delays.earlier()).collect();
    lag(look, Of::Waiting, topics).await
}

/// The topics of the flow and what lies in them: of the source and the delay topics what is not finished, of the others
/// all that is kept.
pub(crate) async fn queues(look: &Arc<Look>) -> Result<Vec<QueueInfo>, PortError> {
    let info = |lag: Lag, depth: Depth| QueueInfo {
        name: lag.topic.to_string(),
        depth,
        limit: None,
        dedup_ms: None,
    };
    let mut queues = Vec::new();
    for lag in of_source(look).await? {
        let depth = Depth { ready: lag.records, waiting: 0 };
        queues.push(info(lag, depth));
    }
    for lag in waiting(look).await? {
        let depth = Depth { ready: 0, waiting: lag.records };
        queues.push(info(lag, depth));
    }
    let flow = look.flow();
    let mut shelves = vec![flow.dead_letter.topic.as_str(), names::parking(flow)];
    shelves.extend(flow.foreign.iter().map(String::as_str));
    shelves.sort_unstable();
    shelves.dedup();
    // Nobody finishes these: all that is kept counts.
    let topics = shelves.into_iter().map(Arc::from).collect();
    for lag in lag(look, Of::Nobody, topics).await? {
        let depth = Depth { ready: lag.records, waiting: 0 };
        queues.push(info(lag, depth));
    }
    Ok(queues)
}

/// Whose part of a topic is finished.
#[derive(Debug)]
enum Of {
    /// A group's.
    Group(String),
    /// That of the flow, of which messages wait.
    Waiting,
    /// Nobody's.
    Nobody,
}

async fn lag(look: &Arc<Look>, of: Of, topics: Vec<Arc<str>>) -> Result<Vec<Lag>, PortError> {
    let inner = Arc::clone(look);
    look.ask(move |consumer| {
        let mut lags = Vec::new();
        let mut room = READ;
        for topic in topics {
            let Some(Shape { partitions, .. }) = look::shape(consumer, &topic)? else { continue };
            let finished = match &of {
                Of::Group(group) => {
                    inner.ask_here(group, |member| look::committed(member, &topic, partitions))?
                }
                Of::Waiting => finished::of_waiting(&inner, &topic, partitions)?,
                Of::Nobody => vec![None; usize::try_from(partitions).unwrap_or_default()],
            };
            let spans = spans(consumer, &topic, finished)?;
            lags.push(count(&inner, topic, spans, &mut room)?);
        }
        Ok(lags)
    })
    .await
}

/// What of each partition is not finished.
fn spans(consumer: &Onlooker, topic: &str, finished: Vec<Option<Position>>) -> Result<Vec<Span>, PortError> {
    let mut spans = Vec::new();
    for (partition, position) in (0..).zip(finished) {
        let Some((low, high)) = look::ends(consumer, topic, partition)? else { continue };
        let position = position.unwrap_or_default();
        spans.push(Span { partition, next: position.lowest.max(low), end: high, without: position.beyond });
    }
    Ok(spans)
}

fn open(span: &Span) -> i64 {
    let finished: i64 =
        span.without.iter().map(|(first, end)| (end.min(&span.end) - first.max(&span.next)).max(0)).sum();
    (span.end - span.next - finished).max(0)
}

/// Counts what is open; `room` is how many bytes may be read for it.
fn count(look: &Look, topic: Arc<str>, spans: Vec<Span>, room: &mut usize) -> Result<Lag, PortError> {
    let (few, many): (Vec<Span>, Vec<Span>) =
        spans.into_iter().filter(|span| open(span) > 0).partition(|span| open(span) <= COUNTED);
    let by_offsets = |spans: &[Span]| spans.iter().map(|span| open(span).cast_unsigned()).sum::<u64>();
    let mut records = by_offsets(&many);
    if few.is_empty() || *room == 0 {
        return Ok(Lag { topic, records: records + by_offsets(&few) });
    }
    let consumer = look.consumer(&look.flow().groups.ledger)?;
    let pile = Pile { topic: Arc::clone(&topic), spans: few, waits: false };
    let mut reading = ReadBack::new(consumer, Carver::new(HeaderRules::default(), look.flow()), vec![pile]);
    let counted = reading.count(*room)?;
    *room = room.saturating_sub(counted.bytes);
    records += counted.records + by_offsets(&counted.left);
    Ok(Lag { topic, records })
}

#[cfg(test)]
mod tests;
