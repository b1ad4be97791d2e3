//! Opening the channel that is read, at first and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer};
use redrive_engine::port::{PortError, Refusal};

use super::pump::{Opened, Reader, Reading};
use super::session::Session;
use crate::trouble::{self, No};
use crate::wire::OFFSET;
use crate::{QueueKind, link, names};

/// The first and the longest wait before a channel is opened again.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl Reader {
    /// Opens a channel and begins to read what the flow reads.
    pub(super) async fn open(&self) -> Result<Opened, PortError> {
        let Reading { flow, link, epochs, alarms, .. } = &self.with;
        let channel = link.channel().await?;
        let doing = format!("cannot read the queue `{}`", flow.queue);
        let away = |error: lapin::Error| trouble::away(&doing, &error);
        channel.basic_qos(flow.prefetch, BasicQosOptions::default()).await.map_err(away)?;
        let epoch = epochs.fetch_add(1, Ordering::Relaxed);
        let from = match &self.with.position {
            Some(position) => from_offset(position.load().await?),
            None => FieldTable::default(),
        };
        let source = self.consume(&channel, &flow.queue, epoch, from).await?;
        alarms.clear("queue_missing", &flow.queue);
        let stray = if flow.waits() {
            Some(self.consume(&channel, &names::stray(flow), epoch, FieldTable::default()).await?)
        } else {
            None
        };
        let due = if flow.kind == QueueKind::Stream && flow.waits() {
            Some(self.consume(&channel, &names::retry(flow), epoch, FieldTable::default()).await?)
        } else {
            None
        };
        let session = Arc::new(Session::new(epoch, channel, self.with.position.clone()));
        self.is_open(&session);
        self.arrived.notify_one();
        Ok(Opened { session, source, stray, due })
    }

    async fn consume(
        &self,
        channel: &Channel,
        queue: &str,
        epoch: u32,
        arguments: FieldTable,
    ) -> Result<Consumer, PortError> {
        let doing = format!("cannot read the queue `{queue}`");
        let tag = format!("{}-{epoch}-{queue}", self.with.flow.instance);
        let tag = link::short(&tag).or_else(|_| link::short(""))?;
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(link::short(queue)?, tag, options, arguments);
        match consuming.await {
            Ok(consumer) => Ok(consumer),
            Err(error) if trouble::no(&error) == Some(No::NotFound) => {
                let refusal = Refusal::NotFound { what: "queue", name: queue.to_owned() };
                let why = format!("{refusal}; nothing is read until it is made");
                self.with.alarms.raise("queue_missing", queue, why);
                Err(refusal.into())
            }
            Err(error) => Err(trouble::asked(&doing, &error)),
        }
    }

    /// Opens a channel again, however long it takes; nothing when nobody reads any more.
    pub(super) async fn reopen(&self) -> Option<Opened> {
        let mut wait = FIRST_WAIT;
        loop {
            let open = async {
                if self.with.flow.makes {
                    self.with.needs.restore().await?;
                }
                self.open().await
            };
            let opened = tokio::select! {
                () = self.stop.cancelled() => return None,
                opened = open => opened,
            };
            match opened {
                Ok(opened) => return Some(opened),
                Err(error) => {
                    let error = match error {
                        PortError::Refused(refusal) => PortError::Unavailable(refusal.to_string()),
                        other => other,
                    };
                    self.state().trouble = Some(error);
                    self.arrived.notify_one();
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            }
        }
    }
}

/// Where a stream is read from.
fn from_offset(next: Option<i64>) -> FieldTable {
    let mut arguments = FieldTable::default();
    let from = match next {
        Some(next) => AMQPValue::LongLongInt(next),
        None => AMQPValue::LongString("first".into()),
    };
    arguments.insert(OFFSET.into(), from);
    arguments
}
