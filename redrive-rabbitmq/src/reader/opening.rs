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
/// A channel that was read for so long was a good one.
pub(super) const STEADY: Duration = Duration::from_secs(5);
/// So many that were not, one after the other, are told.
const BROKEN_OFF: u32 = 3;
/// The name of the alarm.
const ALARM: &str = "reading_breaks_off";

/// How long to wait after so many channels in a row that were lost at once.
fn wait_after(lost: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << lost.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

impl Reader {
    /// Opens a channel and begins to read what the flow reads.
    pub(super) async fn open(&self) -> Result<Opened, PortError> {
        let Reading { flow, link, epochs, alarms, .. } = &self.with;
        let channel = link.channel().await?;
        let doing = format!("cannot read the queue `{}`", flow.queue);
        let away = |error: lapin::Error| trouble::away(&doing, &error);
        if flow.alone {
            self.take_place(&channel).await?;
        }
        channel.basic_qos(flow.prefetch, BasicQosOptions::default()).await.map_err(away)?;
        let epoch = epochs.fetch_add(1, Ordering::Relaxed);
        let from = match &self.with.position {
            Some(position) => from_offset(position.load().await?),
            None => FieldTable::default(),
        };
        let source = self.consume(&channel, &flow.queue, epoch, from).await?;
        alarms.clear("queue_missing", &flow.queue);
        let others = async {
            let mut others = [None, None];
            let stream = flow.kind == QueueKind::Stream;
            let queues = [Some(names::stray(flow)), stream.then(|| names::retry(flow))];
            for (other, queue) in others.iter_mut().zip(queues) {
                if let Some(queue) = queue.filter(|_| flow.waits()) {
                    *other = Some(self.consume(&channel, &queue, epoch, FieldTable::default()).await?);
                }
            }
            Ok(others)
        };
        // Messages of the source may have come by then.
        let [stray, due] = others.await.inspect_err(|error| {
            if let PortError::Unavailable(_) = error {
                self.breaks_off(error);
            }
        })?;
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
        let tag = format!("{}-{epoch}-{queue}", self.with.flow.instance);
        let tag = link::short(&tag).or_else(|_| link::short(""))?;
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(link::short(queue)?, tag, options, arguments);
        match consuming.await {
            Ok(consumer) => Ok(consumer),
            Err(error) => Err(self.cannot_read(queue, &error)),
        }
    }

    /// Why a queue is not read. One that is missing is told.
    pub(super) fn cannot_read(&self, queue: &str, error: &lapin::Error) -> PortError {
        if trouble::no(error) != Some(No::NotFound) {
            return trouble::asked(&format!("cannot read the queue `{queue}`"), error);
        }
        let refusal = Refusal::NotFound { what: "queue", name: queue.to_owned() };
        let why = format!("{refusal}; nothing is read until it is made");
        self.with.alarms.raise("queue_missing", queue, why);
        refusal.into()
    }

    /// A channel was lost as soon as it was read. Answers with how long to wait before there is another: what ended it may
    /// do so each time.
    pub(super) fn breaks_off(&self, error: &PortError) -> Duration {
        let lost = self.broken_off.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if lost >= BROKEN_OFF {
            let queue = &self.with.flow.queue;
            let why = format!(
                "reading `{queue}` breaks off as soon as it begins, {lost} times by now: {error}; if the server is well, the first message in the queue is one that cannot be read: look at it there, and take it out"
            );
            self.with.alarms.raise(ALARM, queue, why);
        }
        wait_after(lost)
    }

    /// A channel is read well.
    pub(super) fn is_steady(&self) {
        if self.broken_off.swap(0, Ordering::Relaxed) >= BROKEN_OFF {
            self.with.alarms.clear(ALARM, &self.with.flow.queue);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_longer_up_to_the_longest() {
        let waits: Vec<u128> = (1..=9).map(|lost| wait_after(lost).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
