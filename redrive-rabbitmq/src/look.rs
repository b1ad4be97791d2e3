//! Questions to the broker, beside reading and writing.

use std::sync::Arc;
use std::time::Duration;

use lapin::Channel;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use redrive_engine::port::PortError;

use crate::link::{self, Link};
use crate::trouble::{self, No};

/// How long an answer may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// What lies in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// Messages that nobody has in hand.
    pub(crate) ready: u64,
    /// Who reads it.
    pub(crate) consumers: u32,
}

/// Asks the broker. A question that is answered with no ends its channel, so there is always another.
#[derive(Debug)]
pub(crate) struct Look {
    link: Arc<Link>,
    channel: tokio::sync::Mutex<Option<Channel>>,
}

impl Look {
    /// Asks over this connection.
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, channel: tokio::sync::Mutex::default() }
    }

    /// Asks something, with a channel that is open.
    pub(crate) async fn ask<T>(
        &self,
        doing: &str,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<lapin::Result<T>, PortError> {
        let mut kept = self.channel.lock().await;
        let channel = match kept.take().filter(|channel| channel.status().connected()) {
            Some(channel) => channel,
            None => self.link.channel().await?,
        };
        let Ok(answer) = tokio::time::timeout(ANSWER, question(&channel)).await else {
            return Err(PortError::Unavailable(format!("{doing}: RabbitMQ does not answer")));
        };
        match &answer {
            Err(error) if trouble::no(error).is_none() => return Err(trouble::away(doing, error)),
            Ok(_) => *kept = Some(channel),
            Err(_) => {}
        }
        Ok(answer)
    }

    /// What lies in a queue; nothing when there is none.
    pub(crate) async fn count(&self, queue: &str) -> Result<Option<Counted>, PortError> {
        let doing = format!("cannot look at the queue `{queue}`");
        let name = link::short(queue)?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let asked = self
            .ask(&doing, async |channel| channel.queue_declare(name, options, FieldTable::default()).await);
        match asked.await? {
            Ok(queue) => {
                Ok(Some(Counted { ready: queue.message_count().into(), consumers: queue.consumer_count() }))
            }
            Err(error) if trouble::no(&error) == Some(No::NotFound) => Ok(None),
            Err(error) => Err(trouble::asked(&doing, &error)),
        }
    }
}
