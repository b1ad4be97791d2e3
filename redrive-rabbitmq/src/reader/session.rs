//! One channel that the flow reads, until it is lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use redrive_engine::port::{Delivery, PortError, Tag};

use super::book::Book;
use crate::link;
use crate::positions::StreamPosition;

/// A channel with what is open on it.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its number: a tag is valid on one channel alone.
    pub(crate) epoch: u32,
    pub(crate) channel: Channel,
    book: Mutex<Book>,
    /// Frames go out in the order in which the book gave them. Of a stream: the position that was kept last.
    answering: tokio::sync::Mutex<Option<i64>>,
    /// Where the position of a stream is kept.
    position: Option<StreamPosition>,
}

/// Why deliveries were not released.
#[derive(Debug)]
pub(crate) enum NotReleased {
    /// The channel is gone: they come again.
    Lost,
    /// Their position could not be kept: they are open as before.
    NotKept(PortError),
}

impl Session {
    pub(crate) fn new(epoch: u32, channel: Channel, position: Option<StreamPosition>) -> Self {
        Self { epoch, channel, book: Mutex::default(), answering: tokio::sync::Mutex::default(), position }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a delivery of this channel is still to be answered.
    pub(crate) fn has(&self, tag: Tag) -> bool {
        tag.epoch == self.epoch && self.channel.status().connected() && self.book().has(tag.number)
    }

    /// Releases deliveries. Whether the broker heard of it nobody knows for sure: if not, they come again.
    ///
    /// Of a stream, the position is durable before anything else happens.
    pub(crate) async fn release(&self, tags: &[u64]) -> Result<(), NotReleased> {
        let mut kept = self.answering.lock().await;
        if let Some(position) = &self.position {
            let next = self.book().position_without(tags);
            if let Some(next) = next.filter(|next| kept.is_none_or(|kept| kept < *next)) {
                position.keep(next).await.map_err(NotReleased::NotKept)?;
                *kept = Some(next);
            }
        }
        let answers = self.book().finish(tags);
        let acks = answers
            .into_iter()
            .map(|answer| self.channel.basic_ack(answer.tag, BasicAckOptions { multiple: answer.multiple }));
        let acked: Result<(), lapin::Error> = join_all(acks).await.into_iter().collect();
        acked.map_err(|_| NotReleased::Lost)
    }

    /// Rejects a delivery: the queue's own dead-letter exchange takes it.
    pub(crate) async fn reject(&self, tag: u64) -> Result<(), lapin::Error> {
        let _turn = self.answering.lock().await;
        if !self.book().close(tag) {
            return Ok(());
        }
        self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }).await
    }

    /// A delivery comes back from the flow, to be handed out again.
    pub(crate) fn give_back(&self, delivery: &Delivery) -> bool {
        if !self.has(delivery.tag) {
            return false;
        }
        self.book().comes_back(delivery.clone());
        true
    }

    /// Ends the channel: all that is open on it goes back to its queue, in its order.
    pub(crate) async fn end(&self) {
        link::close(&self.channel).await;
    }
}
