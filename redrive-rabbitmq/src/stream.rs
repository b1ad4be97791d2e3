//! Messages of a stream once more.
//!
//! A stream tells its last offset only by handing out its end. So the end is looked at first, and what lies between is
//! read up to there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer};
use redrive_core::Timestamp;
use redrive_engine::port::{EntryState, PortError, Refusal, Shelved, Shelves, SourceRange, Tag};
use tokio::time::Instant;

use crate::link::{self, Link};
use crate::reader::Carver;
use crate::wire::{self, OFFSET};
use crate::{RabbitFlow, trouble};

/// How many messages are on their way at once.
const AHEAD: u16 = 200;
/// A stream that hands out nothing for so long has come to its end.
const SILENCE: Duration = Duration::from_millis(1_500);
/// How long its end is looked for: one that grows all the time never falls silent.
const LOOKING: Duration = Duration::from_secs(10);

/// A part of a stream.
struct StreamShelves {
    queue: String,
    channel: Channel,
    consumer: Consumer,
    carver: Arc<Carver>,
    /// The first and the last offset that are wanted.
    first: i64,
    last: i64,
    /// The times that are wanted, where messages tell theirs.
    since: Option<(Timestamp, Option<Timestamp>)>,
    done: bool,
}

/// Reads a range of the flow's stream, as it was published.
pub(crate) async fn reread(
    flow: &RabbitFlow,
    link: &Link,
    carver: Arc<Carver>,
    range: &SourceRange,
) -> Result<Box<dyn Shelves>, PortError> {
    let wrong = |text: String| PortError::from(Refusal::Invalid(text));
    let (from, first, last, since) = match range {
        SourceRange::Offsets(spans) => {
            let [(0, first, last)] = spans[..] else {
                return Err(wrong(
                    "a stream has one row of offsets: name one range of partition 0".to_owned(),
                ));
            };
            if first < 0 || last < first {
                return Err(wrong(format!("there are no offsets from {first} to {last}")));
            }
            (AMQPValue::LongLongInt(first), first, last, None)
        }
        SourceRange::Since { from, to } => {
            let seconds = u64::try_from(from.as_millis() / 1_000).unwrap_or(0);
            (AMQPValue::Timestamp(seconds), 0, i64::MAX, Some((*from, *to)))
        }
    };
    let end = end_of(flow, link).await?;
    let channel = link.channel().await?;
    let consumer = consume(flow, &channel, from).await?;
    let last = last.min(end.unwrap_or(-1));
    Ok(Box::new(StreamShelves {
        queue: flow.queue.clone(),
        channel,
        consumer,
        carver,
        first,
        last,
        since,
        done: last < first,
    }))
}

async fn consume(flow: &RabbitFlow, channel: &Channel, from: AMQPValue) -> Result<Consumer, PortError> {
    let doing = format!("cannot read the stream `{}`", flow.queue);
    let asked = |error: lapin::Error| trouble::asked(&doing, &error);
    channel.basic_qos(AHEAD, BasicQosOptions::default()).await.map_err(asked)?;
    let mut arguments = FieldTable::default();
    arguments.insert(OFFSET.into(), from);
    let options = BasicConsumeOptions::default();
    let queue = link::short(&flow.queue)?;
    channel.basic_consume(queue, "".into(), options, arguments).await.map_err(asked)
}

/// The last offset, or one that was the last a moment ago; nothing when there is none.
async fn end_of(flow: &RabbitFlow, link: &Link) -> Result<Option<i64>, PortError> {
    let channel = link.channel().await?;
    let mut consumer = consume(flow, &channel, AMQPValue::LongString("last".into())).await?;
    let until = Instant::now() + LOOKING;
    let mut end = None;
    while Instant::now() < until {
        let Ok(next) = tokio::time::timeout(SILENCE, consumer.next()).await else { break };
        let delivery = delivered(&flow.queue, next)?;
        end = wire::offset_of(&delivery.properties).max(end);
        let _ = delivery.ack(BasicAckOptions::default()).await;
    }
    if end.is_none() {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let asked = channel.queue_declare(link::short(&flow.queue)?, options, FieldTable::default()).await;
        let counted = asked.map_err(|error| trouble::asked("cannot look at a stream", &error))?;
        if counted.message_count() > 0 {
            let text = format!("the stream `{}` hands out nothing, and is not empty", flow.queue);
            return Err(PortError::Unavailable(text));
        }
    }
    link::close(&channel).await;
    Ok(end)
}

/// A delivery, or why there is none.
fn delivered(
    queue: &str,
    next: Option<lapin::Result<lapin::message::Delivery>>,
) -> Result<lapin::message::Delivery, PortError> {
    match next {
        Some(Ok(delivery)) => Ok(delivery),
        Some(Err(error)) => Err(trouble::away(&format!("cannot read the stream `{queue}`"), &error)),
        None => Err(PortError::Unavailable(format!("the stream `{queue}` is not read any more"))),
    }
}

#[async_trait]
impl Shelves for StreamShelves {
    async fn next(&mut self, most: usize) -> Result<Vec<Shelved>, PortError> {
        let mut shelved = Vec::new();
        while !self.done && shelved.len() < most {
            let Ok(next) = tokio::time::timeout(SILENCE, self.consumer.next()).await else {
                if self.since.is_none() {
                    return Err(PortError::Unavailable(format!(
                        "the stream `{}` hands out nothing, and has not come to offset {}",
                        self.queue, self.last
                    )));
                }
                self.done = true;
                break;
            };
            let delivery = delivered(&self.queue, next)?;
            let Some(offset) = wire::offset_of(&delivery.properties) else { continue };
            let acked = delivery.ack(BasicAckOptions::default()).await;
            acked.map_err(|error| trouble::away("cannot read a stream", &error))?;
            self.done = offset >= self.last;
            if offset < self.first || offset > self.last {
                continue;
            }
            let told = delivery.properties.timestamp().is_some();
            let mut found = self.carver.carve(delivery, 0, false, Timestamp::from_millis(0)).delivery;
            let outside = self.since.is_some_and(|(from, to)| {
                told && (found.ready_at < whole_second(from) || to.is_some_and(|to| found.ready_at >= to))
            });
            if outside {
                continue;
            }
            found.tag = Tag::APART;
            shelved.push(Shelved {
                delivery: found,
                state: EntryState::Replaying,
                foreign: false,
                bodiless: false,
                carries_body: false,
            });
        }
        if self.done && shelved.is_empty() {
            link::close(&self.channel).await;
        }
        Ok(shelved)
    }

    fn position(&self) -> String {
        String::new()
    }
}

/// Messages tell their time in seconds.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_millis(time.as_millis() / 1_000 * 1_000)
}
