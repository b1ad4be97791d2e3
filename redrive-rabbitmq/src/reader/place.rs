//! The place of a reader that has to be alone, since it keeps order in a ledger that no other has.
//!
//! RabbitMQ lets any number of consumers read a quorum queue, also where each asks to be the only one. So an exclusive
//! queue, which never has a message, stands for the place: the broker gives it to one connection, and deletes it with that.
//! Who reads without asking for the place is counted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lapin::Channel;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use redrive_engine::port::{PortError, Refusal};

use super::pump::{Opened, Reader};
use crate::trouble::{self, No};
use crate::{link, names};

/// The name of the alarm.
const ALARM: &str = "not_alone";
/// How long a start waits for the place, step by step: whoever has just ended, or lost its connection, may have it for a
/// moment.
const WAITS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
/// So many tries in a row that found somebody are told.
const TOLD: u32 = 4;

/// What is said when others read.
pub(crate) fn others_read(who: &str, queue: &str) -> PortError {
    Refusal::State(format!(
        "{who} the queue `{queue}`, and share no ledger with this flow: what waits may be in their hands; stop them, or use a ledger that all of them share"
    ))
    .into()
}

impl Reader {
    /// Opens a channel for the first time. Whoever has the place for longer than a moment keeps it.
    pub(super) async fn open_first(&self) -> Result<Opened, PortError> {
        for wait in WAITS {
            let found = self.not_alone.load(Ordering::Relaxed);
            match self.open().await {
                Err(_) if self.not_alone.load(Ordering::Relaxed) > found => tokio::time::sleep(wait).await,
                opened => return opened,
            }
        }
        self.open().await
    }

    /// Takes the place with the connection of this channel, before anything is read.
    pub(super) async fn take_place(&self, channel: &Channel) -> Result<(), PortError> {
        let queue = &self.with.flow.queue;
        let Some(others) = self.others(channel).await? else {
            self.not_alone.store(0, Ordering::Relaxed);
            self.with.alarms.clear(ALARM, queue);
            return Ok(());
        };
        let refused = others_read(&others, queue);
        if self.not_alone.fetch_add(1, Ordering::Relaxed) >= TOLD {
            self.with.alarms.raise(ALARM, queue, format!("nothing is read: {refused}"));
        }
        Err(refused)
    }

    /// Who has the place, or reads without it.
    async fn others(&self, channel: &Channel) -> Result<Option<String>, PortError> {
        let flow = &self.with.flow;
        // A flow that makes nothing has no right to: it counts, and no more.
        if flow.makes {
            let place = names::place(flow);
            let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            let classic = AMQPValue::LongString("classic".into());
            let arguments = BTreeMap::from([("x-queue-type".into(), classic)]).into();
            match channel.queue_declare(link::short(&place)?, options, arguments).await {
                Ok(_) => {}
                Err(error) if trouble::no(&error) == Some(No::Taken) => {
                    return Ok(Some("other instances that keep order read".to_owned()));
                }
                Err(error) => {
                    return Err(trouble::asked(&format!("cannot make the queue `{place}`"), &error));
                }
            }
        }
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let counted = channel.queue_declare(link::short(&flow.queue)?, passive, FieldTable::default()).await;
        let counted = counted.map_err(|error| self.cannot_read(&flow.queue, &error))?;
        let others = counted.consumer_count();
        Ok((others > 0).then(|| format!("{others} others read")))
    }
}
