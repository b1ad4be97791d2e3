//! A RabbitMQ for this run, its queues, and messages in them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::{Measured, numbered};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm};
use testkit::Services;
use testkit::services::{Kind, Server};

/// How many messages the broker hands out before it waits for an answer.
pub(crate) const PREFETCH: u16 = 256;
/// How many messages are published before their confirmations are waited for.
const UNCONFIRMED: usize = 1_000;

/// A broker of this run alone.
pub(crate) struct Rabbit {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`.
    pub(crate) address: String,
    names: AtomicU64,
    /// It ends with this; nothing when another process has started it.
    #[expect(dead_code, reason = "it is kept for its end")]
    server: Option<Server>,
}

impl Rabbit {
    /// Starts it.
    pub(crate) fn start() -> Measured<Self> {
        let server = Services::connect().own(Kind::Rabbitmq).ok_or("there is no RabbitMQ to be had")?;
        let address = server.address().to_owned();
        Ok(Self { server: Some(server), ..Self::at(&address) })
    }

    /// One that another process has started.
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), names: AtomicU64::new(1), server: None }
    }

    /// A name that nothing has yet.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}-{}-{}", std::process::id(), self.names.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn connect(&self) -> Measured<Connection> {
        Ok(Connection::connect(&self.address, ConnectionProperties::default()).await?)
    }

    /// A new quorum queue.
    pub(crate) async fn queue(&self, what: &str) -> Measured<String> {
        self.queue_with(what, &[]).await
    }

    /// A new quorum queue with these arguments.
    pub(crate) async fn queue_with(&self, what: &str, more: &[(&str, AMQPValue)]) -> Measured<String> {
        let (name, connection) = (self.name(what), self.connect().await?);
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        for (name, value) in more {
            arguments.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let channel = connection.create_channel().await?;
        channel.queue_declare(name.as_str().into(), options, arguments).await?;
        connection.close(200, "made".into()).await?;
        Ok(name)
    }

    /// A new queue with so many numbered messages.
    pub(crate) async fn filled(&self, what: &str, messages: u64) -> Measured<String> {
        let queue = self.queue(what).await?;
        let mut writer = self.writer(&queue).await?;
        for number in 0..messages {
            writer.write(number).await?;
        }
        writer.end().await?;
        Ok(queue)
    }

    /// Writes numbered messages to a queue.
    pub(crate) async fn writer(&self, queue: &str) -> Measured<Writer> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Writer { _connection: connection, channel, queue: queue.to_owned(), under_way: Vec::new() })
    }

    /// Deletes queues.
    pub(crate) async fn delete(&self, queues: &[&str]) -> Measured<()> {
        self.delete_all(queues, &[]).await
    }

    /// Deletes exchanges, and then queues.
    pub(crate) async fn delete_all(&self, queues: &[&str], exchanges: &[&str]) -> Measured<()> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        for exchange in exchanges {
            channel.exchange_delete((*exchange).into(), ExchangeDeleteOptions::default()).await?;
        }
        for queue in queues {
            channel.queue_delete((*queue).into(), QueueDeleteOptions::default()).await?;
        }
        Ok(connection.close(200, "deleted".into()).await?)
    }
}

/// How every message is published: an answer when it finds no queue, and on the disk before it is confirmed.
pub(crate) async fn publish(channel: &Channel, queue: &str, body: &[u8]) -> lapin::Result<PublisherConfirm> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(2);
    channel.basic_publish("".into(), queue.into(), options, body, properties).await
}

/// Waits until the broker has a message.
pub(crate) async fn taken(confirm: PublisherConfirm) -> Measured<()> {
    let confirmation = confirm.await?;
    if confirmation.is_ack() && confirmation.take_message().is_none() {
        return Ok(());
    }
    Err("a message was not taken".into())
}

/// Writes messages.
pub(crate) struct Writer {
    _connection: Connection,
    channel: Channel,
    queue: String,
    under_way: Vec<PublisherConfirm>,
}

impl Writer {
    /// Writes one; waits while too many are under way.
    pub(crate) async fn write(&mut self, number: u64) -> Measured<()> {
        self.under_way.push(publish(&self.channel, &self.queue, &numbered::body(number)).await?);
        if self.under_way.len() >= UNCONFIRMED { self.end().await } else { Ok(()) }
    }

    /// Writes so many, so many a second, each with the number that is given when its turn comes.
    pub(crate) async fn write_paced(
        &mut self,
        messages: u64,
        per_second: u64,
        number: impl Fn(u64) -> u64,
    ) -> Measured<()> {
        let began = Instant::now();
        for turn in 0..messages {
            let at = began + Duration::from_micros(turn * 1_000_000 / per_second);
            tokio::time::sleep_until(at.into()).await;
            self.write(number(turn)).await?;
        }
        self.end().await
    }

    /// Waits until the broker has all.
    pub(crate) async fn end(&mut self) -> Measured<()> {
        for confirm in self.under_way.drain(..) {
            taken(confirm).await?;
        }
        Ok(())
    }
}
