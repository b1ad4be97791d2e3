//! The floor: the same reads, copies and acknowledgements by nothing but the client library.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bench::Measured;
use bench::numbered::number_of;
use futures_util::StreamExt as _;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ConfirmSelectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer, PublisherConfirm};
use tokio::sync::mpsc;

use crate::rabbit::{PREFETCH, Rabbit, publish, taken};

/// Messages of one acknowledgement: so few that the broker always has leave to send more.
const BATCH: u64 = 64;
const ALL_BEFORE: BasicAckOptions = BasicAckOptions { multiple: true };

pub(crate) async fn consumer(connection: &Connection, queue: &str) -> Measured<(Channel, Consumer)> {
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(queue.into(), "bare".into(), options, arguments).await?;
    Ok((channel, consumer))
}

/// Reads so many messages and acknowledges them, many with one word.
pub(crate) async fn read(rabbit: &Rabbit, queue: &str, messages: u64) -> Measured<Duration> {
    let connection = rabbit.connect().await?;
    let (channel, mut consumer) = consumer(&connection, queue).await?;
    let mut began = None;
    for seen in 1..=messages {
        let delivery = consumer.next().await.ok_or("the broker sends no more")??;
        began.get_or_insert_with(Instant::now);
        black_box(&delivery.data);
        if seen % BATCH == 0 || seen == messages {
            channel.basic_ack(delivery.delivery_tag, ALL_BEFORE).await?;
        }
    }
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    // The broker has read what was sent before it says that it closes.
    connection.close(200, "read".into()).await?;
    Ok(took)
}

/// Copies that are under way, and the last message that they were made of or that came with them.
struct Batch {
    copies: Vec<PublisherConfirm>,
    last: u64,
}

/// Reads all, publishes a copy of one in so many to another queue, and acknowledges what was read when the copies are
/// confirmed. It reads on meanwhile.
pub(crate) async fn divert(
    rabbit: &Rabbit,
    queue: &str,
    target: &str,
    messages: u64,
    every: u64,
) -> Measured<Duration> {
    // As a flow does: a broker that is short of memory stops reading from those that write.
    let (reading, writing) = (rabbit.connect().await?, rabbit.connect().await?);
    let (channel, mut consumer) = consumer(&reading, queue).await?;
    let copies = writing.create_channel().await?;
    copies.confirm_select(ConfirmSelectOptions::default()).await?;
    let (confirming, batches) = mpsc::unbounded_channel();
    let releasing = tokio::spawn(release(channel.clone(), batches));
    let mut began = None;
    let mut batch = Vec::new();
    for seen in 1..=messages {
        let delivery = consumer.next().await.ok_or("the broker sends no more")??;
        began.get_or_insert_with(Instant::now);
        if number_of(Some(&delivery.data)).is_some_and(|number| number.is_multiple_of(every)) {
            batch.push(publish(&copies, target, &delivery.data).await?);
        }
        if seen % BATCH == 0 || seen == messages {
            let copies = std::mem::take(&mut batch);
            confirming.send(Batch { copies, last: delivery.delivery_tag })?;
        }
    }
    drop(confirming);
    releasing.await??;
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    reading.close(200, "read".into()).await?;
    writing.close(200, "written".into()).await?;
    Ok(took)
}

async fn release(channel: Channel, mut batches: mpsc::UnboundedReceiver<Batch>) -> Measured<()> {
    while let Some(Batch { copies, last }) = batches.recv().await {
        for copy in copies {
            taken(copy).await?;
        }
        channel.basic_ack(last, ALL_BEFORE).await?;
    }
    Ok(())
}
