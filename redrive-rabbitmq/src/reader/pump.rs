//! Reads for as long as the flow does: opens a channel, takes what it delivers, and opens another when it is lost.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use redrive_engine::adapter::Alarms;
use redrive_engine::port::{Clock, Delivery, Depth, EntryId, PortError, Revoked, Room};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

use super::carver::{Carver, Found};
use super::opening::STEADY;
use super::session::Session;
use crate::copy::Copies;
use crate::link::{self, Link};
use crate::look::{ANSWER, Counted, Look};
use crate::outbox::Outbox;
use crate::positions::StreamPosition;
use crate::topology::Needs;
use crate::{RabbitFlow, names, trouble, wire};

/// How long an end waits for what is under way.
const FAREWELL: Duration = Duration::from_secs(5);

/// What reading needs.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) flow: Arc<RabbitFlow>,
    pub(crate) link: Arc<Link>,
    pub(crate) look: Arc<Look>,
    pub(crate) needs: Arc<Needs>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) carver: Arc<Carver>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) epochs: Arc<AtomicU32>,
    /// Where the position of a stream is kept; nothing where none is read.
    pub(crate) position: Option<StreamPosition>,
}

/// Reads for a flow.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(super) with: Reading,
    state: Mutex<State>,
    /// Something can be handed out, or stands otherwise than before.
    pub(super) arrived: Notify,
    /// Somebody wants to receive.
    wanted: Notify,
    revoked: mpsc::UnboundedSender<Revoked>,
    asks: mpsc::UnboundedSender<Ask>,
    pub(super) stop: CancellationToken,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    /// Whether what is missing is being made again.
    pub(super) mending: AtomicBool,
    /// How many channels in a row were lost as soon as they were read.
    pub(super) broken_off: AtomicU32,
    /// How many tries in a row found others where this reader has to be alone.
    pub(super) not_alone: AtomicU32,
}

#[derive(Debug)]
pub(super) struct State {
    session: Option<Arc<Session>>,
    /// Whether the channel is read.
    reading: bool,
    /// Why it is not.
    pub(super) trouble: Option<PortError>,
    /// How many wait to receive, and when the last one did.
    wanted: usize,
    wanted_at: Instant,
}

/// How much is ready in the source, as the channel that reads it sees it.
type Ask = oneshot::Sender<Option<Counted>>;

/// What is seen of the queue in which copies come back, at one moment.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Messages in it that nobody has in hand.
    pub(crate) ready: u64,
    /// Whether somebody else reads it.
    pub(crate) others: bool,
    /// The channel that reads it.
    pub(crate) epoch: Option<u32>,
    /// The entries whose copies this reader has in hand.
    pub(crate) in_hand: HashSet<EntryId>,
}

/// A channel that is read.
pub(super) struct Opened {
    pub(super) session: Arc<Session>,
    pub(super) source: Consumer,
    pub(super) stray: Option<Consumer>,
    /// What has waited for a flow that reads a stream.
    pub(super) due: Option<Consumer>,
}

/// How reading a channel came to its end.
enum End {
    /// Nobody reads any more.
    Stopped,
    /// Nobody has taken anything for long, and all was given back.
    Held,
    /// The channel is gone.
    Lost(PortError),
}

impl Reader {
    /// Begins to read. What does not work at once is an error.
    pub(crate) async fn begin(
        with: Reading,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Revoked>), PortError> {
        let (revoked, of_revoked) = mpsc::unbounded_channel();
        let (asks, of_asks) = mpsc::unbounded_channel();
        let state =
            State { session: None, reading: false, trouble: None, wanted: 0, wanted_at: Instant::now() };
        let reader = Arc::new(Self {
            with,
            state: Mutex::new(state),
            arrived: Notify::new(),
            wanted: Notify::new(),
            revoked,
            asks,
            stop: CancellationToken::new(),
            task: tokio::sync::Mutex::default(),
            mending: AtomicBool::new(false),
            broken_off: AtomicU32::new(0),
            not_alone: AtomicU32::new(0),
        });
        let opened = reader.open_first().await?;
        let running = Arc::clone(&reader);
        *reader.task.lock().await = Some(tokio::spawn(async move { running.run(opened, of_asks).await }));
        Ok((reader, of_revoked))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel as it is.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.state().session.clone()
    }

    /// Rings when something can be handed out, or stands otherwise than before.
    pub(crate) fn arrived(&self) -> &Notify {
        &self.arrived
    }

    /// Why nothing is read.
    pub(crate) fn trouble(&self) -> Option<PortError> {
        self.state().trouble.clone()
    }

    /// Whether a channel is read.
    pub(crate) fn is_reading(&self) -> bool {
        self.state().reading
    }

    /// Hands out what there is room for.
    pub(crate) fn hand_out(&self, room: Room, into: &mut Vec<Delivery>) {
        if let Some(session) = self.session() {
            session.book().hand_out(room, into);
        }
    }

    /// Somebody waits to receive, until this is dropped.
    pub(crate) fn is_wanted(self: &Arc<Self>) -> Wanted {
        let mut state = self.state();
        state.wanted += 1;
        state.wanted_at = Instant::now();
        drop(state);
        self.wanted.notify_one();
        Wanted(Arc::clone(self))
    }

    /// A delivery comes back from the flow.
    pub(crate) fn give_back(&self, delivery: &Delivery) -> bool {
        let back = self.session().is_some_and(|session| session.give_back(delivery));
        self.arrived.notify_one();
        self.after_settling();
        back
    }

    /// Nothing more is read. What was handed out can still be settled.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.after_settling();
    }

    /// The same, and waits until it is so.
    pub(crate) async fn close(&self) {
        self.stop();
        let task = self.task.lock().await.take();
        if let Some(task) = task {
            let _ = tokio::time::timeout(FAREWELL, task).await;
        }
        self.after_settling();
    }

    /// Ends the channel, with all that is open on it.
    pub(crate) async fn end(&self) {
        self.close().await;
        let session = self.state().session.take();
        if let Some(session) = session {
            session.end().await;
        }
    }

    /// When nobody reads any more and the flow has settled its last, the channel ends: the rest goes back in its order.
    pub(crate) fn after_settling(&self) {
        if !self.stop.is_cancelled() {
            return;
        }
        let mut state = self.state();
        let done = !state.reading && state.session.as_ref().is_some_and(|session| session.book().none_out());
        if let Some(session) = state.session.take_if(|_| done)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { session.end().await });
        }
    }

    /// How much lies in the source and waits for it.
    pub(crate) async fn depth(&self) -> Result<Depth, PortError> {
        let source = self.ready_in_source().await?;
        let mut waiting = 0;
        for queue in self.with.copies.delays().queues() {
            waiting += self.with.look.count(&queue).await?.map_or(0, |counted| counted.ready);
        }
        Ok(Depth { ready: source, waiting })
    }

    /// What is ready in the source, and what this reader holds of it.
    pub(crate) async fn ready_in_source(&self) -> Result<u64, PortError> {
        if self.with.position.is_some() {
            // The broker counts all that a stream has ever kept: what is known is what is here, and what has waited.
            let due = self.with.look.count(&names::retry(&self.with.flow)).await?.unwrap_or_default();
            return Ok(due.ready + self.session().map_or(0, |session| session.book().len()) as u64);
        }
        let counted = match self.ask().await {
            Some(counted) => counted,
            None => self.with.look.count(&self.with.flow.queue).await?.unwrap_or_default(),
        };
        let held = self.session().map_or(0, |session| session.book().len());
        Ok(counted.ready + held as u64)
    }

    /// What is seen of the queue in which copies come back.
    pub(crate) async fn sight(&self) -> Result<Sight, PortError> {
        let stream = self.with.position.is_some();
        let counted = match if stream { None } else { self.ask().await } {
            Some(counted) => counted,
            None => self.with.look.count(&names::back(&self.with.flow)).await?.unwrap_or_default(),
        };
        let session = self.session();
        let entries = session.as_ref().map(|session| session.book().entries());
        Ok(Sight {
            ready: counted.ready,
            others: counted.consumers > u32::from(self.is_reading()),
            epoch: session.map(|session| session.epoch),
            in_hand: entries.unwrap_or_default(),
        })
    }

    /// What lies in the source, as the channel that reads it sees it; nothing when none does.
    async fn ask(&self) -> Option<Counted> {
        let (reply, answer) = oneshot::channel();
        let asked = self.is_reading() && self.asks.send(reply).is_ok();
        if !asked {
            return None;
        }
        // Whoever reads may have lost its channel meanwhile, for as long as the broker is away.
        tokio::time::timeout(ANSWER, answer).await.ok()?.ok().flatten()
    }

    async fn run(self: Arc<Self>, first: Opened, mut asks: mpsc::UnboundedReceiver<Ask>) {
        let mut next = Some(first);
        loop {
            let opened = match next.take() {
                Some(opened) => Some(opened),
                None => self.reopen().await,
            };
            let Some(opened) = opened else { return };
            let (session, since) = (Arc::clone(&opened.session), Instant::now());
            match self.pump(opened, &mut asks).await {
                End::Stopped => {
                    self.state().reading = false;
                    return;
                }
                End::Held => {
                    session.end().await;
                    tracing::debug!(flow = &*self.with.flow.flow, "gave back what nobody took");
                    let wanted = async {
                        while self.state().wanted == 0 {
                            self.wanted.notified().await;
                        }
                    };
                    tokio::select! {
                        () = self.stop.cancelled() => return,
                        () = wanted => {}
                    }
                }
                End::Lost(error) => {
                    tracing::warn!(flow = &*self.with.flow.flow, error = %error, "the channel is lost");
                    self.is_closed(Some(error.clone()));
                    let _ = self.revoked.send(Revoked { stream: 0, epoch: session.epoch });
                    self.arrived.notify_one();
                    session.end().await;
                    if since.elapsed() < STEADY {
                        let wait = self.breaks_off(&error);
                        tokio::select! {
                            () = self.stop.cancelled() => {}
                            () = tokio::time::sleep(wait) => {}
                        }
                    }
                }
            }
        }
    }

    /// A channel is read.
    pub(super) fn is_open(&self, session: &Arc<Session>) {
        let mut state = self.state();
        state.session = Some(Arc::clone(session));
        state.reading = true;
        state.trouble = None;
    }

    /// There is no channel now.
    fn is_closed(&self, trouble: Option<PortError>) {
        let mut state = self.state();
        state.reading = false;
        state.session = None;
        state.trouble = trouble;
    }

    /// Lets the channel go when nobody has wanted anything for so long, and the flow has none of it.
    ///
    /// Nobody can begin to want anything meanwhile: what was handed out of a channel that ends would be handled twice.
    fn lets_go(&self, session: &Session, since: Duration) -> bool {
        let mut state = self.state();
        let unwanted = state.wanted == 0 && state.wanted_at.elapsed() > since && session.book().none_out();
        if unwanted {
            state.reading = false;
            state.session = None;
        }
        unwanted
    }

    async fn pump(self: &Arc<Self>, opened: Opened, asks: &mut mpsc::UnboundedReceiver<Ask>) -> End {
        let Opened { session, mut source, mut stray, mut due } = opened;
        let mut early: DelayQueue<Found> = DelayQueue::new();
        let hold = self.with.flow.longest_hold;
        let mut looks =
            tokio::time::interval((hold / 4).clamp(Duration::from_millis(10), Duration::from_secs(1)));
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stray_queue = names::stray(&self.with.flow);
        let since = Instant::now();
        loop {
            let next_of = async |consumer: &mut Option<Consumer>| match consumer {
                Some(consumer) => consumer.next().await,
                None => std::future::pending().await,
            };
            tokio::select! {
                () = self.stop.cancelled() => return End::Stopped,
                next = source.next() => match next {
                    Some(Ok(delivery)) => {
                        self.take(&session, delivery, false, &mut early);
                        while let Some(Some(Ok(delivery))) = source.next().now_or_never() {
                            self.take(&session, delivery, false, &mut early);
                        }
                        self.arrived.notify_one();
                    }
                    other => return self.lost(&session, &self.with.flow.queue, other),
                },
                next = next_of(&mut due) => match next {
                    Some(Ok(mut delivery)) => {
                        // Whatever it says, it does not come from the stream.
                        delivery.properties = wire::without_offset(delivery.properties);
                        self.take(&session, delivery, false, &mut early);
                        self.arrived.notify_one();
                    }
                    other => return self.lost(&session, &names::retry(&self.with.flow), other),
                },
                next = next_of(&mut stray) => match next {
                    Some(Ok(delivery)) => {
                        self.take(&session, delivery, true, &mut early);
                        self.arrived.notify_one();
                    }
                    other => return self.lost(&session, &stray_queue, other),
                },
                Some(due) = early.next(), if !early.is_empty() => {
                    self.place(&session, due.into_inner(), false, &mut early);
                    self.arrived.notify_one();
                }
                Some(ask) = asks.recv() => {
                    let counted = self.count(&session.channel).await;
                    // What was handed out before the answer has arrived before it.
                    while let Some(Some(Ok(delivery))) = source.next().now_or_never() {
                        self.take(&session, delivery, false, &mut early);
                    }
                    self.arrived.notify_one();
                    let _ = ask.send(counted);
                }
                _ = looks.tick() => {
                    if since.elapsed() >= STEADY {
                        self.is_steady();
                    }
                    if self.lets_go(&session, hold) {
                        return End::Held;
                    }
                }
            }
        }
    }

    fn lost(
        &self,
        session: &Session,
        queue: &str,
        next: Option<lapin::Result<lapin::message::Delivery>>,
    ) -> End {
        let doing = format!("the queue `{queue}` is not read any more");
        match next {
            Some(Err(error)) => End::Lost(trouble::away(&doing, &error)),
            _ if session.channel.status().connected() => {
                // The broker ended it and nothing else: the queue is gone.
                let why = format!(
                    "the queue `{queue}` was deleted, or has moved; nothing is read until it is there"
                );
                self.with.alarms.raise("queue_missing", queue, why.clone());
                End::Lost(PortError::Unavailable(why))
            }
            _ => End::Lost(PortError::Unavailable(format!("{doing}: the connection is gone"))),
        }
    }

    async fn count(&self, channel: &Channel) -> Option<Counted> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let name = link::short(&self.with.flow.queue).ok()?;
        let asked = channel.queue_declare(name, options, FieldTable::default());
        let queue = tokio::time::timeout(ANSWER, asked).await.ok()?.ok()?;
        Some(Counted { ready: queue.message_count().into(), consumers: queue.consumer_count() })
    }
}

/// Somebody waits to receive.
#[derive(Debug)]
pub(crate) struct Wanted(Arc<Reader>);

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.wanted -= 1;
        state.wanted_at = Instant::now();
    }
}
