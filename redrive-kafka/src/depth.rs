//! How much lies in the topics of a flow.
//!
//! Offsets count the marks of transactions too, so what a few offsets hold is looked at; where there are many the marks
//! are lost among them.

use std::sync::Arc;

use redrive_core::Timestamp;
use redrive_engine::port::{Depth, HeaderRules, PortError, QueueInfo};

use crate::delay::names;
use crate::finished;
use crate::look::{self, Look, Onlooker, Shape};
use crate::position::Position;
use crate::read_back::{Pile, ReadBack, Span};
use crate::record::Carver;

/// A partition with no more offsets than this is counted record by record.
const COUNTED: i64 = 100;

/// What of a topic its group has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lag {
    /// The topic.
    pub(crate) topic: Arc<str>,
    /// Records that are not finished, over all partitions.
    pub(crate) records: u64,
    /// When the oldest of them was appended, where that was asked for.
    pub(crate) oldest: Option<Timestamp>,
}

/// What the main group has not finished of the source.
pub(crate) async fn of_source(look: &Arc<Look>) -> Result<Vec<Lag>, PortError> {
    let topics = look.flow().topics.iter().map(|topic| Arc::from(topic.as_str())).collect();
    lag(look, Of::Group(look.flow().groups.main.clone()), topics, false).await
}

/// What waits, and since when the oldest of it does.
pub(crate) async fn waiting(look: &Arc<Look>) -> Result<Vec<Lag>, PortError> {
    let delays = look.delays();
    let topics = delays.topics().into_iter().map(|(topic, _)| topic).chain(delays.earlier()).collect();
    lag(look, Of::Waiting, topics, true).await
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
    for lag in lag(look, Of::Nobody, topics, false).await? {
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

async fn lag(look: &Arc<Look>, of: Of, topics: Vec<Arc<str>>, oldest: bool) -> Result<Vec<Lag>, PortError> {
    let inner = Arc::clone(look);
    look.ask(move |consumer| {
        let mut lags = Vec::new();
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
            lags.push(count(&inner, topic, spans, oldest)?);
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

fn count(look: &Look, topic: Arc<str>, spans: Vec<Span>, oldest: bool) -> Result<Lag, PortError> {
    let (few, many): (Vec<Span>, Vec<Span>) =
        spans.into_iter().filter(|span| open(span) > 0).partition(|span| open(span) <= COUNTED);
    let mut records: u64 = many.iter().map(|span| open(span).cast_unsigned()).sum();
    // Of a long one the first few say how old it is.
    let first = |span: Span| Span { end: span.end.min(span.next + COUNTED), ..span };
    let sampled: Vec<Span> = if oldest { many.into_iter().map(first).collect() } else { Vec::new() };
    let counted: Vec<i32> = few.iter().map(|span| span.partition).collect();
    let spans: Vec<Span> = few.into_iter().chain(sampled).collect();
    let mut since: Option<Timestamp> = None;
    if !spans.is_empty() {
        let consumer = look.consumer(&look.flow().groups.ledger)?;
        let pile = Pile { topic: Arc::clone(&topic), spans, waits: false };
        let mut reading =
            ReadBack::new(consumer, Carver::new(HeaderRules::default(), look.flow()), vec![pile]);
        loop {
            let read = reading.next(1_000, |_, _, _| {})?;
            if read.is_empty() {
                break;
            }
            for one in read {
                let partition = one.delivery.source.partition.unwrap_or(-1);
                records += u64::from(counted.contains(&partition));
                since = Some(since.map_or(one.at, |since| since.min(one.at)));
            }
        }
    }
    Ok(Lag { topic, records, oldest: since.filter(|_| oldest) })
}

#[cfg(test)]
mod tests;
