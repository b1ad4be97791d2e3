//! What lies in the dead-letter queues of a flow and in those of other systems.
//!
//! A queue cannot be looked at and left as it is: a message that is given back again and again is deleted at its delivery
//! limit. So each is read once. What the ledger takes over is released when the ledger has it, which is so when the next
//! ones are asked for; what stays is written to the end of its queue first.
//!
//! A message of another system may have no id, and be equal to another one. So each step of a look has a mark of its own,
//! from which the entries of such messages are made, and which is the look's position until they are released. Whoever
//! begins there after a crash makes the same entries of what comes again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use redrive_core::headers::Trail;
use redrive_core::{Message, Timestamp};
use redrive_engine::adapter::unwrap_envelope;
use redrive_engine::port::{
    Carried, Clock, Delivery, DeliveryParts, EntryState, HeaderRules, PortError, Refusal, Shelved, Shelves,
    SourceRef, Tag,
};

use crate::copy::{KIND, LEFT_BODY, fits};
use crate::likeness::{self, hashed};
use crate::link::{self, Link};
use crate::look::Look;
use crate::not_adopted::NotAdopted;
use crate::outbox::{Letter, NotTaken, Outbox};
use crate::reader::Carver;
use crate::wire::{self, PARKED, Purpose, Read};
use crate::{Adopt, DeadLetterFormat, Parking, RabbitFlow, names, trouble};

/// The position of a look that has seen the flow's own queues, with the mark of what it has not released.
const SEEN: &str = "seen";

/// What reading the shelves needs.
#[derive(Debug, Clone)]
pub(crate) struct With {
    pub(crate) flow: Arc<RabbitFlow>,
    pub(crate) link: Arc<Link>,
    pub(crate) look: Arc<Look>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) carver: Arc<Carver>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) not_adopted: Arc<NotAdopted>,
}

/// One queue to be read.
#[derive(Debug)]
struct Pile {
    queue: Arc<str>,
    /// How many lay in it when the look began.
    left: u64,
    /// Whether what is read stays there, at its end.
    stays: bool,
}

/// Messages that were read and are not released.
#[derive(Debug, Default)]
struct Held {
    channel: Option<Channel>,
    up_to: Option<u64>,
    /// What was handed out last, as it was read.
    read: Vec<Taken>,
    /// Whether something is kept in hand until the look ends.
    in_place: bool,
}

/// A message that was handed out.
#[derive(Debug)]
struct Taken {
    tag: u64,
    queue: Arc<str>,
    message: Message,
    /// Whether it stays in its queue, at its end.
    stays: bool,
}

/// The flow's shelves.
pub(crate) struct QueueShelves {
    with: With,
    piles: VecDeque<Pile>,
    held: Held,
    /// What the ledger did not take, by the queue that it was read from, and why.
    refused: BTreeMap<Arc<str>, Vec<String>>,
    /// The mark of the step that an earlier look may not have released.
    before: Option<uuid::Uuid>,
    /// The mark of the step that is not released.
    mark: Option<uuid::Uuid>,
    /// How many were alike so far.
    alike: HashMap<uuid::Uuid, u32>,
}

/// Opens the shelves: from the beginning all of them, later only those that are emptied.
pub(crate) async fn open(with: With, from: Option<&str>) -> Result<Box<dyn Shelves>, PortError> {
    let before = match from.filter(|position| *position != SEEN) {
        None => None,
        Some(position) => {
            let mark = position.strip_prefix(SEEN).and_then(|rest| rest.trim_start().parse().ok());
            let wrong = || Refusal::Invalid("the position is none that this broker gave".to_owned());
            Some(mark.ok_or_else(wrong)?)
        }
    };
    let flow = &with.flow;
    let into_ledger = flow.adopt == Adopt::IntoLedger;
    let mut queues: Vec<(&str, bool)> = Vec::new();
    if into_ledger || from.is_none() {
        queues.push((&flow.dead_letter.queue, !into_ledger));
        queues.push((names::parking(flow), !into_ledger));
    }
    queues.extend(flow.foreign.iter().map(|queue| (queue.as_str(), false)));
    let mut piles: VecDeque<Pile> = VecDeque::new();
    for (queue, stays) in queues {
        if piles.iter().any(|pile| *pile.queue == *queue) {
            continue;
        }
        let Some(counted) = with.look.count(queue).await? else { continue };
        let queue: Arc<str> = queue.into();
        if counted.ready == 0 {
            with.not_adopted.looked(&queue, &[]);
        } else if from.is_none() || with.not_adopted.is_due(&queue, counted.ready) {
            piles.push_back(Pile { queue, left: counted.ready, stays });
        }
    }
    let emptied = piles.iter().filter(|pile| !pile.stays);
    let refused = emptied.map(|pile| (Arc::clone(&pile.queue), Vec::new())).collect();
    let (mark, alike) = Default::default();
    Ok(Box::new(QueueShelves { with, piles, held: Held::default(), refused, before, mark, alike }))
}

impl QueueShelves {
    /// Releases what was handed out before; what stays is at the end of its queue by then. What cannot be written there is
    /// kept in hand, and is in its place again when the look ends.
    async fn release(&mut self) -> Result<(), PortError> {
        let Some(up_to) = self.held.up_to else { return Ok(()) };
        let (mut back, mut to): (Vec<Letter>, Vec<(u64, Arc<str>)>) = Default::default();
        let (mut done, mut in_place): (Vec<u64>, bool) = Default::default();
        let flow = Arc::clone(&self.with.flow.flow);
        let stays = |queue: &str, why: &dyn std::fmt::Display| {
            tracing::warn!(flow = &*flow, queue, error = %why, "a dead letter stays in its place");
        };
        for taken in &self.held.read {
            match taken.stays.then(|| self.to_the_end(taken)) {
                None => {}
                Some(Ok(letter)) => {
                    back.push(letter);
                    to.push((taken.tag, Arc::clone(&taken.queue)));
                    continue;
                }
                Some(Err(PortError::Refused(refusal))) => {
                    stays(&taken.queue, &refusal);
                    in_place = true;
                    continue;
                }
                Some(Err(error)) => return Err(error),
            }
            done.push(taken.tag);
        }
        for ((tag, queue), written) in to.into_iter().zip(self.with.outbox.write(&back).await) {
            let why = match written {
                Ok(()) => {
                    done.push(tag);
                    continue;
                }
                Err(NotTaken::NoExchange(error) | NotTaken::Away(error)) => return Err(error),
                Err(NotTaken::Refused(text)) => text,
                Err(NotTaken::Returned) => "the queue is gone".to_owned(),
                Err(NotTaken::Nacked) => "the queue is full, and takes nothing at its end".to_owned(),
            };
            stays(&queue, &why);
            in_place = true;
        }
        self.held.in_place |= in_place;
        if let Some(channel) = &self.held.channel {
            // One answer for all would answer for what is kept in hand, too.
            let multiple = !self.held.in_place;
            for tag in if multiple { vec![up_to] } else { done } {
                let acked = channel.basic_ack(tag, BasicAckOptions { multiple }).await;
                acked.map_err(|error| trouble::away("cannot release what the ledger has", &error))?;
            }
        }
        self.held.up_to = None;
        self.held.read.clear();
        self.mark = None;
        Ok(())
    }

    /// What tells a message without an id from those that are equal to it.
    fn nth(&mut self, like: uuid::Uuid, stays: bool, redelivered: bool, mark: uuid::Uuid) -> uuid::Uuid {
        // What stays is read again and again, and is never lost by being taken for another.
        let mark = if stays { None } else { self.before.filter(|_| redelivered).or(Some(mark)) };
        let marked = mark.map_or(like, |mark| entry(hashed(&[like.as_bytes(), mark.as_bytes()])));
        let count = self.alike.entry(marked).or_default();
        let entry = match *count {
            0 => marked,
            count => entry(hashed(&[marked.as_bytes(), &count.to_le_bytes()])),
        };
        *count += 1;
        entry
    }

    /// A message as it was read, for the end of its queue.
    fn to_the_end(&self, taken: &Taken) -> Result<Letter, PortError> {
        let Taken { queue, message, .. } = taken;
        let user = &self.with.flow.login.user;
        let properties = wire::write(message, &message.headers, user, Purpose::Kept)?;
        let (key, body) = (link::short(queue)?, message.body.clone().unwrap_or_default());
        let letter = Letter { exchange: "".into(), key, properties, body, mandatory: true };
        fits(&letter, queue, self.with.outbox.frame_max())?;
        Ok(letter)
    }

    async fn channel(&mut self) -> Result<Channel, PortError> {
        if let Some(channel) = self.held.channel.as_ref().filter(|channel| channel.status().connected()) {
            return Ok(channel.clone());
        }
        // What was read on the one before is in its queue again.
        if !std::mem::take(&mut self.held).read.is_empty() {
            let text = "the channel was lost while dead letters were read; they are in their queue again";
            return Err(PortError::Unavailable(text.to_owned()));
        }
        let channel = self.with.link.channel().await?;
        self.held.channel = Some(channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl Shelves for QueueShelves {
    async fn next(&mut self, most: usize) -> Result<Vec<Shelved>, PortError> {
        self.release().await?;
        let mark = uuid::Uuid::now_v7();
        let mut shelved = Vec::new();
        while let Some((queue, left, stays)) =
            self.piles.front().map(|pile| (Arc::clone(&pile.queue), pile.left, pile.stays))
        {
            if shelved.len() >= most {
                break;
            }
            if left == 0 {
                self.piles.pop_front();
                continue;
            }
            let channel = self.channel().await?;
            let doing = format!("cannot read the queue `{queue}`");
            let got = channel.basic_get(link::short(&queue)?, BasicGetOptions::default()).await;
            let Some(got) = got.map_err(|error| trouble::away(&doing, &error))? else {
                self.piles.pop_front();
                continue;
            };
            if let Some(pile) = self.piles.front_mut() {
                pile.left -= 1;
            }
            let delivery = got.delivery;
            self.held.up_to = Some(delivery.delivery_tag);
            self.mark = Some(mark);
            let is_own = |name: &str| self.with.carver.waits_in(name);
            let read = wire::read(&delivery.properties, delivery.data, None, &is_own);
            let (tag, message) = (delivery.delivery_tag, read.message.clone());
            self.held.read.push(Taken { tag, queue: Arc::clone(&queue), message, stays });
            let rules = self.with.carver.rules().get();
            let now = self.with.clock.now();
            let (flow, redelivered) = (Arc::clone(&self.with.flow), delivery.redelivered);
            let nth = |like| self.nth(like, stays, redelivered, mark);
            shelved.push(shelve(&flow, &queue, read, &rules, now, nth));
        }
        if shelved.is_empty() {
            for (queue, refused) in &self.refused {
                self.with.not_adopted.looked(queue, refused);
            }
        }
        Ok(shelved)
    }

    /// It is written to the end of its queue before it is released.
    fn refuse(&mut self, place: usize, why: &Refusal) {
        let Some(taken) = self.held.read.get_mut(place).filter(|taken| !taken.stays) else { return };
        taken.stays = true;
        let name = format!("`{}`: {why}", taken.message.id);
        self.refused.entry(Arc::clone(&taken.queue)).or_default().push(name);
    }

    fn position(&self) -> String {
        self.mark.map_or_else(|| SEEN.to_owned(), |mark| format!("{SEEN} {mark}"))
    }
}

/// A message of a queue, as the ledger is told of it. `nth` makes the entry of one that has no id, out of what it is like.
fn shelve(
    flow: &RabbitFlow,
    queue: &Arc<str>,
    read: Read,
    rules: &HeaderRules,
    now: Timestamp,
    nth: impl FnOnce(uuid::Uuid) -> uuid::Uuid,
) -> Shelved {
    let Read { mut message, published, .. } = read;
    let mut trail = rules.read(&message.headers, message.body.as_deref());
    let is_foreign = flow.foreign.iter().any(|other| **other == **queue);
    let foreign = is_foreign || trail.entry_id.is_none();
    let parked = if flow.parking == Parking::Same {
        !foreign && message.headers.contains(PARKED)
    } else {
        **queue == *names::parking(flow)
    };
    let state = if parked { EntryState::Parked } else { EntryState::Dead };
    let bodiless = message.headers.contains(LEFT_BODY);
    if flow.dead_letter.format == DeadLetterFormat::Envelope {
        unwrap_envelope(&mut message, &trail, rules);
    }
    let mut own: Trail = (*trail).clone();
    if foreign {
        // The same whenever and by whomever it is read.
        let like = entry(likeness::of(queue, &message, published));
        let entry = if message.id.is_empty() { nth(like) } else { like };
        own.entry_id = Some(entry.to_string().into());
        if message.id.is_empty() {
            message.id = entry.to_string().into();
        }
        trail = Carried::from(own);
    }
    let source = SourceRef { kind: KIND.into(), name: Arc::clone(queue), partition: None, offset: None };
    let ready_at = published.map_or(now, Timestamp::from_millis);
    let delivery = Delivery::from(DeliveryParts {
        tag: Tag::APART,
        message,
        trail,
        source,
        ready_at,
        redelivered: false,
    });
    Shelved { delivery, state, foreign, bodiless, carries_body: false }
}

fn entry(like: [u8; 16]) -> uuid::Uuid {
    uuid::Builder::from_custom_bytes(like).into_uuid()
}
