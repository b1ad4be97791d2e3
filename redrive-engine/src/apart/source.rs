//! Reading the broker and the ledger's own queue as one source.
//!
//! A copy that comes back from the broker may have been sent another way meanwhile, or have come to an end. So the ledger
//! is asked for each before it is handed out, and what is not expected any more is released there at once. What the ledger
//! knows nothing of may have been resolved before the ledger was lost, which the broker knows, or be somebody else's, which
//! the adapter knows. Where the ledger is written first for every wait, it is asked for what is no copy, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::in_hand::entry_of;
use super::{Inner, errands, projection, record};
use crate::port::{
    BODY_AT, Copied, Delivery, Depth, EntryState, Expected, Outcome, PortError, REROUTE_TO, Revoked, Room,
    Settlement, Shelved, Source, Subscription, Tag,
};

/// The bit of a stream's number by which deliveries of the ledger's own queue are known.
const HOME: u32 = 1 << 31;
/// How long to wait before asking a ledger again that could not answer.
const ASK_AGAIN: Duration = Duration::from_millis(250);
const SETTLE_AGAIN: Duration = Duration::from_millis(500);

/// Whether a delivery came from the ledger's own queue.
pub(super) const fn is_home(tag: Tag) -> bool {
    is_home_stream(tag.stream)
}

/// Whether a stream is the ledger's own queue.
pub(super) const fn is_home_stream(stream: u32) -> bool {
    stream & HOME != 0
}

/// The tag as the ledger's store gave it.
pub(super) const fn from_home(tag: Tag) -> Tag {
    Tag { stream: tag.stream & !HOME, ..tag }
}

/// Opens both, and begins with what goes on beside the reading.
pub(super) async fn open(
    inner: &Arc<Inner>,
    subscription: &Subscription,
) -> Result<Box<dyn Source>, PortError> {
    let at_home = inner.at_home(subscription);
    let topology = inner.home.plan(&at_home).await?;
    inner.home.apply(&topology).await?;
    inner.begins().await?;
    let home = inner.home.subscribe(&at_home).await?;
    let outer = inner.outer.subscribe(subscription).await?;
    inner.projection.in_hand.clear();
    inner.home_stands.send_replace(false);
    let stop = inner.stop.child_token();
    let told = stop.clone();
    // It outlives the reading, since settling goes on after it.
    if !inner.telling.swap(true, Ordering::AcqRel) {
        let (telling, until) = (Arc::clone(inner), inner.stop.clone());
        tokio::spawn(async move { projection::keep_telling(&telling, until).await });
    }
    let helping = Arc::clone(inner);
    let reads = Arc::new(subscription.clone());
    let read = Arc::clone(&reads);
    tokio::spawn(async move { errands::run(&helping, &read, told).await });
    Ok(Box::new(Merged {
        inner: Arc::clone(inner),
        outer,
        home,
        from_outer: Vec::new(),
        from_home: Vec::new(),
        asking: Vec::new(),
        asked: None,
        ask_at: Instant::now(),
        home_at: Instant::now(),
        home_stands: inner.home_stands.subscribe(),
        reads,
        stop: stop.clone(),
        _stops: stop.drop_guard(),
    }))
}

struct Merged {
    inner: Arc<Inner>,
    outer: Box<dyn Source>,
    home: Box<dyn Source>,
    /// Received and not handed out.
    from_outer: Vec<Delivery>,
    from_home: Vec<Delivery>,
    /// Copies that the ledger has to be asked for.
    asking: Vec<Delivery>,
    /// Those that it is being asked for, beside the reading: a busy source does not keep the answer away.
    asked: Option<Question>,
    ask_at: Instant,
    /// When the ledger's own queue is read again.
    home_at: Instant,
    /// Whether it is not read at all, since it stands still for one of its messages.
    home_stands: watch::Receiver<bool>,
    reads: Arc<Subscription>,
    stop: CancellationToken,
    _stops: DropGuard,
}

/// Copies that the ledger is being asked for.
struct Question {
    copies: Vec<Delivery>,
    answer: JoinHandle<Result<Vec<Judgement>, PortError>>,
}

/// What happened first.
enum News {
    Outer(Result<(), PortError>),
    Home(Result<(), PortError>),
    Asked(Result<Vec<Judgement>, PortError>),
}

/// What becomes of a copy that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Judgement {
    HandOut,
    /// With the body that the ledger has: that at the broker is gone.
    HandOutWith(Bytes),
    /// As a message of its own: the entry that it names is not its own.
    HandOutAlone,
    Drop,
}

#[async_trait]
impl Source for Merged {
    async fn receive(&mut self, room: Room, into: &mut Vec<Delivery>) -> Result<(), PortError> {
        loop {
            let before = into.len();
            self.hand_out(into);
            if into.len() > before {
                return Ok(());
            }
            match self.next(room).await {
                News::Outer(result) => {
                    let is_back = self.from_outer.is_empty();
                    self.sift();
                    result?;
                    if is_back {
                        return Ok(());
                    }
                }
                News::Home(Ok(())) => self.inner.health.answers(&self.inner.flow),
                News::Home(Err(error)) => {
                    self.inner.health.is_away(&self.inner.flow, &error);
                    self.home_at = Instant::now() + ASK_AGAIN;
                }
                News::Asked(Ok(judged)) => {
                    self.inner.health.answers(&self.inner.flow);
                    self.answered(&judged);
                }
                News::Asked(Err(error)) => {
                    self.inner.health.is_away(&self.inner.flow, &error);
                    self.answered(&[]);
                    self.ask_at = Instant::now() + ASK_AGAIN;
                }
            }
        }
    }

    async fn depth(&mut self) -> Result<Depth, PortError> {
        let outer = self.outer.depth().await?;
        let home = self.home.depth().await.unwrap_or_default();
        Ok(Depth { ready: outer.ready + home.ready, waiting: outer.waiting + home.waiting })
    }

    async fn close(&mut self) {
        self.stop.cancel();
        self.outer.close().await;
        self.home.close().await;
    }

    fn revoked(&mut self) -> Option<mpsc::UnboundedReceiver<Revoked>> {
        self.outer.revoked()
    }

    fn granularity(&self) -> Duration {
        self.outer.granularity()
    }
}

impl Merged {
    /// Waits for either source, or for the ledger's word on copies. Whichever is dropped meanwhile keeps what it has.
    async fn next(&mut self, room: Room) -> News {
        self.ask();
        let waiting = self.asking.len() + self.asked.as_ref().map_or(0, |asked| asked.copies.len());
        let outer_room = Room {
            messages: room.messages.saturating_sub(waiting),
            retries: room.retries.saturating_sub(waiting),
            ..room
        };
        let Self { outer, home, from_outer, from_home, asking, asked, ask_at, home_at, home_stands, .. } =
            self;
        let mut stands = home_stands.clone();
        let read_home = async {
            if *home_at > Instant::now() {
                tokio::time::sleep_until(*home_at).await;
            }
            loop {
                goes_on(home_stands).await;
                tokio::select! {
                    biased;
                    () = stands_still(&mut stands) => {}
                    result = home.receive(room, from_home) => return result,
                }
            }
        };
        let answer = async {
            match asked {
                Some(Question { answer, .. }) => answer.await.unwrap_or_else(|error| {
                    Err(PortError::Unavailable(format!("the ledger was not asked: {error}")))
                }),
                None if asking.is_empty() => std::future::pending().await,
                // The next question goes out when this returns.
                None => {
                    tokio::time::sleep_until(*ask_at).await;
                    Ok(Vec::new())
                }
            }
        };
        // The branches are looked at in a random order, so that neither source starves the other.
        tokio::select! {
            result = outer.receive(outer_room, from_outer), if outer_room.messages > 0 => News::Outer(result),
            result = read_home => News::Home(result),
            result = answer => News::Asked(result),
        }
    }

    /// Asks the ledger for copies, unless it is being asked.
    fn ask(&mut self) {
        if self.asked.is_some() || self.asking.is_empty() || self.ask_at > Instant::now() {
            return;
        }
        let copies = std::mem::take(&mut self.asking);
        let (inner, reads, asked) = (Arc::clone(&self.inner), Arc::clone(&self.reads), copies.clone());
        let answer = tokio::spawn(async move { inner.judge_all(&reads, &asked).await });
        self.asked = Some(Question { copies, answer });
    }

    /// Puts copies aside until the ledger has been asked for them.
    fn sift(&mut self) {
        let asks =
            |delivery: &mut Delivery| entry_of(delivery).is_some() || self.inner.may_come_again(delivery);
        let copies = self.from_outer.extract_if(.., asks);
        for copy in copies {
            // Before the ledger is asked: a person's deed that it does not know of yet then waits for this one, and one
            // that it knows of makes this one spent.
            if let Some(entry) = entry_of(&copy) {
                self.inner.projection.in_hand.take(entry);
            }
            self.asking.push(copy);
        }
    }

    fn answered(&mut self, judged: &[Judgement]) {
        let Some(Question { copies, .. }) = self.asked.take() else { return };
        let mut spent = Vec::new();
        for (place, mut delivery) in copies.into_iter().enumerate() {
            match judged.get(place) {
                Some(Judgement::HandOut) => self.from_outer.push(delivery),
                Some(Judgement::HandOutWith(body)) => {
                    delivery.message.body = Some(body.clone());
                    delivery.message.headers.remove(BODY_AT);
                    delivery.trail.find_body();
                    self.from_outer.push(delivery);
                }
                Some(Judgement::HandOutAlone) => {
                    self.inner.projection.in_hand.end(&delivery);
                    delivery.trail.forget_entry();
                    self.from_outer.push(delivery);
                }
                Some(Judgement::Drop) => {
                    self.inner.projection.in_hand.end(&delivery);
                    spent.push(Settlement::plain(delivery, Outcome::Ack));
                }
                // Without an answer it is asked for again.
                None => self.asking.push(delivery),
            }
        }
        if !spent.is_empty() {
            tracing::debug!(flow = &*self.inner.flow, copies = spent.len(), "dropped spent copies");
            tokio::spawn(release(Arc::clone(&self.inner), spent, self.stop.clone()));
        }
    }

    /// Hands out what may be handed out; errands of the ledger's queue are run instead.
    fn hand_out(&mut self, into: &mut Vec<Delivery>) {
        into.append(&mut self.from_outer);
        if *self.home_stands.borrow() {
            return;
        }
        for mut delivery in self.from_home.drain(..) {
            if delivery.message.headers.contains(REROUTE_TO) {
                let (inner, reads) = (Arc::clone(&self.inner), Arc::clone(&self.reads));
                let stop = self.stop.clone();
                tokio::spawn(async move { errands::reroute(&inner, delivery, &reads.headers, stop).await });
                continue;
            }
            if self.inner.projection.in_hand.await_end(&delivery) {
                let (inner, stop) = (Arc::clone(&self.inner), self.stop.clone());
                tokio::spawn(async move { give_back_later(&inner, delivery, stop).await });
                continue;
            }
            if self.inner.projection.in_hand.has_succeeded(&delivery) {
                let (inner, stop) = (Arc::clone(&self.inner), self.stop.clone());
                let over = Settlement::plain(delivery, Outcome::Ack);
                tokio::spawn(async move { settle_home(&inner, &over, stop).await });
                continue;
            }
            debug_assert_eq!(delivery.tag.stream & HOME, 0, "no store has so many queues");
            delivery.tag.stream |= HOME;
            into.push(delivery);
        }
    }
}

/// Waits until the ledger's queue may be read. Whoever says so lives as long as the source.
async fn goes_on(stands: &mut watch::Receiver<bool>) {
    _ = stands.wait_for(|stands| !stands).await;
}

/// Waits until it may not be read.
async fn stands_still(stands: &mut watch::Receiver<bool>) {
    _ = stands.wait_for(|stands| *stands).await;
}

impl Inner {
    /// What becomes of copies that came back, and of what the ledger may have already.
    async fn judge_all(
        &self,
        subscription: &Subscription,
        asked: &[Delivery],
    ) -> Result<Vec<Judgement>, PortError> {
        let is_copy = |delivery: &&Delivery| entry_of(delivery).is_some();
        let copies: Vec<Delivery> = asked.iter().filter(is_copy).cloned().collect();
        let fresh: Vec<&Delivery> = asked.iter().filter(|delivery| !is_copy(delivery)).collect();
        let mut known = self.known(&fresh).await?.into_iter();
        let mut judged = self.judge(subscription, &copies).await?.into_iter();
        let of_fresh = |known| if known { Judgement::Drop } else { Judgement::HandOut };
        let next = |delivery| if is_copy(&delivery) { judged.next() } else { known.next().map(of_fresh) };
        Ok(asked.iter().filter_map(next).collect())
    }

    /// What becomes of copies that came back.
    async fn judge(
        &self,
        subscription: &Subscription,
        copies: &[Delivery],
    ) -> Result<Vec<Judgement>, PortError> {
        let copied: Vec<Copied> = copies.iter().filter_map(copied).collect();
        let expected = self.ledger.expected(&self.flow, &copied).await?;
        let mut judged = Vec::with_capacity(copies.len());
        let mut told = Vec::new();
        for ((delivery, copied), expected) in copies.iter().zip(copied).zip(expected) {
            let found = |put_aside| {
                let shelved = Shelved {
                    delivery: delivery.clone(),
                    state: EntryState::Waiting,
                    foreign: false,
                    bodiless: false,
                    carries_body: false,
                };
                record::found(self, shelved, put_aside)
            };
            judged.push(match expected {
                Expected::Yes => Judgement::HandOut,
                Expected::No => Judgement::Drop,
                Expected::Anothers => Judgement::HandOutAlone,
                Expected::AfterAll => {
                    told.push(found(false));
                    Judgement::HandOut
                }
                Expected::Unknown if delivery.trail.left_to().is_some() => Judgement::Drop,
                Expected::Unknown => {
                    let resolved = self.resolutions(subscription, &[copied.entry]).await?.pop().flatten();
                    match resolved {
                        Some(EntryState::Parked) => {
                            told.push(found(true));
                            Judgement::Drop
                        }
                        Some(state) if !state.is_unresolved() => Judgement::Drop,
                        _ => Judgement::HandOut,
                    }
                }
            });
        }
        for (delivery, judgement) in copies.iter().zip(&mut judged) {
            if *judgement == Judgement::HandOut
                && delivery.trail.body_is_gone()
                && let Some(body) = self.body_of(delivery).await?
            {
                *judgement = Judgement::HandOutWith(body);
            }
        }
        // Before it is handed out its lane is held again; before it is dropped the ledger has it.
        if !told.is_empty() {
            self.projection
                .record(&*self.ledger, &self.flow, &told)
                .await?
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?;
        }
        Ok(judged)
    }
}

impl Inner {
    /// The body of a message as the ledger has it.
    async fn body_of(&self, delivery: &Delivery) -> Result<Option<Bytes>, PortError> {
        let Some(entry) = entry_of(delivery) else { return Ok(None) };
        match self.ledger.payload(entry).await {
            Ok(payload) => Ok(payload.and_then(|payload| payload.body)),
            // It was left to the broker, which has it no more.
            Err(PortError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn copied(delivery: &Delivery) -> Option<Copied> {
    let (message, attempts) = (delivery.message.id.clone(), delivery.trail.attempt);
    entry_of(delivery).map(|entry| Copied { entry, message, attempts })
}

/// Gives a message back to the ledger's queue once its copy, which is being handled, has come to an end. When that was the
/// message's end too, there is nothing left to give back.
async fn give_back_later(inner: &Inner, delivery: Delivery, stop: CancellationToken) {
    let succeeded = tokio::select! {
        () = stop.cancelled() => return,
        succeeded = inner.projection.in_hand.gone(&delivery) => succeeded,
    };
    let back = match succeeded {
        Some(ended) => Settlement { delivery, ..*ended },
        None => Settlement::plain(delivery, Outcome::Return),
    };
    settle_home(inner, &back, stop).await;
}

/// Settles what the ledger's own queue handed out, as soon as the ledger answers.
async fn settle_home(inner: &Inner, settlement: &Settlement, stop: CancellationToken) {
    while let Some(Err(PortError::Unavailable(_))) =
        inner.home.settle(std::slice::from_ref(settlement)).await.pop()
    {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SETTLE_AGAIN) => {}
        }
    }
}

/// Releases copies that nobody expects any more. What is not released by the end comes again, and is spent again.
async fn release(inner: Arc<Inner>, mut spent: Vec<Settlement>, stop: CancellationToken) {
    loop {
        let answers = inner.outer.settle(&spent).await;
        let mut away = answers.into_iter().map(|answer| matches!(answer, Err(PortError::Unavailable(_))));
        spent.retain(|_| away.next().unwrap_or(false));
        if spent.is_empty() {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SETTLE_AGAIN) => {}
        }
    }
}
