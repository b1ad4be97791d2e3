//! The engine's port to RabbitMQ, for one flow.

mod overdue;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::headers::Trail;
use redrive_core::{Message, Text, Timestamp};
use redrive_engine::adapter::{Alarms, Rules};
use redrive_engine::port::{
    Broker, BrokerAlarm, Capabilities, Clock, Depth, NewMessage, Overdue, PortError, Published, QueueInfo,
    Refusal, Resolved, Settled, Settlement, Shelves, Source, SourceRange, SourceRef, Subscription,
    SystemClock, Topology, Whereabouts,
};
use tokio::time::Instant;

use crate::blocked::Blocked;
use crate::circles::refuse_circles;
use crate::copy::{Copies, Copy, KIND};
use crate::link::Link;
use crate::look::{Counted, Look};
use crate::mending::Mending;
use crate::not_adopted::NotAdopted;
use crate::outbox::{Letter, NotTaken, Outbox};
use crate::positions::{Positions, StreamPosition};
use crate::reader::{Carver, RabbitSource, Reader, Reading, others_read};
use crate::settle::Settler;
use crate::stuck::Stuck;
use crate::topology::Needs;
use crate::watch::Watch;
use crate::{DelayMode, QueueKind, RabbitFlow, metrics, names, resolved, shelves, stream};

/// How often the gauges of the queues are set while the flow reads.
const GAUGED_AGAIN: Duration = Duration::from_secs(10);

/// RabbitMQ under one flow.
pub struct RabbitBroker {
    flow: Arc<RabbitFlow>,
    clock: Arc<dyn Clock>,
    rules: Arc<Rules>,
    alarms: Arc<Alarms>,
    /// The connection that reads and asks, and the one that writes: a broker that is short of memory stops reading from
    /// those that write, and what was handled can still be released.
    reading: Arc<Link>,
    writing: Arc<Link>,
    look: Arc<Look>,
    needs: Arc<Needs>,
    copies: Arc<Copies>,
    outbox: Arc<Outbox>,
    carver: Arc<Carver>,
    settler: Settler,
    reader: Mutex<Option<Arc<Reader>>>,
    epochs: Arc<AtomicU32>,
    /// Where the position of a stream is kept.
    positions: Option<Arc<dyn Positions>>,
    /// Whether the last write was taken.
    writes: AtomicBool,
    /// What was seen of copies that come back; nothing where nobody has looked.
    watch: Mutex<Option<Watch>>,
    stuck: Stuck,
    not_adopted: Arc<NotAdopted>,
    /// When the gauges of the queues were set last.
    gauged: Mutex<Option<Instant>>,
}

impl fmt::Debug for RabbitBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitBroker").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl RabbitBroker {
    /// RabbitMQ under this flow. Nothing is asked of it yet.
    pub fn new(flow: RabbitFlow) -> Result<Self, PortError> {
        Self::with_clock(flow, Arc::new(SystemClock::default()))
    }

    /// The same with another clock than the system's.
    pub fn with_clock(flow: RabbitFlow, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        check(&flow)?;
        let flow = Arc::new(flow);
        let (rules, alarms): (Arc<Rules>, Arc<Alarms>) = Default::default();
        let blocked = Arc::new(Blocked::new(Arc::clone(&flow.flow)));
        let link = |purpose| Link::new(&flow, purpose, Arc::clone(&alarms), Arc::clone(&blocked));
        let (reading, writing) = (Arc::new(link("reads")?), Arc::new(link("writes")?));
        let look = Arc::new(Look::new(Arc::clone(&reading)));
        let copies = Arc::new(Copies::new(Arc::clone(&flow), Arc::clone(&rules)));
        let needs =
            Arc::new(Needs::new(Arc::clone(&flow), copies.delays(), Arc::clone(&reading), Arc::clone(&look)));
        let mending = Mending::new(Arc::clone(&flow.flow), Arc::clone(&needs), Arc::clone(&alarms));
        let outbox = Arc::new(Outbox::new(&flow, Arc::clone(&writing), mending));
        let own = copies.delays().queues();
        let carver = Arc::new(Carver::new(Arc::clone(&flow), Arc::clone(&rules), own));
        let settler = Settler {
            flow: Arc::clone(&flow),
            copies: Arc::clone(&copies),
            outbox: Arc::clone(&outbox),
            alarms: Arc::clone(&alarms),
            clock: Arc::clone(&clock),
        };
        let stuck = Stuck::new(Arc::clone(&flow.flow), Arc::clone(&needs), Arc::clone(&alarms));
        Ok(Self {
            settler,
            watch: Mutex::default(),
            gauged: Mutex::default(),
            stuck,
            not_adopted: Arc::new(NotAdopted::new(Arc::clone(&alarms))),
            reader: Mutex::default(),
            epochs: Arc::new(AtomicU32::new(1)),
            positions: None,
            writes: AtomicBool::new(true),
            flow,
            clock,
            rules,
            alarms,
            reading,
            writing,
            look,
            needs,
            copies,
            outbox,
            carver,
        })
    }

    /// The same with a place where it is kept how far the flow's stream was read; needed where the source is a stream.
    #[must_use]
    pub fn with_positions(mut self, positions: Arc<dyn Positions>) -> Self {
        self.positions = Some(positions);
        self
    }

    /// The position of the flow's stream; nothing where it reads none.
    fn position(&self) -> Result<Option<StreamPosition>, PortError> {
        if self.flow.kind != QueueKind::Stream {
            return Ok(None);
        }
        match &self.positions {
            Some(kept) => Ok(Some(StreamPosition::new(&self.flow.flow, &self.flow.queue, Arc::clone(kept)))),
            None => Err(Refusal::State(format!(
                "`{}` is a stream, and nothing keeps how far it was read: give the flow a ledger",
                self.flow.queue
            ))
            .into()),
        }
    }

    /// The commands of `rabbitmqctl` that do by policies what the flow's queues and exchanges are otherwise made with.
    /// A server that can be asked is asked for its version.
    pub async fn policies(&self) -> Vec<String> {
        self.needs.policies().await
    }

    /// The command of `rabbitmqctl` that gives the flow's user what it needs, and no more.
    pub fn permissions(&self) -> Vec<String> {
        self.needs.permissions()
    }

    fn reader(&self) -> Option<Arc<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take_reader(&self) -> Option<Arc<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How much is ready in the source, with what is in hand.
    async fn ready_in_source(&self) -> Result<u64, PortError> {
        match self.reader() {
            Some(reader) => reader.ready_in_source().await,
            None if self.flow.kind == QueueKind::Stream => Ok(0),
            None => Ok(self.look.count(&self.flow.queue).await?.map_or(0, |counted| counted.ready)),
        }
    }

    /// A message to be published, and its id.
    fn message(new: NewMessage) -> (String, Message) {
        let NewMessage { id, key, body, mut headers, content_type, due: _ } = new;
        let known = headers.message_id().map(|id| id.to_string());
        let id = id.or_else(|| known.clone()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        // A header would win over the property that the id is written to.
        if known.is_some_and(|known| known != id) {
            headers.remove("ce_id");
            headers.remove("message-id");
        }
        let content_type = content_type.map(Text::from);
        let message = Message { id: Text::from(id.clone()), key, body, headers, content_type };
        (id, message)
    }

    /// Writes, and remembers whether that went well.
    async fn write(&self, letters: &[Letter]) -> Vec<Result<(), NotTaken>> {
        let written = self.outbox.write(letters).await;
        let away = written.iter().any(|one| matches!(one, Err(NotTaken::NoExchange(_) | NotTaken::Away(_))));
        self.writes.store(!away, Ordering::Relaxed);
        written
    }

    /// Sets the gauges of the queues, unless that was done a moment ago.
    async fn gauge(&self) {
        {
            let mut gauged = self.gauged.lock().unwrap_or_else(PoisonError::into_inner);
            if gauged.is_some_and(|at| at.elapsed() < GAUGED_AGAIN) {
                return;
            }
            *gauged = Some(Instant::now());
        }
        if let Err(error) = self.queues().await {
            tracing::debug!(flow = &*self.flow.flow, error = %error, "the queues cannot be counted");
        }
    }

    /// Who else reads the source.
    async fn others(&self) -> Result<u32, PortError> {
        let counted = self.look.count(&self.flow.queue).await?.unwrap_or_default();
        let own = u32::from(self.reader().is_some_and(|reader| reader.is_reading()));
        Ok(counted.consumers.saturating_sub(own))
    }

    async fn refuse_others(&self) -> Result<(), PortError> {
        let others = self.others().await?;
        if others == 0 {
            return Ok(());
        }
        Err(others_read(&format!("{others} others read"), &self.flow.queue))
    }
}

/// What no server could make right.
fn check(flow: &RabbitFlow) -> Result<(), PortError> {
    let wrong = |text: String| Err(Refusal::Invalid(text).into());
    if flow.queue.is_empty() || flow.queue.len() > 255 {
        return wrong(format!("`{}` is no name of a queue: it has 1 to 255 bytes", flow.queue));
    }
    if flow.prefetch == 0 {
        return wrong("a prefetch of 0 would take in everything; name a number".to_owned());
    }
    if flow.delay == DelayMode::Ring && flow.steps.is_empty() {
        return wrong(
            "the delay mode `ring` needs exact waits: give the schedules no jitter, or use `cascade`"
                .to_owned(),
        );
    }
    refuse_circles(flow, None)?;
    Ok(())
}

#[async_trait]
impl Broker for RabbitBroker {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: KIND,
            exact_delay: false,
            null_body: false,
            ordered: true,
            records_in_settle: false,
            waiting_is_reachable: false,
            unique_ids: false,
            lanes: false,
            partitions: false,
        }
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        self.rules.set(&subscription.headers);
        self.needs.plan().await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        self.needs.apply(topology).await
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        self.rules.set(&subscription.headers);
        if let Some(before) = self.take_reader() {
            before.end().await;
        }
        *self.watch() = None;
        if self.flow.shelves() {
            self.outbox.may_write().await?;
        }
        let reading = Reading {
            flow: Arc::clone(&self.flow),
            link: Arc::clone(&self.reading),
            look: Arc::clone(&self.look),
            needs: Arc::clone(&self.needs),
            copies: Arc::clone(&self.copies),
            outbox: Arc::clone(&self.outbox),
            carver: Arc::clone(&self.carver),
            clock: Arc::clone(&self.clock),
            alarms: Arc::clone(&self.alarms),
            epochs: Arc::clone(&self.epochs),
            position: self.position()?,
        };
        let (reader, revoked) = Reader::begin(reading).await?;
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&reader));
        Ok(Box::new(RabbitSource::new(reader, revoked)))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        let reader = self.reader();
        let answers = self.settler.settle(batch, reader.as_ref()).await;
        let away = answers.iter().any(|answer| matches!(answer, Err(PortError::Unavailable(_))));
        self.writes.store(!away, Ordering::Relaxed);
        answers
    }

    fn leaves_body(&self, settlement: &Settlement) -> bool {
        self.copies.leaves_body(settlement, self.outbox.frame_max())
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        let queue = match self.copies.queue_of(target) {
            Ok(queue) => queue,
            Err(refusal) => return Ok(vec![Published::Refused(refusal); messages.len()]),
        };
        let (now, frame_max) = (self.clock.now(), self.outbox.frame_max());
        let mut answers: Vec<Published> = Vec::with_capacity(messages.len());
        let (mut sent, mut letters): (Vec<(usize, Arc<str>)>, Vec<Letter>) = (Vec::new(), Vec::new());
        for new in messages {
            let due = new.due.filter(|due| *due > now);
            let (id, message) = Self::message(new);
            let copy: Result<Copy, Refusal> = match due {
                None => self.copies.fresh(&message, queue, now, frame_max),
                Some(_) if queue != self.flow.queue => Err(Refusal::Invalid(format!(
                    "only messages of the flow's own queue can wait; `{queue}` is another"
                ))),
                Some(due) => self.copies.waiting(&message, Trail::default(), due, now, frame_max),
            };
            match copy {
                Ok(copy) => {
                    sent.push((answers.len(), copy.queue));
                    letters.push(copy.letter);
                    answers.push(Published::Accepted(id));
                }
                Err(refusal) => answers.push(Published::Refused(refusal)),
            }
        }
        for ((place, queue), written) in sent.into_iter().zip(self.write(&letters).await) {
            let refusal = match written {
                Ok(()) => continue,
                Err(NotTaken::NoExchange(error) | NotTaken::Away(error)) => return Err(error),
                Err(NotTaken::Returned) => Refusal::NotFound { what: "queue", name: queue.to_string() },
                Err(NotTaken::Nacked) => Refusal::Limit(format!("the queue `{queue}` takes no more")),
                Err(NotTaken::Refused(text)) => {
                    Refusal::Invalid(format!("RabbitMQ does not take it for the queue `{queue}`: {text}"))
                }
            };
            answers[place] = Published::Refused(refusal);
        }
        Ok(answers)
    }

    async fn ready(&self) -> Result<(), PortError> {
        if self.writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.writing.channel().await?;
        self.writes.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        let info = |name: &str, depth: Depth| QueueInfo {
            name: name.to_owned(),
            depth,
            limit: None,
            dedup_ms: None,
        };
        let ready = self.ready_in_source().await?;
        metrics::depth(&self.flow.flow, &self.flow.queue, ready);
        let mut queues = vec![info(&self.flow.queue, Depth { ready, waiting: 0 })];
        let mut others: Vec<(String, bool)> =
            self.copies.delays().queues().into_iter().map(|queue| (queue, true)).collect();
        if self.flow.waits() {
            others.push((names::stray(&self.flow), true));
        }
        others.push((names::resolved(&self.flow), false));
        if self.flow.shelves() {
            others.push((self.flow.dead_letter.queue.clone(), false));
            others.push((names::parking(&self.flow).to_owned(), false));
        }
        others.extend(self.flow.foreign.iter().map(|queue| (queue.clone(), false)));
        others.dedup();
        for (name, waits) in others {
            let Some(Counted { ready, .. }) = self.look.count(&name).await? else { continue };
            metrics::depth(&self.flow.flow, &name, ready);
            let depth = if waits { Depth { ready: 0, waiting: ready } } else { Depth { ready, waiting: 0 } };
            queues.push(info(&name, depth));
        }
        Ok(queues)
    }

    async fn alone(&self) -> Result<(), PortError> {
        self.refuse_others().await
    }

    fn alarms(&self) -> Vec<BrokerAlarm> {
        self.alarms.all()
    }

    async fn whereabouts(
        &self,
        copies: &[Overdue],
        told_since: Timestamp,
    ) -> Result<Vec<Whereabouts>, PortError> {
        self.gauge().await;
        self.where_are(copies, told_since).await
    }

    async fn missing(&self, copies: &[Overdue]) {
        self.stuck.are(copies).await;
    }

    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        Ok(vec![self.has_passed_all().await?; copies.len()])
    }

    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.rules.set(&subscription.headers);
        let with = shelves::With {
            flow: Arc::clone(&self.flow),
            link: Arc::clone(&self.reading),
            look: Arc::clone(&self.look),
            outbox: Arc::clone(&self.outbox),
            carver: Arc::clone(&self.carver),
            clock: Arc::clone(&self.clock),
            not_adopted: Arc::clone(&self.not_adopted),
        };
        shelves::open(with, from).await
    }

    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        if self.flow.kind != QueueKind::Stream {
            return Err(Refusal::Invalid(format!(
                "the queue `{}` does not keep what was read; a stream would",
                self.flow.queue
            ))
            .into());
        }
        self.rules.set(&subscription.headers);
        stream::reread(&self.flow, &self.reading, Arc::clone(&self.carver), range).await
    }

    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        if resolved.is_empty() {
            return Ok(());
        }
        resolved::keep(&self.flow, &self.outbox, resolved, self.clock.now()).await
    }

    async fn resolved(&self, _subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        resolved::read(&self.flow, &self.look, &self.reading, &self.outbox).await
    }

    async fn flush(&self, within: Duration) {
        if let Some(reader) = self.reader() {
            let _ = tokio::time::timeout(within, reader.close()).await;
        }
    }
}

impl Drop for RabbitBroker {
    fn drop(&mut self) {
        let reader = self.take_reader();
        if let Some(reader) = &reader {
            reader.stop();
        }
        let (reading, writing) = (Arc::clone(&self.reading), Arc::clone(&self.writing));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Some(reader) = reader {
                    reader.end().await;
                }
                reading.close().await;
                writing.close().await;
            });
        }
    }
}
