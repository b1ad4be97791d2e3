//! What the flow reads: all members of the flow in this process as one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::consumer::Consumer;
use redrive_core::Message;
use redrive_engine::port::{Delivery, Depth, PortError, Revoked, Room, Source};
use tokio::sync::{Notify, mpsc};
use tokio::task::{Id, JoinError, JoinSet};

use super::member::{Member, Reach};
use super::stream::Allowance;
use crate::client;
use crate::fetch::{self, Original};
use crate::look::{self, Look};

/// How long one question about the end of a partition may take.
const END: Duration = Duration::from_secs(5);
/// How many bodies are fetched at once.
const FETCHED: usize = 4;
/// How many messages may wait for their bodies.
const LACKING: usize = 256;

/// What came of a fetch.
type Fetched = Result<(Id, Result<Option<Message>, PortError>), JoinError>;

/// The flow's source.
#[derive(Debug)]
pub(crate) struct KafkaSource {
    members: Vec<Arc<Member>>,
    arrived: Arc<Notify>,
    revoked: Option<mpsc::UnboundedReceiver<Revoked>>,
    look: Arc<Look>,
    /// Taken from a member, and their bodies are not here yet.
    incomplete: VecDeque<Delivery>,
    /// Bodies that are being fetched, beside the reading, and what they are for.
    fetching: JoinSet<Result<Option<Message>, PortError>>,
    asked: HashMap<Id, Delivery>,
    /// Whose turn it is.
    turn: usize,
    /// The flow was told that Kafka is away, and not that it is back.
    away: bool,
}

impl KafkaSource {
    pub(crate) fn new(
        look: Arc<Look>,
        members: Vec<Arc<Member>>,
        arrived: Arc<Notify>,
        revoked: mpsc::UnboundedReceiver<Revoked>,
    ) -> Self {
        Self {
            members,
            arrived,
            revoked: Some(revoked),
            look,
            incomplete: VecDeque::new(),
            fetching: JoinSet::new(),
            asked: HashMap::new(),
            turn: 0,
            away: false,
        }
    }

    /// Puts aside what has its body elsewhere.
    fn set_aside(&mut self, into: &mut Vec<Delivery>, from: usize) {
        // Only what has waited may point to its body, perhaps since a time when the flow had that delay mode.
        if self.members.iter().any(|member| member.waits) {
            let waited = |one: &Delivery| self.look.delays().waits_in(&one.source.name);
            let points = |one: &mut Delivery| {
                // One that was looked for in vain is handed out as such.
                let whole = one.message.body.is_some() || one.trail.body_is_gone();
                !whole && waited(one) && Original::of(self.look.flow(), one).is_some()
            };
            self.incomplete.extend(into.extract_if(from.., points));
        }
    }

    /// Begins to fetch bodies, as many at once as may be.
    fn fetch(&mut self) {
        while self.fetching.len() < FETCHED
            && let Some(one) = self.incomplete.pop_front()
        {
            let (look, lies) = (Arc::clone(&self.look), Original::of(self.look.flow(), &one));
            let task = self.fetching.spawn(async move {
                match lies {
                    Some(lies) => fetch::fetch(&look, &lies).await,
                    None => Ok(None),
                }
            });
            self.asked.insert(task.id(), one);
        }
    }

    /// Completes what was fetched. One whose body is gone is handed out as such; one that Kafka did not answer for is
    /// asked for again.
    fn fetched(&mut self, fetched: Fetched, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        let (id, answer) = match fetched {
            Ok((id, answer)) => (id, answer),
            Err(error) => (error.id(), Err(PortError::Unavailable(format!("cannot fetch a body: {error}")))),
        };
        let Some(mut one) = self.asked.remove(&id) else { return Ok(()) };
        match answer {
            Ok(Some(original)) => fetch::fill(&self.look, &mut one, original),
            Ok(None) => one.trail.lose_body(),
            Err(error) => {
                self.incomplete.push_front(one);
                return Err(error);
            }
        }
        into.push(one);
        Ok(())
    }

    fn take(&mut self, room: Room, into: &mut Vec<Delivery>) {
        let mut left = Allowance { messages: room.messages, bytes: room.bytes };
        let members = self.members.len();
        self.turn = self.turn.wrapping_add(1);
        for place in 0..members {
            let Some(member) = self.members.get((self.turn.wrapping_add(place)) % members) else { continue };
            let most = if member.waits { left.messages.min(room.retries) } else { left.messages };
            // Nobody takes all the room while another has something, too.
            let share = if place + 1 < members { most.div_ceil(2) } else { most };
            let after = member.hand_out(Allowance { messages: share, bytes: left.bytes }, into);
            left.messages -= share - after.messages;
            left.bytes = after.bytes;
        }
        // What the others left is the first one's.
        let first = self.members.get(self.turn % members.max(1)).filter(|_| members > 1);
        if let Some(first) = first {
            let most = if first.waits { left.messages.min(room.retries) } else { left.messages };
            first.hand_out(Allowance { messages: most, bytes: left.bytes }, into);
        }
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        if self.away {
            // Perhaps nothing comes for long, and nobody would know that it could.
            self.look.ask(look::answers).await?;
            self.away = false;
            return Ok(());
        }
        let before = into.len();
        let arrived = Arc::clone(&self.arrived);
        loop {
            // Asked for before looking, so that what arrives in between is not missed.
            let bell = arrived.notified();
            let lack = self.incomplete.len() + self.asked.len();
            self.take(if lack < LACKING { room } else { Room { retries: 0, ..room } }, into);
            self.set_aside(into, before);
            self.fetch();
            while let Some(fetched) = self.fetching.try_join_next_with_id() {
                self.fetched(fetched, into)?;
            }
            if into.len() > before {
                return Ok(());
            }
            if let Some(trouble) = self.members.iter().find_map(|member| member.trouble()) {
                self.away = matches!(trouble, PortError::Unavailable(_));
                return Err(trouble);
            }
            tokio::select! {
                () = bell => {}
                Some(fetched) = self.fetching.join_next_with_id() => self.fetched(fetched, into)?,
            }
        }
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        let members = self.members.clone();
        let counted = tokio::task::spawn_blocking(move || count(&members)).await;
        counted.unwrap_or_else(|error| Err(PortError::Unavailable(format!("cannot count: {error}"))))
    }

    async fn close(&mut self) {
        for member in &self.members {
            member.close();
        }
    }

    fn revoked(&mut self) -> Option<mpsc::UnboundedReceiver<Revoked>> {
        self.revoked.take()
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        for member in &self.members {
            member.close();
        }
    }
}

fn count(members: &[Arc<Member>]) -> Result<Depth, PortError> {
    let mut depth = Depth::default();
    for member in members {
        let Some(consumer) = member.consumer() else { continue };
        let mut whole = 0;
        for Reach { topic, partition, next, open } in member.reach() {
            let (_, end) = consumer
                .fetch_watermarks(&topic, partition, END)
                .map_err(|error| client::away("cannot ask for the end of a partition", &error))?;
            let fetched = consumer.context().fetched(&topic, partition).filter(|fetched| fetched.queued == 0);
            let reached = fetched.map_or(next, |fetched| fetched.next.max(next));
            let lag = end.saturating_sub(reached).max(0).cast_unsigned() + open as u64;
            whole += lag;
        }
        if member.waits { depth.waiting += whole } else { depth.ready += whole }
    }
    Ok(depth)
}
